"""Where a framework is missing or broken, in whatever way, its chapter ends in good order and all
else goes on: the survey, chapter 1, the summary."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from chapter_kernel import CHAPTERS, client_of
from needs import skip_without

from helpers import devices, survey
from helpers.frameworks import MODULES, NAMES

# The module in place of the real one, and what is said of it.
MISSING = (
    "raise ModuleNotFoundError(f\"No module named '{__name__}'\", name=__name__)",
    "ModuleNotFoundError: No module named",
)
NO_BOOL = (
    "raise AttributeError(\"module 'numpy' has no attribute 'bool'.\")",
    "AttributeError: module 'numpy' has no attribute 'bool'.",
)
NO_PZERO = (
    "raise AttributeError(\"module 'numpy' has no attribute 'PZERO'\")",
    "AttributeError: module 'numpy' has no attribute 'PZERO'",
)
NO_CUDA = (
    "raise OSError('libcudart.so.11.0: cannot open shared object file')",
    "OSError: libcudart.so.11.0: cannot open shared object file",
)
EXITS = ("import os; os._exit(7)", 'exit code 7, "no output"')
EXITS_WELL = ("import os; os._exit(0)", "exit code 0, but not with an answer that can be read")
CRASHES = ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 'exit code -11, "no output"')
TALKS = ("print('{} [1]\\nhello'); raise SystemExit('goodbye')", 'exit code 1, "{} [1]"')
PARTIAL = ("", "AttributeError: module '")
PARTIAL_AND_TALKS = ("print('{}')", "AttributeError: module '")


def put(folder: Path, monkeypatch: pytest.MonkeyPatch, **ways: tuple[str, str]) -> None:
    """From now on a new process finds these modules in place of the frameworks."""
    for framework, (code, _) in ways.items():
        (folder / f"{MODULES[framework]}.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def run(stem: str) -> str:
    """Run a chapter; return all that it printed. Raises CellExecutionError."""
    notebook = nbformat.read(CHAPTERS / f"{stem}.ipynb", as_version=4)
    client_of(notebook).execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    return "".join(out.get("text", "") for out in outputs)


@pytest.mark.parametrize(
    ("stem", "framework", "way"),
    [
        ("02_tensorflow", "tensorflow", CRASHES),
        ("02_tensorflow_in_practice", "tensorflow", MISSING),
        ("03_pytorch", "pytorch", PARTIAL),
        ("03_pytorch_in_practice", "pytorch", TALKS),
        ("04_mxnet", "mxnet", NO_PZERO),
        ("04_mxnet_in_practice", "mxnet", NO_CUDA),
        ("02_tensorflow_further", "tensorflow", EXITS),
        ("03_pytorch_further", "pytorch", NO_CUDA),
        ("04_mxnet_further", "mxnet", MISSING),
    ],
)
def test_its_chapter_ends_with_a_notice(stem, framework, way, tmp_path, monkeypatch):
    put(tmp_path, monkeypatch, **{framework: way})
    told, name = run(stem), NAMES[framework]
    assert f"{name} cannot be used here: {way[1]}" in told
    assert told.count(f"Skipped: {name} cannot be used here.") > 15


def test_the_first_chapter_goes_on(tmp_path, monkeypatch):
    put(tmp_path, monkeypatch, tensorflow=CRASHES, pytorch=EXITS, mxnet=PARTIAL_AND_TALKS)
    assert "empty  exit code 7" in run("01_devices")


def test_the_summary_goes_on_with_the_others(tmp_path, monkeypatch):
    skip_without("pytorch", "tensorflow")
    put(tmp_path, monkeypatch, mxnet=NO_BOOL)
    told = run("05_summary")
    assert f"MXNet cannot be used here: {NO_BOOL[1]}" in told
    assert (
        "PyTorch and TensorFlow: all five losses and the final weights agree within 1e-05" in told
    )
    assert "its weights: PyTorch without DDP" in told and "its weights: MXNet" not in told


def test_the_summary_says_when_nothing_can_be_compared(tmp_path, monkeypatch):
    put(tmp_path, monkeypatch, tensorflow=EXITS_WELL, pytorch=CRASHES, mxnet=MISSING)
    told = run("05_summary")
    assert all(f"{name} cannot be used here: " in told for name in NAMES.values())
    assert "Fewer than two frameworks ran here, so nothing was compared." in told


@pytest.mark.parametrize(
    "ways",
    [
        (MISSING, NO_BOOL, NO_PZERO),
        (NO_CUDA, EXITS, EXITS_WELL),
        (CRASHES, TALKS, PARTIAL),
        (PARTIAL_AND_TALKS, CRASHES, MISSING),
    ],
)
def test_the_survey_has_a_line_for_each(ways, tmp_path, monkeypatch):
    put(tmp_path, monkeypatch, **dict(zip(MODULES, ways, strict=True)))
    command = [sys.executable, "-m", "helpers", "--json"]
    ran = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True)
    assert ran.returncode == 1 and ran.stderr == ""
    gaps = {gap["who"]: gap for gap in json.loads(ran.stdout)["gaps"]}
    for framework, (_, told) in zip(MODULES, ways, strict=True):
        assert gaps[NAMES[framework]]["evidence"].startswith(told)


def test_an_import_without_an_end_is_given_up(tmp_path, monkeypatch):
    put(tmp_path, monkeypatch, pytorch=("import time; time.sleep(600)", ""))
    monkeypatch.setattr(survey, "_SECONDS", 5)
    with pytest.raises(ImportError, match="PyTorch cannot be used here: no answer within 5 sec"):
        devices.pair_for_workers("pytorch")
