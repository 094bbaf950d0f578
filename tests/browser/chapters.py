"""A chapter as a reader runs it: the stored outputs, twice in one kernel, and no process left."""

from pathlib import Path
from typing import Any

import nbformat
from lab import NOTEBOOKS, Lab, within
from outputs import outputs_of

# In two halves that take equally long, one test file each: pytest gives each file to one of its
# two processes.
PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
OTHERS = [path for path in PATHS if "_in_practice" in path.stem or path.stem == "06_play"]
MAIN = [path for path in PATHS if path not in OTHERS]


def differences(stored: dict[str, list[str]], found: dict[str, list[str]]) -> list[str]:
    """The cells that show something else than is stored, and what."""
    return [
        f"{name}: {found.get(name)}, stored: {stored.get(name)}"
        for name in {**stored, **found}
        if found.get(name) != stored.get(name)
    ]


def run_twice(lab: Lab, browser: Any, path: Path) -> None:
    """Open the chapter, run all cells, and once more. Raises AssertionError with the cell that
    raises, takes too long or shows something else, and when processes become more or stay."""
    stored = outputs_of(nbformat.read(path, as_version=4))
    assert within(10, lambda: not lab.processes()), f"there already: {lab.processes()}"
    with lab.open(browser, path.name) as chapter:
        counts = []
        for number_of_pass in (1, 2):
            chapter.run_all()
            content = chapter.content()
            other = differences(stored, outputs_of(content))
            assert not other, f"pass {number_of_pass}: {other}"
            counts += [c["execution_count"] for c in content["cells"] if c["cell_type"] == "code"]
            if number_of_pass == 1:
                most = len(lab.processes())
        assert counts == list(range(1, len(counts) + 1)), f"not each cell ran twice: {counts}"
        fewer = within(10, lambda: len(lab.processes()) <= most)
        assert fewer, f"{most} processes became {lab.processes()}"
    assert within(10, lambda: not lab.processes()), f"left behind: {lab.processes()}"
