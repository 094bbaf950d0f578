"""Where a framework is missing, its chapter ends in good order and the summary goes on."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

CHAPTERS = Path(__file__).parents[1] / "notebooks"
MODULES = {"TensorFlow": "tensorflow", "PyTorch": "torch", "MXNet": "mxnet"}


def run(chapter: str, missing: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a chapter while these frameworks cannot be imported; return all that it printed."""
    for name in missing:
        module = MODULES[name]
        error = f"raise ModuleNotFoundError(\"No module named '{module}'\", name='{module}')"
        (folder / f"{module}.py").write_text(error)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    notebook = nbformat.read(CHAPTERS / f"{chapter}.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": CHAPTERS}}).execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    return "".join(out.get("text", "") for out in outputs)


@pytest.mark.parametrize(
    ("chapter", "name"),
    [
        (f"{chapter}{part}", name)
        for chapter, name in [
            ("02_tensorflow", "TensorFlow"),
            ("03_pytorch", "PyTorch"),
            ("04_mxnet", "MXNet"),
        ]
        for part in ("", "_in_practice")
    ],
)
def test_its_chapter_ends_with_a_notice(chapter, name, tmp_path, monkeypatch):
    told = run(chapter, [name], tmp_path, monkeypatch)
    assert f"{name} cannot be used here: ModuleNotFoundError: No module named" in told
    assert told.count(f"Skipped: {name} cannot be used here.") > 15


def test_the_summary_goes_on_with_the_others(tmp_path, monkeypatch):
    told = run("05_summary", ["MXNet"], tmp_path, monkeypatch)
    assert "MXNet cannot be used here" in told
    assert (
        "PyTorch and TensorFlow: all five losses and the final weights agree within 1e-05" in told
    )
    assert "its weights: PyTorch without DDP" in told and "its weights: MXNet" not in told


def test_the_summary_says_when_nothing_can_be_compared(tmp_path, monkeypatch):
    told = run("05_summary", list(MODULES), tmp_path, monkeypatch)
    assert "Fewer than two frameworks ran here, so nothing was compared." in told
