"""The checks for cards, tried without cards: on simulated devices, on made-up frameworks, and on
made-up chapters that are wrong."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from needs import skip_without

from helpers import driver
from helpers.frameworks import MODULES, Seen, Sight
from tests.gpu import __main__ as script
from tests.gpu import checks
from tests.gpu.checks import Result

ROOT = Path(__file__).parents[2]
HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}


# --- without cards ---


def test_without_cards_the_script_says_so() -> None:
    """On a machine with cards as well: they are hidden. And no framework is imported."""
    program = (
        "import sys; from tests.gpu.__main__ import main; status = main([]); "
        f"assert not {set(MODULES.values())} & set(sys.modules); sys.exit(status)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        **{"cwd": ROOT, "env": os.environ | HIDDEN, "capture_output": True, "text": True},
    )
    assert run.returncode == 2, run.stderr
    assert re.fullmatch(r"No card to check on \(.+\)\.\n", run.stdout)


@pytest.mark.parametrize(
    ("visible", "sentence"),
    [
        ("1", ""),
        ("", "No card to check on (the list is empty, which hides all)."),
        ("7", "No card to check on (no card is called '7': it and everything after it is hidden)."),
    ],
)
def test_hidden_cards(visible: str, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [driver.Card(0, "First", uuid="GPU-1"), driver.Card(1, "Second", uuid="GPU-2")]
    monkeypatch.setattr(driver, "ask", lambda: None)
    monkeypatch.setattr(driver, "hear", lambda _: (cards, []))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert checks.no_cards.__wrapped__() == sentence


def test_unknown_framework(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        script.main(["jax"])
    assert stopped.value.code == 2
    assert "no framework jax: choose of tensorflow, pytorch, mxnet" in capsys.readouterr().err


# --- the table, with made-up frameworks ---

CARDS = [Seen("cuda:0", "First"), Seen("cuda:1", "Second")]
OLD = Seen("cuda:0", "Old", problem="no kernel image is available")
BOTH = "2 cards it can use, kernel own: cuda:0 (First), cuda:1 (Second)"
FIRST = "1 cards it can use, kernel own: cuda:0 (First)"
SECOND = "1 cards it can use, kernel own: cuda:1 (Second)"
NONE = "0 cards it can use, kernel own: none: the reason"
NOT_TWO = "2 two cards: not checked: it can use one card only"


@pytest.mark.parametrize(
    ("gpus", "fails", "lines", "status"),
    [
        (CARDS, "", [BOTH, "2 ok two: x", "2 speed: 1.9", "1 ok one: x"], 0),
        (CARDS, "two", [BOTH, "2 FAILED two: x", "2 speed: 1.9", "1 ok one: x"], 1),
        (CARDS, "one", [BOTH, "2 ok two: x", "2 speed: 1.9", "1 FAILED one: x"], 1),
        (CARDS[:1], "", [FIRST, NOT_TWO, "1 ok one: x"], 0),
        (CARDS[:1], "one", [FIRST, NOT_TWO, "1 FAILED one: x"], 1),
        ([OLD, CARDS[1]], "", [SECOND, NOT_TWO, "1 ok one: x"], 0),
        ([OLD], "", [NONE], 2),
        ([], "", [NONE], 2),
    ],
)
def test_table(
    gpus: list[Seen],
    fails: str,
    lines: list[str],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sight = Sight("pytorch", gpus=gpus)
    made_up = {
        "no_cards": lambda: "",
        "kernel_of": lambda framework: "own",
        "seen": lambda framework, kernel: (sight, "" if sight.usable else "the reason"),
        "two_cards": lambda name, kernel: [Result(name, 2, "two", "x", fails != "two")],
        "one_card": lambda name, kernel, device: [
            Result(name, 1, "one", "x", fails != "one" and device == sight.usable[0].device)
        ],
        "speed_up": lambda name, kernel: [Result(name, 2, "speed", "1.9")],
    }
    for name, function in made_up.items():
        monkeypatch.setattr(checks, name, function)
    assert script.main(["pytorch"]) == status
    heading, *printed = capsys.readouterr().out.splitlines()
    assert heading == checks.HEADING
    if status == 2:
        assert printed.pop() == "Nothing was checked: no framework can use a card here."
    assert [" ".join(told.split()) for told in printed] == [f"PyTorch {line}" for line in lines]


def gave_up(error: Exception) -> Sight:
    raise error


@pytest.mark.parametrize("error", [checks.Stopped("the kernel died"), ValueError("no JSON")])
def test_a_kernel_without_an_answer(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "kernel_of", lambda framework: "own")
    monkeypatch.setattr(checks, "seen", lambda framework, kernel: gave_up(error))
    (line,) = checks.all_of("mxnet")
    assert str(line) == f"MXNet           0  FAILED  kernel own: it gave no answer: {error}"


@pytest.mark.parametrize(("listed", "shown"), [(None, "1"), ("4, 7", "7")])
def test_the_one_card_is_the_one_that_can_be_used(
    listed: str | None, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if listed:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    monkeypatch.setattr(checks, "chapter", lambda *_, last, **variables: [variables])
    assert list(checks.one_card("pytorch", "own", "cuda:1")) == [{"CUDA_VISIBLE_DEVICES": shown}]


# --- made-up chapters ---

GOOD = {
    "pair": 'class pair:\n    sentence = "Real: MXNet uses two GPUs, gpu(0) and gpu(1)."',
    "run": (
        "from helpers import parity\n\ndef run(weight):\n    run = parity.Run()\n"
        "    run.record(1.0, [2.0], [weight])\n    return run"
    ),
    "s5-check": "one_device, two_devices = run(3.0), [run(3.0), run(3.0)]\nprint('the same')",
    # On stderr: for a chapter on cards that is as good.
    "after": "import sys; print('2 cards without peer access', file=sys.stderr)\nassert one_device",
}


def of_made_up_chapter(folder: Path, monkeypatch: pytest.MonkeyPatch, **other: str) -> list[str]:
    """The results for a chapter with these cells, the good ones but for ``other``, as lines."""
    cells = []
    for name, source in (GOOD | other).items():
        cell = nbformat.v4.new_code_cell(source, id=name)
        if name == "s5-check":
            cell.outputs = [nbformat.v4.new_output("stream", text="the same\n")]
        cells.append(cell)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "04_mxnet.ipynb")
    monkeypatch.setattr(checks, "NOTEBOOKS", folder)
    says = "Real: MXNet uses two GPUs"
    results = list(checks.chapter("mxnet", "python3", 2, says))
    assert checks.status(results) == (0 if all(result.ok for result in results) else 1)
    return [str(result).removeprefix("MXNet           2  ") for result in results]


def test_good_chapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_made_up_chapter(tmp_path, monkeypatch) == [
        "ok      the chapter: 4 cells as stored",
        "ok      devices: Real: MXNet uses two GPUs, gpu(0) and gpu(1).",
        *(
            f"ok      one device against two, {name}: 0.0e+00, allowed is 1e-06"
            for name in ("loss", "gradients", "weights")
        ),
    ]


def test_wrong_chapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything at once: other devices, another output, weights that differ, a false assertion."""
    other = {
        "pair": 'class pair:\n    sentence = "Simulated: MXNet can use no GPU."',
        "s5-check": "one_device, two_devices = run(3.0), [run(3.0), run(3.1)]\nprint('other')",
        "after": "assert not one_device, 'false'",
    }
    chapter, devices, loss, gradients, weights = of_made_up_chapter(tmp_path, monkeypatch, **other)
    assert chapter.startswith("FAILED  the chapter: after: AssertionError: false; s5-check: shows")
    assert devices.startswith("FAILED  devices: Simulated: ")
    assert loss.startswith("ok") and gradients.startswith("ok")
    assert weights == "FAILED  one device against two, weights: 1.0e-01, allowed is 1e-06"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("print('the same')", "one device against two: NameError: name 'two_devices' is not"),
        ("import os; os._exit(1)", "the chapter: the kernel died"),
        ("import time; time.sleep(60)", "the chapter: a cell took longer than 1 s"),
    ],
)
def test_chapter_that_tells_nothing(
    source: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 1 if "sleep" in source else 60
    monkeypatch.setattr(checks, "SECONDS_FOR_A_CELL", limit)
    last = of_made_up_chapter(tmp_path, monkeypatch, **{"s5-check": source})[-1]
    assert last.startswith(f"FAILED  {line}")


MEASURE_SIZE = """
from helpers.timing import Times

def measure_size(batch, width):
    return {"one device": Times((4.0, 4.0, 9.0)), "two devices": Times((2.0, 2.0, batch))}
"""


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (
            MEASURE_SIZE,
            [
                "s, 9 rows, width 8: 2.00 times as fast (middle half 1.00 to 2.00)",
                "l, 1 rows, width 9: 2.00 times as fast (middle half 2.00 to 9.00)",
            ],
        ),
        (
            "assert False, 'broken'",
            ["FAILED speed-up: s8-step-with-define: AssertionError: broken"],
        ),
        ("import os; os._exit(1)", ["FAILED speed-up: the kernel died"]),
    ],
)
def test_speed_up(
    source: str, lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = {"s7-not-needed": "assert False", checks.LAST["mxnet"]: source, "later": "assert False"}
    cells = [nbformat.v4.new_code_cell(source, id=name) for name, source in cells.items()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbformat.write(notebook, tmp_path / "04_mxnet_in_practice.ipynb")
    monkeypatch.setattr(checks, "NOTEBOOKS", tmp_path)
    monkeypatch.setattr(checks, "SIZES", {"s": (9, 8), "l": (1, 9)})
    results = list(checks.speed_up("mxnet", "python3"))
    assert [" ".join(str(result).split()) for result in results] == [
        f"MXNet 2 {line}" for line in lines
    ]
    assert checks.status(results) == (1 if "FAILED" in lines[0] else 2)


# --- a chapter itself, on simulated devices ---


def test_simulated_devices() -> None:
    """As with one card, where two simulated devices do the work, too."""
    skip_without("mxnet")
    says = "Simulated: MXNet can use no GPU"
    found = list(checks.chapter("mxnet", "python3", 0, says, last="s5-check", **HIDDEN))
    assert [str(result) for result in found if not result.ok] == []
    assert len(found) == 5


def test_framework_in_a_kernel() -> None:
    skip_without("mxnet")
    sight, why = checks.seen("mxnet", "python3")
    assert sight.framework == "mxnet" and not sight.error
    assert bool(why) is not bool(sight.usable)


@pytest.mark.parametrize("framework", MODULES)
def test_chapters_have_what_is_read_out(framework: str) -> None:
    """Without a run, so for each framework: the names that the added cells use."""

    def assigned(stem: str, last: str) -> set[str]:
        cells = nbformat.read(ROOT / f"notebooks/{stem}.ipynb", as_version=4).cells
        until = [cell.id for cell in cells].index(last) + 1
        code = [cell.source for cell in cells[:until] if cell.cell_type == "code"]
        source = "\n".join(re.sub(r"^[%!].*", "", each, flags=re.MULTILINE) for each in code)
        nodes = list(ast.walk(ast.parse(source)))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        return names | {node.name for node in nodes if isinstance(node, ast.FunctionDef)}

    stem = checks.STEMS[framework]
    assert assigned(stem, "s5-check") >= {"pair", "one_device", "two_devices"}
    assert "measure_size" in assigned(f"{stem}_in_practice", checks.LAST[framework])
