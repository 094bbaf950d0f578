"""A chapter as a reader runs it: all cells, all again, the last ones again, in one kernel.

Without --thorough only chapter 6 is run as a whole again, and of the notebooks *in practice* and
*further*, which nbval runs, only one is run here.
"""

from pathlib import Path
from typing import Any

import nbformat
from lab import NOTEBOOKS, Lab, within
from needs import of_chapter, skip_without
from outputs import last_cells, outputs_of

# In two halves that take equally long, one test file each: pytest gives each file to one of its
# two processes.
PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
OTHERS = [p for p in PATHS if p.stem.endswith(("_in_practice", "_further")) or "play" in p.stem]
MAIN = [path for path in PATHS if path not in OTHERS]
AGAIN = "06_play"
ALWAYS = ("04_mxnet_further", "06_play")


def differences(stored: dict[str, list[str]], found: dict[str, list[str]]) -> list[str]:
    """The cells that show something else than is stored, and what."""
    return [
        f"{name}: {found.get(name)}, stored: {stored.get(name)}"
        for name in {**stored, **found}
        if found.get(name) != stored.get(name)
    ]


def passes(path: Path, thorough: bool) -> int:
    """How often this chapter is run as a whole."""
    return 2 if thorough or path.stem == AGAIN else 1


def run(lab: Lab, browser: Any, path: Path, passes: int) -> None:
    """Open the chapter, run all cells so many times, and then the last ones. Raises AssertionError
    with the cell that raises, takes too long or shows something else than is stored, and when
    processes become more or stay."""
    skip_without(*of_chapter(path.stem))
    stored = outputs_of(nbformat.read(path, as_version=4))
    assert within(10, lambda: not lab.processes()), f"there already: {lab.processes()}"
    with lab.open(browser, path.name) as chapter:
        counts = []
        for number_of_pass in range(1, passes + 1):
            chapter.run_all()
            content = chapter.content()
            other = differences(stored, outputs_of(content))
            assert not other, f"pass {number_of_pass}: {other}"
            counts += [c["execution_count"] for c in content["cells"] if c["cell_type"] == "code"]
            if number_of_pass == 1:
                most = len(lab.processes())
        assert counts == list(range(1, len(counts) + 1)), f"not each cell ran: {counts}"
        chapter.run_again(last_cells(content))
        other = differences(stored, outputs_of(chapter.content()))
        assert not other, f"the last cells again: {other}"
        fewer = within(10, lambda: len(lab.processes()) <= most)
        assert fewer, f"{most} processes became {lab.processes()}"
    assert within(10, lambda: not lab.processes()), f"left behind: {lab.processes()}"
