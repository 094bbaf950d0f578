"""The pair of a chapter is really two devices; the survey has an answer in every case."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from helpers import devices

SHOW = (
    "print('ANSWER', json.dumps([pair.simulated, [str(d) for d in pair.devices], pair.sentence]))"
)


def fresh(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a new Python process."""
    return subprocess.run(
        [sys.executable, "-c", f"import json\nfrom helpers import devices\n{code}"],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def skip_without(framework: str) -> None:
    if importlib.util.find_spec(devices.MODULES[framework]) is None:
        pytest.skip(f"{devices.NAMES[framework]} is not installed here")


def answer(process: subprocess.CompletedProcess[str]) -> list:
    lines = [line for line in process.stdout.splitlines() if line.startswith("ANSWER ")]
    assert lines, process.stderr
    return json.loads(lines[-1].removeprefix("ANSWER "))


@pytest.mark.parametrize(
    ("framework", "expected"),
    [
        ("tensorflow", ["CPU:0", "CPU:1"]),
        ("pytorch", ["process 0", "process 1"]),
        ("mxnet", ["cpu(0)", "cpu(1)"]),
    ],
)
def test_without_gpus_the_pair_is_simulated_and_says_so(framework, expected):
    skip_without(framework)
    code = f"for again in range(2): pair = devices.pair({framework!r})\n{SHOW}"
    simulated, names, sentence = answer(fresh(code, CUDA_VISIBLE_DEVICES=""))
    assert simulated and names == expected
    assert sentence.startswith(f"Simulated: {devices.NAMES[framework]} can use no GPU (")


def test_the_two_tensorflow_devices_are_two():
    skip_without("tensorflow")
    code = """
pair = devices.pair("tensorflow")
import tensorflow as tf
places = []
for name in pair.devices:
    with tf.device(name):
        places.append(tf.ones(1).device)
print("ANSWER", json.dumps(places))
"""
    places = answer(fresh(code, CUDA_VISIBLE_DEVICES=""))
    assert [place.split("/")[-1] for place in places] == ["device:CPU:0", "device:CPU:1"]


def test_tensorflow_that_has_already_started_gets_a_clear_sentence():
    skip_without("tensorflow")
    code = "import tensorflow as tf\ntf.ones(1)\ndevices.pair('tensorflow')"
    process = fresh(code, CUDA_VISIBLE_DEVICES="")
    assert (
        "DeviceError: TensorFlow has already started with 1 CPU device and cannot" in process.stderr
    )
    assert "Restart the kernel" in process.stderr


@pytest.mark.parametrize(
    ("framework", "one", "two"),
    [
        ("tensorflow", "CPU:0", "/device:CPU:0"),
        ("tensorflow", "GPU:1", "/job:localhost/replica:0/task:0/device:GPU:1"),
        ("pytorch", "cuda", "cuda:0"),
        ("pytorch", "cpu:0", "cpu:1"),
        ("mxnet", "cpu(0)", "cpu(0)"),
    ],
)
def test_one_device_under_two_names_is_refused(framework, one, two):
    with pytest.raises(devices.DeviceError, match="device under two names"):
        devices.Pair(framework, (one, two), simulated=True, sentence="")


@pytest.mark.parametrize(
    ("framework", "one", "two"),
    [
        ("tensorflow", "CPU:0", "CPU:1"),
        ("pytorch", "cuda:0", "cuda:1"),
        ("mxnet", "gpu(0)", "gpu(1)"),
    ],
)
def test_two_devices_are_accepted(framework, one, two):
    assert devices.Pair(framework, (one, two), simulated=False, sentence="x").devices == (one, two)


def test_two_usable_gpus_are_taken(monkeypatch):
    monkeypatch.setattr(devices, "import_quietly", lambda framework: None)
    monkeypatch.setitem(devices._SEES, "pytorch", lambda: (["Card A", "Card B", "Card C"], ""))
    pair = devices.pair("pytorch")
    assert (pair.simulated, pair.devices) == (False, ("cuda:0", "cuda:1"))
    assert str(pair) == "Real: PyTorch uses two GPUs, Card A and Card B."


def test_one_gpu_is_never_called_two(monkeypatch):
    monkeypatch.setattr(devices, "import_quietly", lambda framework: None)
    monkeypatch.setitem(devices._SEES, "pytorch", lambda: (["Card A"], "the driver shows 1"))
    pair = devices.pair("pytorch")
    assert pair.simulated
    assert pair.sentence.startswith("Simulated: PyTorch can use one GPU only (Card A)")


def test_a_gpu_that_cannot_compute_is_not_counted(monkeypatch):
    torch = pytest.importorskip("torch")

    def no_kernel(*_, **__):
        raise RuntimeError("CUDA error: no kernel image is available\nmore lines")

    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch, "ones", no_kernel)
    names, reason = devices._pytorch_sees()
    assert names == []
    assert reason == "GPU 1 is present but not usable: CUDA error: no kernel image is available"


def test_unknown_framework_is_refused_with_the_choices():
    with pytest.raises(ValueError, match="choose one of tensorflow, pytorch, mxnet"):
        devices.pair("jax")


def test_a_failing_import_shows_the_log_that_was_held_back(capfd, monkeypatch):
    monkeypatch.setitem(devices.MODULES, "pytorch", "helpers_test_missing_module")
    with pytest.raises(ModuleNotFoundError):
        devices.import_quietly("pytorch")
    with pytest.raises(RuntimeError), devices._stderr_held_back():
        os.write(2, b"from the C++ side\n")
        raise RuntimeError
    assert "from the C++ side" in capfd.readouterr().err
    with devices._stderr_held_back():
        os.write(2, b"noise\n")
    assert capfd.readouterr().err == ""


def test_survey_names_every_framework_and_a_reason_for_every_gap():
    found = devices.survey()
    assert [sight.framework for sight in found.sights] == list(devices.MODULES)
    for sight in found.sights:
        assert len(sight.gpus) > 1 or sight.reason
    assert found.gpus or found.reason
    for text in (str(found), found._repr_html_()):
        assert all(name in text for name in devices.NAMES.values())


def test_survey_survives_frameworks_that_crash_hang_or_are_missing(monkeypatch, tmp_path):
    # Stand-ins, found before the real packages: one kills its process, one raises, one hangs.
    (tmp_path / "tensorflow.py").write_text("import os; os._exit(7)")
    (tmp_path / "torch.py").write_text("raise ImportError('<b>libcudart.so</b>: not found')")
    (tmp_path / "mxnet.py").write_text("import time; time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(devices, "_PROBE_SECONDS", 5)
    found = devices.survey()
    crashed, raised, hung = (sight.reason for sight in found.sights)
    assert crashed == "stopped with exit code 7: no output"
    assert raised == "installed, but its import fails: ImportError: <b>libcudart.so</b>: not found"
    assert hung == "no answer within 5 seconds"
    assert "<b>" not in found._repr_html_()


def test_python_m_helpers_prints_the_survey():
    process = subprocess.run(
        [sys.executable, "-m", "helpers"], capture_output=True, text=True, timeout=120, check=True
    )
    assert process.stdout.startswith("who was asked")
    assert process.stderr == ""
