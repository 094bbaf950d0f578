"""Each chapter runs twice in one kernel, all cells and all cells again, and leaves no process.

Where a browser is found, tests/browser does the same in JupyterLab.
"""

from pathlib import Path

import nbformat
import psutil
import pytest
from browser.lab import found
from nbclient import NotebookClient
from outputs import outputs_of
from processes import processes_with

CHAPTERS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.skipif(found() is not None, reason="done by tests/browser, in a browser")
@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_runs_twice_in_one_kernel(path, monkeypatch):
    monkeypatch.setenv("TEST_CHAPTERS_MARK", path.stem)
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": path.parent}})
    with client.setup_kernel():
        for number_of_pass in (1, 2):
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index)
            if number_of_pass == 1:
                first_pass = outputs_of(notebook)
    # The outputs with machine facts are not compared, as in the strict check.
    assert outputs_of(notebook) == first_pass
    _, left = psutil.wait_procs(processes_with("TEST_CHAPTERS_MARK", path.stem), timeout=10)
    assert left == []
