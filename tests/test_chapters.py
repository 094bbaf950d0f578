"""Each chapter in one kernel: all cells, all cells again, the last ones again; no process is left.

Where a browser is found, tests/browser does the same in JupyterLab.
"""

import nbformat
import psutil
import pytest
from browser.lab import found
from chapter_kernel import CHAPTERS, client_of
from outputs import last_cells, outputs_of
from processes import processes_with

PATHS = sorted(CHAPTERS.glob("*.ipynb"))


@pytest.mark.skipif(found() is not None, reason="done by tests/browser, in a browser")
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_chapter_runs_again_and_again_in_one_kernel(path, monkeypatch):
    monkeypatch.setenv("TEST_CHAPTERS_MARK", path.stem)
    notebook = nbformat.read(path, as_version=4)
    client = client_of(notebook)
    code = [place for place, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    last = [place for place in code if notebook.cells[place].id in last_cells(notebook)]
    passes = []
    with client.setup_kernel():
        for part in (code, code, last):
            for place in part:
                client.execute_cell(notebook.cells[place], place)
            passes.append(outputs_of(notebook))
    # The outputs with machine facts are not compared, as in the strict check.
    assert passes[0] == passes[1] == passes[2]
    _, left = psutil.wait_procs(processes_with("TEST_CHAPTERS_MARK", path.stem), timeout=10)
    assert left == []
