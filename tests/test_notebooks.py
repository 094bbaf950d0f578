"""House rules for every notebook.

Each rule is a function that returns what is wrong. The end of this file shows for each of them
that it rejects a small notebook that breaks it.
"""

import ast
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
import pytest
from strip_widgets import WIDGET, strip
from test_environment import pinned_version

FOLDER = Path(__file__).parents[1] / "notebooks"
CHAPTERS = [
    "01_devices",
    "02_tensorflow",
    "02_tensorflow_further",
    "02_tensorflow_in_practice",
    "03_pytorch",
    "03_pytorch_further",
    "03_pytorch_in_practice",
    "04_mxnet",
    "04_mxnet_further",
    "04_mxnet_in_practice",
    "05_summary",
    "06_play",
]
FRAMEWORKS = {  # the modules that a chapter may import, of those that belong to a framework
    "02_tensorflow": {"tensorflow", "keras"},
    "02_tensorflow_in_practice": {"tensorflow", "keras"},
    "03_pytorch": {"torch"},
    "03_pytorch_in_practice": {"torch"},
    "04_mxnet": {"mxnet"},
    "04_mxnet_in_practice": {"mxnet"},
    "02_tensorflow_further": set(),  # these three start programs, and import no framework
    "03_pytorch_further": set(),
    "04_mxnet_further": set(),
}

# Every cell whose output is not compared, and why. Nothing else may escape the comparison.
IGNORED: dict[tuple[str, str], str] = {
    ("01_devices", "survey-run"): "what the machine has",
    ("01_devices", "survey-picture"): "the memory of the machine",
    ("01_devices", "detection-tensorflow"): "what the machine has",
    ("01_devices", "detection-pytorch"): "what the machine has",
    ("01_devices", "detection-mxnet"): "what the machine has",
    ("01_devices", "fresh-run"): "how many GPUs the machine has",
    ("01_devices", "memory-growth"): "how many GPUs the machine has",
    ("01_devices", "versions"): "the versions installed",
    ("02_tensorflow", "devices-of-this-run"): "which devices: a fact of the machine",
    ("02_tensorflow", "s1-detect"): "what the machine has",
    ("02_tensorflow", "s5-rate-run"): "images per second: a time",
    ("02_tensorflow", "s6-bubble-run"): "a measured idle share: a time",
    ("02_tensorflow", "versions"): "the versions installed",
    ("02_tensorflow_further", "devices-of-this-run"): "which devices: a fact of the machine",
    ("02_tensorflow_further", "s10-two-run"): "images per second: a time",
    ("02_tensorflow_further", "s10-hosts-which"): "what the machine allows",
    ("02_tensorflow_further", "versions"): "the versions installed",
    ("02_tensorflow_in_practice", "devices-of-this-run"): "which devices: a fact of the machine",
    ("02_tensorflow_in_practice", "s7-start-run"): "which devices: a fact of the machine",
    ("02_tensorflow_in_practice", "s7-ratio-run"): "a ratio of times",
    ("02_tensorflow_in_practice", "s7-five-gantt"): "a picture of times",
    ("02_tensorflow_in_practice", "setup-devices"): "which devices: a fact of the machine",
    ("02_tensorflow_in_practice", "s8-cores"): "how many cores: a fact of the machine",
    ("02_tensorflow_in_practice", "s8-first-run"): "times",
    ("02_tensorflow_in_practice", "s8-wait-run"): "times",
    ("02_tensorflow_in_practice", "s8-machine-run"): "speeds of the machine",
    ("02_tensorflow_in_practice", "s8-predict-run"): "computed from speeds of the machine",
    ("02_tensorflow_in_practice", "s8-measure-run"): "times",
    ("02_tensorflow_in_practice", "s8-measure-picture"): "a picture of times",
    ("02_tensorflow_in_practice", "s8-scaling-run"): "ratios of times",
    ("02_tensorflow_in_practice", "s8-gantt-one"): "a picture of times",
    ("02_tensorflow_in_practice", "s8-gantt-packs"): "a picture of times",
    ("02_tensorflow_in_practice", "s8-busy-run"): "times",
    ("02_tensorflow_in_practice", "versions"): "the versions installed",
    ("03_pytorch", "devices-of-this-run"): "which devices: a fact of the machine",
    ("03_pytorch", "s1-detect"): "what the machine has",
    ("03_pytorch", "s3-dataparallel"): "how many GPUs the machine has",
    ("03_pytorch", "s3-start-run"): "which devices: a fact of the machine",
    ("03_pytorch", "s5-rate-run"): "images per second: a time",
    ("03_pytorch", "s6-bubble-run"): "a measured idle share: a time",
    ("03_pytorch", "versions"): "the versions installed",
    ("03_pytorch_further", "devices-of-this-run"): "which devices: a fact of the machine",
    ("03_pytorch_further", "s10-two-run"): "images per second: a time",
    ("03_pytorch_further", "s10-hosts-which"): "what the machine allows",
    ("03_pytorch_further", "versions"): "the versions installed",
    ("03_pytorch_in_practice", "devices-of-this-run"): "which devices: a fact of the machine",
    ("03_pytorch_in_practice", "s7-start-run"): "which devices: a fact of the machine",
    ("03_pytorch_in_practice", "s7-sees-run"): "what each worker sees: a fact of the machine",
    ("03_pytorch_in_practice", "s7-ratio-run"): "a ratio of times",
    ("03_pytorch_in_practice", "s7-gantt"): "a picture of times",
    ("03_pytorch_in_practice", "setup-start-run"): "which devices: a fact of the machine",
    ("03_pytorch_in_practice", "s8-cores"): "how many cores: a fact of the machine",
    ("03_pytorch_in_practice", "s8-trap-show"): "times",
    ("03_pytorch_in_practice", "s8-machine-show"): "speeds of the machine",
    ("03_pytorch_in_practice", "s8-formula-show"): "computed from speeds of the machine",
    ("03_pytorch_in_practice", "s8-grid-table"): "times",
    ("03_pytorch_in_practice", "s8-grid-picture"): "a picture of times",
    ("03_pytorch_in_practice", "s8-weak-show"): "ratios of times",
    ("03_pytorch_in_practice", "s8-gantt-late"): "a picture of times",
    ("03_pytorch_in_practice", "s8-gantt-early"): "a picture of times",
    ("03_pytorch_in_practice", "s8-ways-show"): "times",
    ("03_pytorch_in_practice", "versions"): "the versions installed",
    ("04_mxnet", "devices-of-this-run"): "which devices: a fact of the machine",
    ("04_mxnet", "s1-detect"): "what the machine has",
    ("04_mxnet", "s5-rate-run"): "images per second: a time",
    ("04_mxnet", "s6-bubble-run"): "a measured idle share: a time",
    ("04_mxnet", "versions"): "the versions installed",
    ("04_mxnet_further", "devices-of-this-run"): "which devices: a fact of the machine",
    ("04_mxnet_further", "s10-two-run"): "images per second: a time",
    ("04_mxnet_further", "s10-hosts-which"): "what the machine allows",
    ("04_mxnet_further", "versions"): "the versions installed",
    ("04_mxnet_in_practice", "devices-of-this-run"): "which devices: a fact of the machine",
    ("04_mxnet_in_practice", "s7-start-run"): "which devices: a fact of the machine",
    ("04_mxnet_in_practice", "s7-ratio-run"): "a ratio of times",
    ("04_mxnet_in_practice", "s7-gantt"): "a picture of times",
    ("04_mxnet_in_practice", "s8-cores"): "how many cores: a fact of the machine",
    ("04_mxnet_in_practice", "s8-wait-run"): "times",
    ("04_mxnet_in_practice", "s8-machine-run"): "speeds of the machine",
    ("04_mxnet_in_practice", "s8-measure-run"): "times",
    ("04_mxnet_in_practice", "s8-measure-picture"): "a picture of times",
    ("04_mxnet_in_practice", "s8-scaling-run"): "ratios of times",
    ("04_mxnet_in_practice", "s8-areas-run"): "ratios of times",
    ("04_mxnet_in_practice", "s8-timeline-run"): "a picture of times",
    ("04_mxnet_in_practice", "s8-overlap-run"): "a ratio of times",
    ("04_mxnet_in_practice", "versions"): "the versions installed",
    ("05_summary", "mxnet-pair"): "which devices: a fact of the machine",
    ("05_summary", "pytorch-pair"): "which devices: a fact of the machine",
    ("05_summary", "pytorch-start"): "which devices: a fact of the machine",
    ("05_summary", "speed-table"): "times",
    ("05_summary", "tensorflow-pair"): "which devices: a fact of the machine",
    ("05_summary", "versions"): "the versions installed",
    ("06_play", "versions"): "the versions installed",
}

MAX_BYTES = 300_000
MAX_WORDS = 110
MAX_LINES = 12
MAX_COLUMNS = 100

Notebook = dict[str, Any]


def code_cells(nb: Notebook) -> list[dict[str, Any]]:
    return [cell for cell in nb["cells"] if cell["cell_type"] == "code"]


def markdown_cells(nb: Notebook) -> list[dict[str, Any]]:
    return [cell for cell in nb["cells"] if cell["cell_type"] == "markdown"]


def code_lines(cell: dict[str, Any]) -> list[str]:
    lines = [line.strip() for line in cell["source"].splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


FENCED = re.compile(r"^ *(```|~~~).*?^ *\1", flags=re.DOTALL | re.MULTILINE)


def prose_words(source: str) -> int:
    """Words a reader reads: no code blocks, tables, tags or addresses of links."""
    source = FENCED.sub("", source)
    source = re.sub(r"^\s*\|.*$", "", source, flags=re.MULTILINE)
    source = re.sub(r"\]\([^)]*\)", "]", source)
    source = re.sub(r"<[^>]+>", " ", source)
    return sum(any(char.isalnum() for char in word) for word in source.split())


def texts(value: Any) -> Iterator[str]:
    """All strings in an output except pictures, which are not text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in ("image/png", "image/jpeg"):
                yield from texts(item)


# --- the rules ---


def valid_format(nb: Notebook) -> list[str]:
    try:
        nbformat.validate(nb)
    except nbformat.ValidationError as error:
        return [f"not a valid notebook: {error.message}"]
    return []


def readable_unique_ids(nb: Notebook) -> list[str]:
    ids = [cell.get("id", "") for cell in nb["cells"]]
    found = [f"{i}: twice" for i, count in Counter(ids).items() if count > 1]
    for i in ids:
        if not re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", i):
            found.append(f"{i!r}: not letters, digits and hyphens")
        elif re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f-]+)?", i):
            found.append(f"{i}: random; give the cell a name that says what it holds")
    return found


def python3_kernel(nb: Notebook) -> list[str]:
    name = nb["metadata"].get("kernelspec", {}).get("name")
    return [] if name == "python3" else [f"kernel {name!r}"]


def counts_in_order(nb: Notebook) -> list[str]:
    counts = [cell["execution_count"] for cell in code_cells(nb)]
    results = [
        f"{cell['id']}: the count of its output is another"
        for cell in code_cells(nb)
        for output in cell["outputs"]
        if output.get("execution_count", cell["execution_count"]) != cell["execution_count"]
    ]
    in_order = counts == list(range(1, len(counts) + 1))
    return results if in_order else [f"execution counts {counts}", *results]


def no_errors_stored(nb: Notebook) -> list[str]:
    return [
        f"{cell['id']}: {output['ename']}"
        for cell in code_cells(nb)
        for output in cell["outputs"]
        if output["output_type"] == "error"
    ]


def no_widgets_stored(nb: Notebook) -> list[str]:
    """A stored widget is a random number of its run; a still picture stands beside it."""
    return [
        cell["id"]
        for cell in code_cells(nb)
        for output in cell["outputs"]
        if WIDGET in output.get("data", {})
    ]


def no_noise_in_metadata(nb: Notebook) -> list[str]:
    allowed = {"kernelspec", "language_info", "tags", "jupyter"}
    parts = [("notebook", nb["metadata"])]
    parts += [(cell["id"], cell["metadata"]) for cell in nb["cells"]]
    found = [f"{name}: {key}" for name, metadata in parts for key in metadata.keys() - allowed]
    found += [f"{name}: no tags" for name, metadata in parts if metadata.get("tags") == []]
    found += [
        f"{cell['id']}: its output has metadata"
        for cell in code_cells(nb)
        for output in cell["outputs"]
        if output.get("metadata")
    ]
    return found + [f"{cell['id']}: attachments" for cell in nb["cells"] if "attachments" in cell]


def short_markdown(nb: Notebook) -> list[str]:
    sizes = [(cell["id"], prose_words(cell["source"])) for cell in markdown_cells(nb)]
    return [
        f"{name}: {words} words, at most {MAX_WORDS}" for name, words in sizes if words > MAX_WORDS
    ]


def short_code(nb: Notebook) -> list[str]:
    sizes = [(cell["id"], len(code_lines(cell))) for cell in code_cells(nb)]
    return [
        f"{name}: {lines} lines, at most {MAX_LINES}" for name, lines in sizes if lines > MAX_LINES
    ]


def no_long_lines(nb: Notebook) -> list[str]:
    """ruff does not read cells that begin with %%px, here and in the next rule."""
    return [
        f"{cell['id']}: {line}"
        for cell in code_cells(nb)
        for line in cell["source"].splitlines()
        if len(line) > MAX_COLUMNS
    ]


def one_statement_a_line(nb: Notebook) -> list[str]:
    """Else 12 lines would be no limit. A line that is IPython's is one statement."""
    found = []
    for cell in code_cells(nb):
        tree = ast.parse(
            re.sub(r"^(\s*)(%%?|!)\w.*", r"\1pass", cell["source"], flags=re.MULTILINE)
        )
        lines = Counter(node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt))
        found += [f"{cell['id']}: line {line}" for line, count in lines.items() if count > 1]
    return found


def no_trailing_semicolon(nb: Notebook) -> list[str]:
    return [
        f"{cell['id']}: {line}"
        for cell in code_cells(nb)
        for line in code_lines(cell)
        if line.endswith(";")
    ]


def no_sys_path(nb: Notebook) -> list[str]:
    return [cell["id"] for cell in code_cells(nb) if "sys.path" in cell["source"]]


def no_paths_of_a_machine(nb: Notebook) -> list[str]:
    pattern = re.compile(r"(?<![\w./~])/(?:home|root|work|tmp|Users)\b|\b[CD]:\\")
    return [
        f"{cell['id']}: ...{text[max(0, match.start() - 20) : match.end() + 20]!r}..."
        for cell in nb["cells"]
        for text in texts([cell["source"], cell.get("outputs", [])])
        if (match := pattern.search(text))
    ]


def nothing_skipped(nb: Notebook) -> list[str]:
    """nbval-ignore-output is the one way out of the comparison, and IGNORED lists its cells."""
    found = [cell["id"] for cell in code_cells(nb) if "NBVAL_" in cell["source"]]
    for cell in nb["cells"]:
        for tag in cell["metadata"].get("tags", []):
            if re.search("nbval|raises-exception|skip", tag) and tag != "nbval-ignore-output":
                found.append(f"{cell['id']}: {tag}")
    return found


def nothing_ignored_for_nothing(nb: Notebook) -> list[str]:
    return [
        cell["id"]
        for cell in code_cells(nb)
        if "nbval-ignore-output" in cell["metadata"].get("tags", []) and not cell["outputs"]
    ]


def true_stamp(nb: Notebook) -> list[str]:
    """The versions that it was "last verified with" are those of requirements.txt. The strict run
    cannot see that: on another Python they may be others. Labels such as +cpu do not count."""
    cells = [cell for cell in code_cells(nb) if cell["id"] == "versions"]
    if not cells:
        return ["no cell with the id versions"]
    stored = "".join(output.get("text", "") for output in cells[0]["outputs"]).strip()
    names = re.findall(r'"([\w-]+)"', cells[0]["source"])
    pinned = ", ".join(f"{name} {pinned_version(name, '3.11')}" for name in names)
    return [] if re.sub(r"\+\w+", "", stored) == pinned else [f"{stored}, but pinned: {pinned}"]


def title_first(nb: Notebook) -> list[str]:
    first = nb["cells"][0] if nb["cells"] else {"cell_type": None, "source": ""}
    if first["cell_type"] == "markdown" and first["source"].startswith("# "):
        return []
    return ["the first cell is no title"]


RULES = [
    valid_format,
    readable_unique_ids,
    python3_kernel,
    counts_in_order,
    no_errors_stored,
    no_widgets_stored,
    no_noise_in_metadata,
    short_markdown,
    short_code,
    no_long_lines,
    one_statement_a_line,
    no_trailing_semicolon,
    no_sys_path,
    no_paths_of_a_machine,
    nothing_skipped,
    nothing_ignored_for_nothing,
    true_stamp,
    title_first,
]


# Rules that need to know more than one notebook, or its name.


def foreign_frameworks(stem: str, nb: Notebook) -> list[str]:
    allowed = FRAMEWORKS.get(stem)
    if allowed is None:
        return []
    foreign = set.union(*FRAMEWORKS.values()) - allowed
    pattern = re.compile(rf"^(?:import|from) ({'|'.join(sorted(foreign))})\b")
    return [
        f"{cell['id']}: {line}"
        for cell in code_cells(nb)
        for line in code_lines(cell)
        if pattern.match(line)
    ]


def sections(nb: Notebook) -> list[str]:
    """The numbered headings of a chapter, such as '2 One device'."""
    return [
        heading
        for cell in markdown_cells(nb)
        for heading in re.findall(r"^## §(\d+ .+?)\s*$", cell["source"], flags=re.MULTILINE)
    ]


def different_sections(chapters: dict[str, Notebook], numbers: list[int]) -> list[str]:
    """``numbers`` are those of the sections that each of the chapters has to have."""
    (first, expected), *others = [(stem, sections(nb)) for stem, nb in chapters.items()]
    found = [f"{stem}: {own}, but {first}: {expected}" for stem, own in others if own != expected]
    own = [int(heading.split()[0]) for heading in expected]
    return found if own == numbers else [*found, f"{first}: section numbers {own}"]


def renamed_cells(before: Notebook, after: Notebook) -> list[str]:
    """Cells that have another id and the same source: done by an editor, not by somebody who
    meant it. Links between tests and cells are by id."""
    old, new = ({cell["id"]: cell["source"] for cell in nb["cells"]} for nb in (before, after))
    added = {source: name for name, source in new.items() if name not in old}
    return [
        f"{name} is now {added[source]}"
        for name, source in old.items()
        if name not in new and source in added
    ]


def anchors(nb: Notebook) -> set[str]:
    """What a link to a heading is called in JupyterLab and on GitHub: hyphens for spaces."""
    return {
        heading.replace("`", "").replace(" ", "-")
        for cell in markdown_cells(nb)
        for heading in re.findall(r"^#+ (.+?)\s*$", cell["source"], flags=re.MULTILINE)
    }


def unlisted_or_stale(
    chapters: dict[str, Notebook], listed: dict[tuple[str, str], str]
) -> list[str]:
    tagged = {
        (stem, cell["id"])
        for stem, nb in chapters.items()
        for cell in nb["cells"]
        if "nbval-ignore-output" in cell["metadata"].get("tags", [])
    }
    found = [f"{key}: not in IGNORED" for key in sorted(tagged - listed.keys())]
    found += [f"{key}: in IGNORED, but not tagged" for key in sorted(listed.keys() - tagged)]
    return found + [f"{key}: no reason" for key, reason in listed.items() if not reason.strip()]


# --- the notebooks keep the rules ---


def load(path: Path) -> Notebook:
    """The file as it is: nbformat.read would repair some of what is looked for."""
    return parse(path.read_text(encoding="utf-8"))


def parse(text: str) -> Notebook:
    nb = json.loads(text)
    for cell in nb["cells"]:
        cell["source"] = "".join(cell["source"])
        for output in cell.get("outputs", []):
            for part in (output, output.get("data", {})):
                for key, value in part.items():
                    if isinstance(value, list) and key != "traceback":
                        part[key] = "".join(value)
    return nb


PATHS = sorted(FOLDER.glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])


@each_notebook
@pytest.mark.parametrize("rule", RULES, ids=[rule.__name__ for rule in RULES])
def test_rule(rule: Callable[[Notebook], list[str]], path: Path) -> None:
    assert rule(load(path)) == []


@each_notebook
def test_small_file(path: Path) -> None:
    assert path.stat().st_size < MAX_BYTES


@each_notebook
def test_own_framework_only(path: Path) -> None:
    assert foreign_frameworks(path.stem, load(path)) == []


def test_these_chapters_exist() -> None:
    assert [path.stem for path in PATHS] == CHAPTERS


@pytest.mark.parametrize(
    ("part", "numbers"),
    [("", [1, 2, 3, 4, 5, 6]), ("_in_practice", [7, 8, 9]), ("_further", [10])],
)
def test_same_sections_in_each_framework(part: str, numbers: list[int]) -> None:
    stems = [f"{name}{part}" for name in ("02_tensorflow", "03_pytorch", "04_mxnet")]
    chapters = {stem: load(FOLDER / f"{stem}.ipynb") for stem in stems}
    assert different_sections(chapters, numbers) == []


@each_notebook
def test_cells_keep_their_ids(path: Path) -> None:
    """Compared with the last commit: an id that was changed on purpose is named here once."""
    if not shutil.which("git"):
        pytest.skip("needs git, to compare with the last commit")
    last = subprocess.run(
        ["git", "show", f"HEAD:./{path.name}"], cwd=FOLDER, capture_output=True, encoding="utf-8"
    )
    if last.returncode != 0:
        pytest.skip(f"nothing to compare with: {last.stderr.strip()}")
    assert renamed_cells(parse(last.stdout), load(path)) == []


def test_ignored_cells_are_listed_with_a_reason() -> None:
    assert unlisted_or_stale({p.stem: load(p) for p in PATHS}, IGNORED) == []


def test_what_the_pytorch_workers_repeat_is_unchanged() -> None:
    """§3 of the PyTorch chapter says that it repeats cells of §2 with %%px above them."""
    sources = {cell["id"]: cell["source"] for cell in load(FOLDER / "03_pytorch.ipynb")["cells"]}
    for name in ("model", "weights", "loop"):
        own = sources[f"s2-{name}-define"].split("\n\n\n")[-1]
        repeated = sources[f"s3-{name}"].removeprefix("%%px\n").split("\n\n\n")[-1]
        assert repeated == own


# --- the rules can fail ---


def notebook(*cells: dict[str, Any], **metadata: Any) -> Notebook:
    """A small notebook: a title, then the given cells."""
    return {
        "cells": [markdown("# Title", "title"), *cells],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}, **metadata},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def markdown(source: str, name: str = "text") -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}


def code(source: str, *outputs: dict[str, Any], count: int = 1, **metadata: Any) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": "code",
        "metadata": metadata,
        "source": source,
        "outputs": list(outputs),
        "execution_count": count,
    }


def stamp(*outputs: dict[str, Any], count: int = 2) -> dict[str, Any]:
    source = 'print(chapter.versions("torch"))'
    tags = ["nbval-ignore-output"]
    return {**code(source, *outputs, count=count, tags=tags), "id": "versions"}


def printed(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


ERROR = {"output_type": "error", "ename": "ValueError", "evalue": "", "traceback": []}
EXPLORER = {
    "output_type": "execute_result",
    "execution_count": 1,
    "metadata": {},
    "data": {WIDGET: {"model_id": "0f3a9b2c"}, "text/plain": "[picture] A line."},
}
LONG_TABLE = "\n".join(["| a | b |"] * 200)

STAMP = printed(f"torch {pinned_version('torch', '3.11')}+cpu\n")
GOOD = notebook(
    markdown(f"{'word ' * MAX_WORDS}\n\n{LONG_TABLE}\n\n```\n{'code ' * 200}\n```\n", "long"),
    code("# why\n" + "x = 1\n\n" * MAX_LINES, printed("images/s: 3/work\n")),
    stamp(STAMP),
    language_info={"name": "python"},
)

BROKEN: list[tuple[Callable[[Notebook], list[str]], Notebook]] = [
    (valid_format, notebook({"cell_type": "code", "id": "no-source"})),
    (readable_unique_ids, notebook(markdown("", "text"), markdown("", "text"))),
    (readable_unique_ids, notebook(markdown("", "0f3a9b2c"))),
    (readable_unique_ids, notebook(markdown("", "0f3a9b2c-7d4e-4c1b-9a51-5e8f00c2d3b4"))),
    (readable_unique_ids, notebook(markdown("", "under_score"))),
    (python3_kernel, notebook(kernelspec={"name": "my-env", "display_name": "mine"})),
    (counts_in_order, notebook(code("1", count=2))),
    (counts_in_order, notebook(code("1", {"output_type": "execute_result", "execution_count": 7}))),
    (no_errors_stored, notebook(code("1", ERROR))),
    (no_widgets_stored, notebook(code("1", EXPLORER))),
    (no_noise_in_metadata, notebook(widgets={})),
    (no_noise_in_metadata, notebook(code("1", tags=[]))),
    (no_noise_in_metadata, notebook(code("1", {**EXPLORER, "metadata": {"isolated": True}}))),
    (no_noise_in_metadata, notebook({**markdown("![a](b.png)"), "attachments": {}})),
    (no_noise_in_metadata, notebook(code("1", execution={"iopub.status.busy": "2026-01-01"}))),
    (short_markdown, notebook(markdown("word " * (MAX_WORDS + 1)))),
    (short_code, notebook(code("x = 1\n" * (MAX_LINES + 1)))),
    (no_long_lines, notebook(code("%%px\n" + "x" * (MAX_COLUMNS + 1)))),
    (one_statement_a_line, notebook(code("%%px\nx = 1; y = 2"))),
    (one_statement_a_line, notebook(code("for x in y: print(x)"))),
    (one_statement_a_line, notebook(code("if x:\n    %time y; z = 1\nelse: pass; 2"))),
    (no_trailing_semicolon, notebook(code("plt.plot(x);"))),
    (no_sys_path, notebook(code("sys.path.append('..')"))),
    (no_paths_of_a_machine, notebook(code("open('/home/me/data')"))),
    (no_paths_of_a_machine, notebook(code("1", printed("saved to /tmp")))),
    (no_paths_of_a_machine, notebook(markdown("In `C:\\Users\\me`"))),
    (nothing_skipped, notebook(code("# NBVAL_IGNORE_OUTPUT\n1"))),
    (nothing_skipped, notebook(code("1", tags=["nbval-skip"]))),
    (nothing_skipped, notebook(code("1", tags=["raises-exception"]))),
    (nothing_ignored_for_nothing, notebook(code("x = 1", tags=["nbval-ignore-output"]))),
    (true_stamp, notebook()),
    (true_stamp, notebook(stamp())),
    (true_stamp, notebook(stamp(printed("torch 1.0.0\n")))),
    (title_first, {**notebook(), "cells": [code("1")]}),
]


@pytest.mark.parametrize("rule", RULES, ids=[rule.__name__ for rule in RULES])
def test_rule_accepts_a_good_notebook(rule: Callable[[Notebook], list[str]]) -> None:
    assert rule(GOOD) == []


@pytest.mark.parametrize(("rule", "nb"), BROKEN, ids=[rule.__name__ for rule, _ in BROKEN])
def test_rule_rejects_a_broken_notebook(
    rule: Callable[[Notebook], list[str]], nb: Notebook
) -> None:
    assert rule(nb) != []


def test_widgets_are_stripped_and_their_text_stays() -> None:
    nb = notebook(code("1", deepcopy(EXPLORER)), widgets={})
    assert no_widgets_stored(nb) != [] and no_noise_in_metadata(nb) != []
    strip(nb)
    assert no_widgets_stored(nb) == no_noise_in_metadata(nb) == []
    assert nb["cells"][1]["outputs"][0]["data"] == {"text/plain": "[picture] A line."}


def test_every_rule_has_a_broken_notebook() -> None:
    assert {rule for rule, _ in BROKEN} == set(RULES)


@pytest.mark.parametrize(
    "line", ["import torch", "from torch import nn", "    import keras.layers"]
)
def test_a_foreign_framework_is_rejected(line: str) -> None:
    nb = notebook(code(f"%%px\n{line}"))
    assert foreign_frameworks("04_mxnet", nb) != []
    assert foreign_frameworks("05_summary", nb) == []


def test_a_framework_may_import_itself() -> None:
    assert foreign_frameworks("03_pytorch", notebook(code("import torch, torchlike"))) == []


def test_different_sections_are_rejected() -> None:
    one, two = notebook(markdown("## §1 One")), notebook(markdown("## §1 Two"))
    unordered = notebook(markdown("## §2 Two"), markdown("## §1 One", "one"))
    assert different_sections({"02": one, "03": one}, [1]) == []
    assert different_sections({"02": one, "03": two}, [1]) != []
    assert different_sections({"02": unordered, "03": unordered}, [1, 2]) != []
    assert different_sections({"02": notebook()}, [1]) != []


def test_a_renamed_cell_is_rejected() -> None:
    before = notebook(markdown("One", "one"), markdown("Same", "first"), markdown("Same", "second"))
    renamed = notebook(markdown("One", "uno"), *before["cells"][2:])
    rewritten = notebook(markdown("Two", "two"), *before["cells"][3:])
    assert renamed_cells(before, renamed) == ["one is now uno"]
    assert renamed_cells(before, rewritten) == renamed_cells(before, before) == []


def test_unlisted_and_stale_cells_are_rejected() -> None:
    tagged = {"01": notebook(code("1", tags=["nbval-ignore-output"]))}
    assert unlisted_or_stale(tagged, {("01", "code"): "times"}) == []
    assert unlisted_or_stale(tagged, {}) != []
    assert unlisted_or_stale(tagged, {("01", "code"): " "}) != []
    assert unlisted_or_stale({"01": notebook()}, {("01", "code"): "times"}) != []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<object at 0x7f3a5c1d2e30>", "<object at ADDRESS>"),
        ("read /srv/data/x.npz now", "read PATH now"),
        ("http://127.0.0.1:54321 up", "http://127.0.0.1:PORT up"),
        ("took 12.5 ms, 3s", "took TIME, TIME"),
        (
            "loss 0.4821, 1/2/3, 75 %, <b>x</b></td></tr>",
            "loss 0.4821, 1/2/3, 75 %, <b>x</b></td></tr>",
        ),
        (
            "in images/train/shirts, 200 images/s/device",
            "in images/train/shirts, 200 images/s/device",
        ),
    ],
)
def test_what_nbval_does_not_compare(before: str, after: str) -> None:
    rules = re.findall(
        r"^regex: (.*)$\n^replace: (.*)$",
        (Path(__file__).parent / "nbval_sanitize.cfg").read_text(encoding="ascii"),
        flags=re.MULTILINE,
    )
    for regex, replacement in rules:
        before = re.sub(regex, replacement, before)
    assert before == after
