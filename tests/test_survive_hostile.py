"""The strict check passes in unusual surroundings. All chapters there: python -m tests.hostile."""

import subprocess
from pathlib import Path

import hostile
import nbformat
import pytest
from needs import of_chapter, skip_without
from strict import small_notebook

CHAPTERS = Path(__file__).parents[1] / "notebooks"

UNUSUAL = """
import os, socket, sys, time
from pathlib import Path

assert not Path.home().is_dir() and time.tzname[0] == "+0545"
assert sys.platform != "linux" or len(os.sched_getaffinity(0)) == 1
try:
    socket.create_connection(("192.0.2.1", 80))  # an address for documentation: nobody has it
except OSError as error:
    assert "no network here" in str(error)
else:
    raise AssertionError("there is a network")
"""
WARNED = "import warnings\nwarnings.warn('on, all of them', ResourceWarning)"


def beginning(stem: str, end: str, folder: Path) -> Path:
    """Store the cells of a chapter before the one with the id ``end``, with their outputs."""
    notebook = nbformat.read(CHAPTERS / f"{stem}.ipynb", as_version=4)
    ids = [cell.id for cell in notebook.cells]
    notebook.cells = notebook.cells[: ids.index(end)]
    path = folder / f"{stem}.ipynb"
    nbformat.write(notebook, path)
    return path


@pytest.mark.parametrize(
    ("stem", "end"),
    [
        pytest.param("01_devices", "next", marks=pytest.mark.thorough),
        ("02_tensorflow", "s3-accuracy"),
        ("03_pytorch", "s3-dataparallel"),
        ("04_mxnet", "s3-ex-two-devices"),
        ("06_play", "next"),
    ],
)
def test_a_chapter(stem, end, tmp_path):
    skip_without(*of_chapter(stem))
    assert " passed" in hostile.check([beginning(stem, end, tmp_path)])


def test_the_surroundings_are_unusual_and_a_difference_is_noticed(tmp_path):
    """The negative control: a warning that Python does not show by default."""
    unusual = small_notebook(tmp_path / "unusual.ipynb", UNUSUAL, WARNED)
    with pytest.raises(subprocess.CalledProcessError) as failed:
        hostile.check([unusual])
    assert "Cell 1: Cell outputs differ" in failed.value.output
    assert "Unexpected output fields from running code: {'stderr'}" in failed.value.output
    assert "1 failed, 1 passed" in failed.value.output
