"""Widgets where they cannot be shown, and nobody who could answer a cell that waits."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement

CHAPTERS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))

# As where ipywidgets is not installed; then the cell that the notebook begins with.
WITHOUT = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: name != "ipywidgets" and find(name, *rest) or None
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell(colors="NoColor").run_cell("from helpers import explore")
"""


def test_without_ipywidgets_a_sentence_is_the_whole_answer():
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert ran.stdout.strip() == (
        "PackageError: The explorers need the package ipywidgets, which is not installed here. "
        "Install it: pip install -r requirements.txt, then restart the kernel."
    )


def fits(name: str, version: str) -> bool:
    """Whether this version of a package is one that the installed ipywidgets asks for."""
    asked = map(Requirement, metadata.requires("ipywidgets"))
    (specifier,) = (each.specifier for each in asked if each.name == name)
    return version in specifier


def test_the_widgets_and_their_manager_in_jupyterlab_are_a_pair():
    assert fits("jupyterlab_widgets", metadata.version("jupyterlab_widgets"))
    assert not fits("jupyterlab_widgets", "1.1.11")  # that of ipywidgets 7
    manager = "share/jupyter/labextensions/@jupyter-widgets/jupyterlab-manager/package.json"
    assert Path(sys.prefix, manager).is_file()


def waits(source: str) -> bool:
    """Whether a cell asks somebody for an answer, or waits for a click."""
    return bool(re.search(r"\b(input|getpass|breakpoint|set_trace|ui_events|interact)\(", source))


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_no_cell_waits_for_an_answer(path):
    cells = nbformat.read(path, as_version=4).cells
    assert [c.id for c in cells if c.cell_type == "code" and waits(c.source)] == []


@pytest.mark.parametrize("source", ["name = input('Who?')", "import pdb\npdb.set_trace()"])
def test_a_cell_that_waits_is_noticed(source):
    """The negative control."""
    assert waits(source)
