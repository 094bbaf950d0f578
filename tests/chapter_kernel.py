"""A kernel in which a test runs single cells of a chapter, changed ones too."""

import asyncio
import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from needs import of_chapter, skip_without

CHAPTERS = Path(__file__).parents[1] / "notebooks"


def client_of(notebook: nbformat.NotebookNode) -> NotebookClient:
    """What runs these cells in the folder of the chapters; its limits are for a busy machine."""
    folder = {"metadata": {"path": CHAPTERS}}
    return NotebookClient(notebook, timeout=300, iopub_timeout=60, resources=folder)


class ChapterKernel:
    """The cells of one chapter by id, and a kernel to run them in; use it in a ``with`` block.

    Where the framework of the chapter is not installed, the test is skipped.
    """

    def __init__(self, stem: str) -> None:
        self.stem = stem
        notebook = nbformat.read(CHAPTERS / f"{stem}.ipynb", as_version=4)
        self.sources = {c.id: c.source for c in notebook.cells if c.cell_type == "code"}
        self._client = client_of(nbformat.v4.new_notebook())

    def __enter__(self) -> "ChapterKernel":
        skip_without(*of_chapter(self.stem))
        self._setup = self._client.setup_kernel()
        self._setup.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._setup.__exit__(*error)

    def run(self, *ids: str) -> str:
        """Run these cells; return what they print."""
        return "".join(self.execute(self.sources[name]) for name in ids)

    def run_up_to(self, last: str, without: str = "(?!)") -> None:
        """Run the chapter from its first cell to this one, but for ids that begin with the
        pattern ``without``; the default fits none."""
        ids = list(self.sources)
        ids = ids[: ids.index(last) + 1]
        self.run(*(name for name in ids if not re.match(without, name)))

    def execute(self, source: str) -> str:
        """Run this source as a cell; return what it prints. Raises CellExecutionError."""
        cell = nbformat.v4.new_code_cell(source)
        self._client.nb.cells = [cell]
        self._client.execute_cell(cell, 0)
        return "".join(out.get("text", "") for out in cell.outputs)

    def interrupt(self) -> None:
        """Press the stop button."""
        asyncio.run(self._client.km.interrupt_kernel())

    def first_failure(self, *sources: str) -> int | None:
        """Run these sources until one raises: its place among them, None when none does."""
        for place, source in enumerate(sources):
            try:
                self.execute(source)
            except CellExecutionError:
                return place
        return None

    def fails(self, *sources: str) -> bool:
        """Whether one of these sources raises."""
        return self.first_failure(*sources) is not None
