"""The tables of chapter 5 say what the chapters do: each call, message and test stands where the
row says, the six programs run and agree, the decision table is the explorer's, the sheet is a page.

Each check is a function that returns what is wrong, and is shown to reject a broken table.
"""

import difflib
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import nbconvert
import nbformat
import numpy as np
import pytest
from browser.lab import NEEDED, chromium, found
from needs import skip_without
from test_notebooks import FOLDER, code_cells, load

from helpers.explore.which_split import FITS, STEPS, WANTS, recommend

CELLS = {cell["id"]: cell for cell in load(FOLDER / "05_summary.ipynb")["cells"]}
SUMMARY = {name: cell["source"] for name, cell in CELLS.items()}
CHAPTERS = {"tensorflow": "02_tensorflow", "pytorch": "03_pytorch", "mxnet": "04_mxnet"}
STEMS = list(CHAPTERS.values())
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]*)#?([^)\s]*)\)")
SPAN = re.compile(r"``\s*(.+?)\s*``|`([^`]+)`")


def spans(text: str) -> list[str]:
    """What stands in this Markdown as code."""
    return [double or single for double, single in SPAN.findall(text)]


def rows(source: str) -> list[list[str]]:
    """The rows of the tables of a cell, without their heads."""
    lines = [line for line in source.splitlines() if line.startswith("|")]
    heads = {i - 1 for i, line in enumerate(lines) if set(line) <= set("|-: ")}
    lines = [line for i, line in enumerate(lines) if i not in heads and set(line) - set("|-: ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@cache
def section(file: str, anchor: str = "") -> tuple[str, str]:
    """The code under a heading of a notebook, up to the next heading of its level; and all that
    stands there, with the outputs. Without a heading: of the whole file."""
    path = (FOLDER / file).resolve()
    if path.suffix != ".ipynb":
        return 2 * (path.read_text(encoding="utf-8"),)
    code, text, level = "", "", 0 if anchor else 99
    for cell in load(path)["cells"]:
        heading = re.search(r"^(#+) (.+?)\s*$", cell["source"], flags=re.MULTILINE)
        if cell["cell_type"] == "markdown" and heading and anchor:
            here = heading[2].replace("`", "").replace(" ", "-") == anchor
            if level and len(heading[1]) <= level:
                break
            level = level or (len(heading[1]) if here else 0)
        if level:
            outputs = [o.get("text", "") + str(o.get("data", "")) for o in cell.get("outputs", [])]
            text += "\n".join([cell["source"], *outputs, ""])
            code += cell["source"] + "\n" if cell["cell_type"] == "code" else ""
    return code, text


def links(text: str) -> list[tuple[str, str, str]]:
    """The words, the file and the heading of each link."""
    return [(words, file, unquote(anchor)) for words, file, anchor in LINK.findall(text)]


# --- the checks ---


def missing_calls(source: str) -> list[str]:
    """Calls in the words of a link that the code of its section does not have."""
    return [
        f"{call}: not in {file}#{anchor}"
        for words, file, anchor in links(source)
        for call in spans(words)
        if call not in section(file, anchor)[0]
    ]


def missing_changes(source: str) -> list[str]:
    """Code in a column of the table that the section in the column's last row does not have."""
    *table, last = rows(source)
    places = [section(file, anchor)[0] for _, file, anchor in links(" ".join(last))]
    return [
        f"{code}: not in {STEMS[column]}"
        for row in table
        for column, cell in enumerate(row[1:])
        for code in spans(cell)
        if code not in places[column]
    ]


def missing_words(source: str) -> list[str]:
    """Names of a framework that its section in the last column does not have. A section of
    chapter 1 counts for all three."""
    wrong = []
    for _, *columns, where in rows(source):
        for stem, cell in zip(STEMS, columns, strict=True):
            places = [p for p in links(where) if p[1].startswith((stem, "01_devices"))]
            text = "".join(section(file, anchor)[1] for _, file, anchor in places)
            wrong += [f"{name}: not in {stem}" for name in spans(cell) if name not in text]
    return wrong


def missing_messages(source: str) -> list[str]:
    """Messages that occur in none of the places of their row; rows without a message or place."""
    wrong = []
    for message, _, where in rows(source):
        # Of Python's strings the test files have the quotation marks escaped, or split in two.
        texts = [section(file, anchor)[1].replace('\\"', '"') for _, file, anchor in links(where)]
        told = spans(message)
        if not told or not any(told[0] in text for text in texts):
            wrong.append(message)
    return wrong


def missing_tests(source: str) -> list[str]:
    """Words for pytest's -k that pick no test of the article."""
    names = re.findall(r"^def (test_\w+)", section("../tests/test_article.py")[0], re.MULTILINE)
    words = [word for row in rows(source) for word in " ".join(spans(row[3])).split(" or ") if word]
    return [word for word in words if not any(word in name for name in names)]


def wrong_advice(source: str) -> list[str]:
    """Rows of the decision table that the explorer answers otherwise, for one of their cases."""
    wrong = []
    for row in rows(source):
        want, fits, alike, steps, split, where = row
        sections = {int(n) for n in re.findall(r"#§(\d)", where)}
        cases = itertools.product(
            WANTS if want == "-" else [want],
            FITS if fits == "-" else [fits],
            {"-": [True, False], "yes": [True], "no": [False]}[alike],
            STEPS if steps == "-" else [steps],
        )
        for case in cases:
            advice = recommend(*case)
            if (advice.split, {advice.section}) != (split, sections):
                wrong.append(f"{case}: {advice.split}")
    return wrong


def blocks(source: str) -> list[str]:
    return re.findall(r"^```\w+\n(.*?)^```", source, flags=re.DOTALL | re.MULTILINE)


def faults_of_sheet(source: str) -> list[str]:
    """Blocks of more than ten lines, lines too wide for paper, calls that no chapter has."""
    wrong = [] if len(blocks(source)) == 3 else ["not three blocks"]
    for stem, block in zip(STEMS, blocks(source), strict=False):
        lines = block.splitlines()
        wrong += [f"{stem}: {len(lines)} lines"] if len(lines) > 10 else []
        wrong += [line for line in lines if len(line) > 80]
        files = [f"{stem}.ipynb", f"{stem}_in_practice.ipynb", f"scripts/train_{stem[3:]}.py"]
        text = "".join(section(file)[1] for file in files)
        code = re.sub(r"#.*", "", block)
        wrong += [f"{stem}: {call}" for call in re.findall(r"[\w.]+\(", code) if call not in text]
    return wrong


def programs(source: str) -> tuple[str, str]:
    """The programs for one device and for two, from what a cell shows as their difference."""
    (diff,) = blocks(source)
    one, two = (
        "".join(line[1:] for line in diff.splitlines(keepends=True) if line[0] in marks)
        for marks in (" -", " +")
    )
    return one, two


def marked_for_nothing(source: str) -> list[str]:
    """Lines that are marked as different and need not be."""
    one, two = (program.splitlines() for program in programs(source))
    needed = [line for line in difflib.ndiff(one, two) if line[0] in "-+"]
    marked = [line for line in blocks(source)[0].splitlines() if line[0] in "-+"]
    return marked if len(marked) > len(needed) else []


def wrong_numbers(source: str, chapter: str) -> list[str]:
    """Changes of the chapter's list that the program does not name under their number."""
    listed = re.findall(r"^(\d)\. \*\*(\w+)\*\*", chapter, flags=re.MULTILINE)
    named = re.findall(r"\b(\d) ([a-z]+)", " ".join(re.findall("# .*", programs(source)[1])))
    return sorted({(n, word.lower()) for n, word in listed} ^ set(named))


# --- the tables hold ---

WORDS = ["words", "words-more", "words-rest"]
TRAPS = [name for name in SUMMARY if name.startswith("traps") and name != "traps-silent"]
CHECKED: list[tuple[Callable[[str], list[str]], list[str]]] = [
    (missing_calls, ["splits", "splits-with"]),
    (missing_changes, ["forms"]),
    (missing_words, WORDS),
    (missing_messages, TRAPS),
    (missing_tests, ["article", "article-more"]),
    (wrong_advice, ["whom"]),
    (faults_of_sheet, ["cheat-sheet"]),
    (marked_for_nothing, [f"forms-{framework}" for framework in CHAPTERS]),
]


@pytest.mark.parametrize(
    ("check", "name"), [(check, name) for check, names in CHECKED for name in names]
)
def test_the_cell_is_right(check: Callable[[str], list[str]], name: str) -> None:
    assert check(SUMMARY[name]) == []


@pytest.mark.parametrize(
    "name", ["splits", "splits-with", "forms", *WORDS, *TRAPS, "article", "article-more", "whom"]
)
def test_a_table_has_rows_with_links(name: str) -> None:
    table = rows(SUMMARY[name])
    assert len(table) > 4 and len({len(row) for row in table}) == 1
    if name != "forms":  # its last row has the links of all
        assert all(links(" ".join(row)) for row in table)


@pytest.mark.parametrize(
    "file", [f"{stem}{part}" for stem in STEMS for part in ("", "_in_practice", "_further")]
)
def test_each_split_of_a_chapter_is_linked(file: str) -> None:
    """Each section from §3 on has a link somewhere in the summary."""
    path = FOLDER / f"{file}.ipynb"
    if not path.exists():
        pytest.skip(f"there is no {path.name}")
    numbers = set(re.findall(r"^## §(\d+) ", section(path.name)[1], re.MULTILINE)) - {"1", "2"}
    there = {
        number
        for source in SUMMARY.values()
        for _, target, anchor in links(source)
        if target == path.name
        for number in section_numbers(target, anchor)
    }
    assert numbers <= there


def section_numbers(file: str, anchor: str) -> Iterable[str]:
    """The number of the section that a heading belongs to."""
    number = ""
    for heading in re.findall(r"^##+ (.+?)\s*$", section(file)[1], flags=re.MULTILINE):
        number = (re.match(r"§(\d+) ", heading) or [0, number])[1]
        if heading.replace("`", "").replace(" ", "-") == anchor:
            yield number
            return


def test_the_contents_lead_to_every_part() -> None:
    parts = re.findall("^## (.+)$", "\n".join(SUMMARY.values()), flags=re.MULTILINE)
    runs = {"PyTorch:", "MXNet:", "TensorFlow:", "What's"}  # of these parts the first words
    wanted = [part.replace(" ", "-") for part in parts if part.split()[0] not in runs]
    assert [anchor for _, _, anchor in links(SUMMARY["contents"])] == wanted


# --- the tables can be wrong ---


def changed(name: str, old: str, new: str) -> str:
    assert SUMMARY[name].count(old) >= 1
    return SUMMARY[name].replace(old, new, 1)


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        (missing_calls, changed("splits", "`MirroredStrategy`", "`DataParallel`")),
        (missing_calls, changed("splits", "#Micro-batches", "#Two-halves")),
        (missing_calls, changed("splits-with", "`timing.compare`", "`timing.ratio_of`")),
        (missing_changes, changed("forms", "`strategy.scope()`", "`strategy.reduce()`")),
        (missing_words, changed("words", "`get_replica_context`", "`replica_id_in_sync_group`")),
        (missing_words, changed("words-more", "`SyncBatchNorm`", "`BatchNorm3d`")),
        (missing_words, changed("words-rest", "`os.replace`", "`os.rename`")),
        (missing_messages, changed("traps", "Virtual devices", "Logical devices")),
        (missing_messages, changed("traps-pytorch", "expected input tensor", "wanted a tensor")),
        (missing_messages, changed("traps-helpers", "../helpers/workers.py", "../helpers/jobs.py")),
        (missing_tests, changed("article", "`old_names`", "`new_names`")),
        (wrong_advice, changed("whom", "yes | no | mostly computing", "yes | - | very short")),
        (wrong_advice, changed("whom", "#§7-Split", "#§6-Split")),
        (faults_of_sheet, changed("cheat-sheet", "with strategy", "1\nwith strategy")),
        (faults_of_sheet, changed("cheat-sheet", "# before anything else", 60 * "#")),
        (faults_of_sheet, changed("cheat-sheet", "net.fit(", "net.train(")),
        (marked_for_nothing, changed("forms-mxnet", "\n net = ", "\n-net = 1\n+net = 1\n net = ")),
    ],
)
def test_a_broken_cell_is_rejected(check: Callable[[str], list[str]], broken: str) -> None:
    assert check(broken) != []


# --- the programs run ---

STARTS = {  # the names that the programs use: §2 of the chapters
    "tensorflow": (
        "from helpers import datasets, devices\n"
        "devices = devices.pair('tensorflow').devices\n"
        "import tensorflow as tf\n",
        ["s2-model-define"],
        "strategy.num_replicas_in_sync",
        "net.get_weights()",
    ),
    "pytorch": (
        "import torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel\n"
        "from torch.utils.data import DataLoader, DistributedSampler\n"
        "import torch, torch.distributed.nn.functional  # before the group: see train_pytorch.py\n"
        "from helpers import datasets\nbackend, device = 'gloo', 'cpu'\n",
        ["s2-model-define", "s2-weights-define", "s2-loader"],
        "dist.get_world_size()",
        "[weight.detach().numpy() for weight in net.parameters()]",
    ),
    "mxnet": (
        "import numpy as np\nnp.bool = bool\nimport mxnet as mx\n"
        "from mxnet import autograd, gluon\n"
        "from helpers import datasets\ndevices = [mx.cpu(0), mx.cpu(1)]\n",
        ["s2-model-define", "s2-weights-define", "s2-loader"],
        "len(net.fc1.weight.list_data())",
        "[p.data(contexts[0]).asnumpy() for p in net.collect_params().values()]",
    ),
}
BREAKS = {  # in the program for two devices, each a usual mistake
    "tensorflow": [("batch_size=128", "batch_size=64")],
    # The processes have met already.
    "pytorch": [("DistributedDataParallel(net)", "net"), ("dist.init_process_group", "print")],
    "mxnet": [("step(len(data))", "step(len(data) // 2)")],
}
RUN = """
import numpy, os
for name, program in {programs!r}.items():
    names = dict(GIVEN)
    exec(program, names)
    weights = eval({weights!r}, names)
    count = 1 if name == "one" else eval({count!r}, names)
    if os.environ.get("RANK", "0") == "0":
        numpy.savez(os.path.join({folder!r}, name), *weights, count=count)
    del names
"""


@pytest.mark.parametrize("framework", CHAPTERS)
def test_the_programs_run_and_two_devices_equal_one(framework: str, tmp_path: Path) -> None:
    """With the two-device program broken in one place as the control."""
    skip_without(framework)
    one, two = programs(SUMMARY[f"forms-{framework}"])
    broken = two
    for old, new in BREAKS[framework]:
        assert two.count(old) == 1
        broken = broken.replace(old, new)
    start, cells, count, weights = STARTS[framework]
    chapter = load(FOLDER / f"{CHAPTERS[framework]}.ipynb")
    sources = {cell["id"]: cell["source"] for cell in code_cells(chapter)}
    script = start + "images = datasets.fashion_mnist()\n"
    script += "\n".join(sources[name] for name in cells) + "\nGIVEN = dict(globals())\n"
    script += RUN.format(
        programs={"one": one, "two": two, "broken": broken},
        weights=weights,
        count=count,
        folder=str(tmp_path),
    )
    if framework == "pytorch":
        script += "dist.destroy_process_group()\n"
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ended = subprocess.run(
        [sys.executable, *(launcher if framework == "pytorch" else []), tmp_path / "train.py"],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert ended.returncode == 0, ended.stderr
    results = {name: np.load(tmp_path / f"{name}.npz") for name in ("one", "two", "broken")}
    gaps = {
        name: max(abs(results["one"][key] - run[key]).max() for key in run if key != "count")
        for name, run in results.items()
    }
    assert [int(run["count"]) for run in results.values()] == [1, 2, 2]
    assert gaps["two"] < 1e-5 < 1e-3 < gaps["broken"]


@pytest.mark.parametrize(("framework", "stem"), CHAPTERS.items())
def test_the_changes_have_the_numbers_of_the_chapter(framework: str, stem: str) -> None:
    chapter = section(f"{stem}.ipynb", "§3-Split-the-batch:-the-tool")[1]
    source = SUMMARY[f"forms-{framework}"]
    assert wrong_numbers(source, chapter) == []
    assert wrong_numbers(source.replace("  # 2 ", "  # 7 ").replace("and 2 ", "7 "), chapter) != []


# --- the sheet on paper ---


def pages(*sources: str) -> int:
    """How many pages of paper these Markdown cells take, printed as JupyterLab prints them."""
    cells = [nbformat.v4.new_markdown_cell(source) for source in sources]
    html, _ = nbconvert.HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=cells))
    with chromium() as browser:
        page = browser.new_page()
        page.set_content(re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL))
        paper = page.pdf(
            format="A4", margin=dict.fromkeys(("top", "bottom", "left", "right"), "1cm")
        )
    return len(re.findall(rb"/Type\s*/Page\b", paper))


@pytest.mark.skipif(not found(), reason=NEEDED)
def test_the_sheet_is_one_page_of_its_own() -> None:
    sheet = SUMMARY["cheat-sheet"]
    assert pages("Before.", sheet, SUMMARY["next"]) == 3
    assert pages("Before.", sheet + 3 * ("\n" + blocks(sheet)[0]), SUMMARY["next"]) > 3
