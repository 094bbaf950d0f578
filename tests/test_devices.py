"""The pair of a chapter is really two devices, or it is refused."""

import json
import os
import subprocess
import sys

import pytest
from needs import skip_without

from helpers import devices, driver, frameworks, survey
from helpers.frameworks import MODULES, NAMES, Seen, Sight

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
    assert sentence.startswith(f"Simulated: {NAMES[framework]} can use no GPU (")


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


def sees(monkeypatch, framework: str, *gpus: Seen) -> devices.Pair:
    """The pair where ``framework`` sees these GPUs."""
    sight = Sight(framework, "1.0", "13.0", list(gpus))
    monkeypatch.setattr(devices.frameworks, "sight", lambda _: sight)
    return devices.pair(framework)


def test_two_usable_gpus_are_taken(monkeypatch):
    cards = [Seen(f"cuda:{number}", f"Card {number}") for number in range(3)]
    pair = sees(monkeypatch, "pytorch", *cards)
    assert (pair.simulated, pair.devices) == (False, ("cuda:0", "cuda:1"))
    assert str(pair) == "Real: PyTorch uses two GPUs, cuda:0 (Card 0) and cuda:1 (Card 1)."
    assert pair._repr_markdown_().startswith("**Real:** PyTorch")


def test_a_gpu_that_cannot_compute_is_passed_over(monkeypatch):
    cards = [
        Seen("cuda:0", "Old", problem="no kernel image"),
        Seen("cuda:1", "A"),
        Seen("cuda:2", "B"),
    ]
    pair = sees(monkeypatch, "pytorch", *cards)
    assert pair.devices == ("cuda:1", "cuda:2")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert devices.visible(pair) == ["1", "2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5, 7 ,GPU-1")
    assert devices.visible(pair) == ["7", "GPU-1"]


def test_one_gpu_is_never_called_two(monkeypatch):
    pair = sees(monkeypatch, "pytorch", Seen("cuda:0", "Card A"))
    assert pair.simulated
    assert pair.sentence.startswith("Simulated: PyTorch can use one GPU only (Card A)")
    monkeypatch.setattr(devices.driver, "ask", lambda: None)
    monkeypatch.setattr(devices.driver, "hear", lambda _: ([driver.Card(0, "Card A")], []))
    assert devices.visible(pair) == ["", ""]


def test_the_pair_for_workers_is_found_without_an_import_here(monkeypatch):
    for framework, names in [
        ("tensorflow", ("GPU:0", "GPU:1")),
        ("pytorch", ("cuda:0", "cuda:1")),
        ("mxnet", ("gpu(0)", "gpu(1)")),
    ]:
        gpus = [Seen(name, "Card") for name in names]
        monkeypatch.setattr(devices, "sight_apart", lambda f, g=gpus: Sight(f, "1.0", "13.0", g))
        pair = devices.pair_for_workers(framework)
        assert (pair.simulated, pair.devices) == (False, names)
        assert pair.sentence.startswith(
            f"Real: {NAMES[framework]} uses two GPUs, {names[0]} (Card)"
        )


@pytest.mark.parametrize("framework", MODULES)
def test_without_gpus_the_workers_are_the_devices(framework):
    skip_without(framework)
    code = f"""
pair = devices.pair_for_workers({framework!r})
import sys
assert {MODULES[framework]!r} not in sys.modules
{SHOW}"""
    simulated, names, sentence = answer(fresh(code, CUDA_VISIBLE_DEVICES=""))
    assert simulated and names == ["process 0", "process 1"]
    assert "so two worker processes on the CPU" in sentence


def test_workers_without_the_framework_get_the_reason(monkeypatch):
    broken = Sight("mxnet", error="OSError: libcudart.so.11.0")
    monkeypatch.setattr(devices, "sight_apart", lambda _: broken)
    with pytest.raises(ImportError, match=r"MXNet cannot be used here: OSError: libcudart"):
        devices.pair_for_workers("mxnet")
    with pytest.raises(ValueError, match="choose one of tensorflow, pytorch, mxnet"):
        survey.sight_apart("jax")


def test_a_gpu_that_raises_is_present_but_not_usable(monkeypatch):
    torch = pytest.importorskip("torch")

    def no_kernel(*_, **__):
        raise RuntimeError("CUDA error: no kernel image is available\nmore lines")

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch, "ones", no_kernel)
    (gpu,) = frameworks.sight("pytorch").gpus
    assert gpu.problem == "CUDA error: no kernel image is available"


def test_unknown_framework_is_refused_with_the_choices():
    with pytest.raises(ValueError, match="choose one of tensorflow, pytorch, mxnet"):
        devices.pair("jax")


@pytest.mark.parametrize("given", ["", "1"])
def test_mxnet_computes_with_whole_floats_unless_told_otherwise(given, monkeypatch):
    skip_without("mxnet")
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    program = "import os; from helpers.frameworks import import_quietly; import_quietly('mxnet')"
    program += "; print(os.environ['NVIDIA_TF32_OVERRIDE'])"
    ran = fresh(program, **({"NVIDIA_TF32_OVERRIDE": given} if given else {}))
    assert (ran.returncode, ran.stdout) == (0, (given or "0") + "\n"), ran.stderr


def test_a_failing_import_shows_the_log_that_was_held_back(capfd, monkeypatch):
    monkeypatch.setitem(frameworks.MODULES, "pytorch", "helpers_test_missing_module")
    with pytest.raises(ModuleNotFoundError):
        frameworks.import_quietly("pytorch")
    with pytest.raises(RuntimeError), frameworks._stderr_held_back():
        os.write(2, b"from the C++ side\n")
        raise RuntimeError
    assert "from the C++ side" in capfd.readouterr().err
    with frameworks._stderr_held_back():
        os.write(2, b"noise\n")
    assert capfd.readouterr().err == ""
