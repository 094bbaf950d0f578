"""The survey: a reason for every gap between what is there and what a framework can use."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from needs import skip_without

from helpers import devices, driver, pictures, survey
from helpers.driver import Card
from helpers.frameworks import MODULES, NAMES, Seen, Sight

ROOT = Path(__file__).parents[1]
S, L = Card(0, "Card S", "GPU-1111"), Card(1, "Card L", "GPU-2222")


def sight(framework: str = "pytorch", **answers: object) -> Sight:
    return Sight(framework, **{"version": "1.0", "cuda": "13.0"} | answers)


def gap(answer: Sight, cards: list[Card]) -> str:
    return str(survey._framework_gap(answer, cards) or "")


@pytest.mark.parametrize("framework", MODULES)
def test_a_cpu_build_beside_two_cards_is_one_line(framework):
    told = gap(sight(framework, cuda=""), [S, L])
    name = NAMES[framework]
    assert told.startswith(f"{name}: a build for CPUs only (version 1.0; driver 2, {name} 0). ")
    assert "\n" not in told and "make gpu-kernels" in told


def test_a_card_that_this_build_cannot_use():
    cards = [Card(0, "Card H", capability="9.0")]
    seen = [Seen("cuda:0", "a GPU", problem="CUDA error: no kernel image is available")]
    told = gap(sight(gpus=seen), cards)
    assert "present, but this build cannot use it" in told
    assert "no kernel image is available; compute capability 9.0" in told


def test_fewer_than_the_driver_shows():
    assert "does not find the CUDA libraries" in gap(sight("tensorflow"), [S, L])
    assert "driver 2, TensorFlow 1" in gap(sight("tensorflow", gpus=[Seen("GPU:0", "S")]), [S, L])


def test_no_gap_where_all_are_used():
    assert gap(sight(gpus=[Seen("cuda:0", "S"), Seen("cuda:1", "L")]), [S, L]) == ""
    assert gap(sight(), []) == ""


@pytest.mark.parametrize(
    ("framework", "error", "cause", "repair"),
    [
        ("pytorch", "ModuleNotFoundError: No module named 'torch'", "not installed", "-r req"),
        ("pytorch", "ModuleNotFoundError: No module named 'sympy'", "import fails", "anew"),
        (
            "mxnet",
            "AttributeError: module 'numpy' has no attribute 'bool'.",
            "fails on this NumPy",
            "numpy==1.26.4",
        ),
        (
            "mxnet",
            "AttributeError: module 'numpy' has no attribute 'PZERO'",
            "fails on this NumPy",
            "numpy==1.26.4",
        ),
        ("mxnet", "OSError: libcudart.so.11.0: cannot open", "a CUDA library is missing", "CPU"),
        ("mxnet", "OSError: libquadmath.so.0: cannot open", "library of the system", "apt install"),
        ("tensorflow", "RuntimeError: boom", "its import fails", "anew"),
    ],
)
def test_a_failing_import_has_a_cause_and_a_repair(framework, error, cause, repair):
    told = gap(Sight(framework, error=error), [])
    assert told.startswith(f"{NAMES[framework]}: ") and error in told
    assert cause in told and repair in told


@pytest.mark.parametrize(("system", "machine"), [("Windows", "AMD64"), ("Darwin", "arm64")])
def test_a_platform_without_a_build_is_said(monkeypatch, system, machine):
    monkeypatch.setattr(survey.platform, "system", lambda: system)
    monkeypatch.setattr(survey.platform, "machine", lambda: machine)
    told = gap(Sight("mxnet", error="ModuleNotFoundError: No module named 'mxnet'"), [])
    assert "it has no build for this platform" in told


def test_mig_is_explained():
    assert "one slice of it, never two" in str(survey._mig_gap(Card(0, "Card A", mig=True)))


def test_each_framework_has_its_own_number_for_a_card():
    seen = [Seen("cuda:0", "Card L", "GPU-2222"), Seen("cuda:1", "Card S", "GPU-1111", "broken")]
    by_uuid = sight(gpus=seen)
    assert survey._name_of(S, by_uuid, [S, L]) == "cuda:1 (not usable)"
    assert survey._name_of(L, by_uuid, [S, L]) == "cuda:0"
    by_place = sight("tensorflow", gpus=[Seen("GPU:0", "Card L")])
    assert survey._name_of(L, by_place, [L]) == "GPU:0"
    assert survey._name_of(S, by_place, [L]) == "-"


def found(**changes: object) -> survey.Survey:
    two = [Seen("cuda:0", "S"), Seen("cuda:1", "L")]
    values = {"cards": [S, L], "visible": [S, L], "sights": [sight(gpus=two)], "gaps": []}
    return survey.Survey(**values | changes)


def test_table_marks_what_is_unknown_and_escapes_html():
    odd = Card(0, "<b>Card</b>", total=6144)
    answer = found(cards=[odd], visible=[odd], gaps=[driver.Gap("A", "b", "<i>", "c")])
    assert "unknown / 6144" in str(answer) and "<b>Card</b>" in str(answer)
    page = answer._repr_html_()
    assert "&lt;b&gt;Card" in page and "<i>" not in page


def test_the_picture_of_the_machine_survives_what_is_unknown():
    told = pictures.machine(found(cards=[Card(0, "Card A"), Card(1, "Card B", total=2048)])).text
    assert "GPU 0: Card A 0.0 of 0.0 GiB in use; GPU 1: Card B 0.0 of 2.0 GiB in use" in told
    nothing = pictures.machine(found(cards=[], visible=[], sights=[]))
    assert nothing.png.startswith(b"\x89PNG")


def test_two_usable_gpus_are_said_and_one_is_not_enough():
    assert found().ready == ["pytorch"]
    assert "Two GPUs can be used by: PyTorch." in str(found())
    broken = [Seen("cuda:0", "S"), Seen("cuda:1", "L", problem="no kernel image")]
    assert found(sights=[sight(gpus=broken)]).ready == []
    assert json.loads(json.dumps(found().as_dict()))["ready"] == ["pytorch"]


# The whole survey, with stand-ins for the frameworks and for the tool.


def stand_in(folder: Path, module: str, code: str) -> None:
    (folder / f"{module}.py").write_text(code)


TORCH = """
__version__ = "9.9"
class version: cuda = "13.0"
class cuda:
    device_count = staticmethod(lambda: 2)
def ones(*_, **__): raise RuntimeError("CUDA error: no kernel image is available\\nmore")
"""

TENSOR = """
class Tensor:
    def __init__(self, *_): pass
    def add_(self, _): return self
    def item(self): return 2
cuda.get_device_properties = lambda i: type("Properties", (), {"name": "Card"})
"""


@pytest.fixture
def frameworks(tmp_path, monkeypatch):
    """A folder found before the real packages, and two cards shown by nvidia-smi."""
    tool = tmp_path / "nvidia-smi"
    rows = "0, GPU-1111, 6144, 6000, 0, 550, Card S\\n1, GPU-2222, 24576, 24000, 0, 550, Card L\\n"
    tool.write_text(f"#!/bin/sh\nprintf '{rows}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


def test_driver_sees_two_and_the_frameworks_see_none(frameworks):
    skip_without(*MODULES)
    answer = devices.survey()
    assert [card.name for card in answer.cards] == ["Card S", "Card L"]
    lines = {NAMES[name]: [g for g in answer.gaps if g.who == NAMES[name]] for name in MODULES}
    assert all(len(gaps) == 1 for gaps in lines.values())
    assert all(f"driver 2, {name} 0" in str(gaps[0]) for name, gaps in lines.items())
    assert answer.ready == [] and "simulated" in answer.summary()


def test_a_gpu_that_fails_a_tiny_operation_is_present_but_not_usable(frameworks):
    stand_in(frameworks, "torch", TORCH)
    stand_in(frameworks, "tensorflow", "raise ImportError('not today')")
    stand_in(frameworks, "mxnet", "raise ImportError('not today')")
    answer = devices.survey()
    (told,) = (str(gap) for gap in answer.gaps if gap.who == "PyTorch")
    assert "a GPU is present, but this build cannot use it" in told and "no kernel image" in told
    assert [row[8] for row in answer.rows()[1:]] == ["cuda:0 (not usable)", "cuda:1 (not usable)"]


def test_frameworks_that_crash_hang_or_talk_spoil_nothing(frameworks, monkeypatch):
    stand_in(frameworks, "tensorflow", "import os; os._exit(7)")
    stand_in(frameworks, "torch", "import time; time.sleep(600)")
    stand_in(frameworks, "mxnet", "print('hello' * 9); raise OSError('libcudart.so.11: <b>')")
    monkeypatch.setattr(survey, "_SECONDS", 20)
    told = str(devices.survey())
    assert 'TensorFlow: its process gave no answer (exit code 7, "no output")' in told
    assert "PyTorch: its process gave no answer (no answer within 20 seconds)" in told
    assert "MXNet: a CUDA library is missing (OSError: libcudart.so.11: <b>)" in told


def test_a_variable_set_after_an_import_is_noticed(frameworks):
    code = """
import os, sys
sys.modules["torch"] = object()
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
from helpers import survey
print(survey._late_gaps())
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "may have been set too late" in run.stdout
    assert "PyTorch loaded; None at the start, '1' now" in run.stdout


def test_the_user_s_own_settings_are_kept(frameworks, monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "abc")
    for module in MODULES.values():
        stand_in(frameworks, module, "raise ImportError('not today')")
    answer = devices.survey()
    assert answer.visible == [] and "no card is called 'abc'" in str(answer)
    assert os.environ["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_in_a_terminal(frameworks, arguments):
    stand_in(frameworks, "torch", TORCH.replace("raise RuntimeError(", "return Tensor(") + TENSOR)
    stand_in(frameworks, "tensorflow", "raise ImportError('not today')")
    stand_in(frameworks, "mxnet", "raise ImportError('not today')")
    command = [sys.executable, "-m", "helpers", *arguments]
    ready = subprocess.run(command, capture_output=True, text=True)
    assert ready.returncode == 0 and ready.stderr == ""
    stand_in(frameworks, "torch", "raise ImportError('not today')")
    not_ready = subprocess.run(command, capture_output=True, text=True)
    assert not_ready.returncode == 1 and not_ready.stderr == ""
    if arguments:
        assert json.loads(ready.stdout)["ready"] == ["pytorch"]
        assert json.loads(not_ready.stdout)["ready"] == []
    else:
        assert "Two GPUs can be used by: PyTorch." in ready.stdout


def test_a_name_that_the_terminal_cannot_write(frameworks):
    tool = frameworks / "nvidia-smi"
    tool.write_text(tool.read_text().replace("Card S", "Kärte 卡"))
    for module in MODULES.values():
        stand_in(frameworks, module, "raise ImportError('not today')")
    ascii_only = os.environ | {
        "PYTHONIOENCODING": "ascii",
        "CUDA_VISIBLE_DEVICES": os.fsdecode(b"\xff"),
    }
    command = [sys.executable, "-m", "helpers"]
    run = subprocess.run(command, env=ascii_only, capture_output=True, text=True)
    assert run.returncode == 1 and run.stderr == ""
    assert "K?rte ?" in run.stdout


def test_a_wrong_argument_is_exit_status_2():
    run = subprocess.run([sys.executable, "-m", "helpers", "--no"], capture_output=True, text=True)
    assert run.returncode == 2 and "usage: python -m helpers" in run.stderr
