"""Which GPUs the machine has, which of them each framework sees, and the two devices of a chapter.

``pair`` never returns one device as two: with fewer than two usable GPUs it returns two *simulated
devices*, CPU devices that the framework keeps apart.
"""

import contextlib
import html
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MODULES = {"tensorflow": "tensorflow", "pytorch": "torch", "mxnet": "mxnet"}
NAMES = {"tensorflow": "TensorFlow", "pytorch": "PyTorch", "mxnet": "MXNet"}

_HEADINGS = ("who was asked", "what it can use", "why not more")
_PROBE_SECONDS = 90


class DeviceError(RuntimeError):
    """A set-up that cannot go on. The message says what is wrong and what to do next."""

    def _render_traceback_(self) -> list[str]:
        # IPython asks for this: the sentence is the whole answer, the stack would only hide it.
        return [f"{type(self).__name__}: {self}"]


@dataclass(frozen=True)
class Gpu:
    """One physical NVIDIA card as the driver reports it; ``memory`` in MiB."""

    number: int
    name: str
    memory: int


@dataclass(frozen=True)
class Sight:
    """What one framework sees: its version, the names of the GPUs it can use, and why not more."""

    framework: str
    version: str = ""
    gpus: list[str] = field(default_factory=list)
    reason: str = ""


@dataclass(frozen=True, repr=False)
class Survey:
    """The answer of ``survey``; printed as a table, shown as HTML in a notebook."""

    gpus: list[Gpu]
    reason: str
    sights: list[Sight]

    def _rows(self) -> list[tuple[str, str, str]]:
        driver = [f"GPU {gpu.number}: {gpu.name}, {gpu.memory} MiB" for gpu in self.gpus]
        rows = [("NVIDIA driver", "; ".join(driver) or "no GPU", self.reason)]
        for sight in self.sights:
            title = f"{NAMES[sight.framework]} {sight.version}".strip()
            rows.append((title, "; ".join(sight.gpus) or "no GPU", sight.reason))
        return rows

    def __str__(self) -> str:
        rows = [_HEADINGS, *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        return "\n".join(f"{a:{widths[0]}}  {b:{widths[1]}}  {c}".rstrip() for a, b, c in rows)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def row(tag: str, texts: tuple[str, ...]) -> str:
            cells = (f'<{tag} style="text-align: left">{html.escape(t)}</{tag}>' for t in texts)
            return f"<tr>{''.join(cells)}</tr>"

        body = "".join(row("td", texts) for texts in self._rows())
        return f"<table>{row('th', _HEADINGS)}{body}</table>"


@dataclass(frozen=True, repr=False)
class Pair:
    """The two devices of a chapter, in the framework's own terms.

    ``devices``: TensorFlow device names, MXNet contexts, or for PyTorch the places of two
    processes. ``sentence`` says which and why. Raises DeviceError when both are the same device.
    """

    framework: str
    devices: tuple[Any, Any]
    simulated: bool
    sentence: str

    def __post_init__(self) -> None:
        one, two = (_canonical(self.framework, device) for device in self.devices)
        if one == two:
            raise DeviceError(
                f"{self.devices[0]} and {self.devices[1]} are one {NAMES[self.framework]} device "
                "under two names: work would not be split. Ask devices.pair for two distinct ones."
            )

    def __repr__(self) -> str:
        return self.sentence

    def _repr_markdown_(self) -> str:
        kind, colon, rest = self.sentence.partition(":")
        return f"**{kind}{colon}**{rest}"


def _canonical(framework: str, device: Any) -> str:
    name = str(device).lower().split("device:")[-1].replace("(", ":").strip("/)")
    if framework == "pytorch" and name.startswith("cpu"):
        return "cpu"  # PyTorch accepts cpu:1, but puts the tensor where cpu:0 is
    return name if ":" in name or " " in name else f"{name}:0"


def import_quietly(framework: str) -> Any:
    """Import a framework and hold its start-up log back; the log is shown when the import fails.

    MXNet 1.9.1 asks for ``np.bool``, which NumPy dropped in 1.24: it is put back first, and stays.
    """
    if framework == "mxnet":
        import numpy as np

        if "bool" not in np.__dict__:
            np.bool = bool
    with _stderr_held_back():
        return importlib.import_module(MODULES[_known(framework)])


@contextlib.contextmanager
def _stderr_held_back() -> Iterator[None]:
    """Collect what C++ logs write to file descriptor 2; show it only after an error."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(kept, 2)
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace"))
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _known(framework: str) -> str:
    if framework not in MODULES:
        raise ValueError(f"Unknown framework {framework!r}: choose one of {', '.join(MODULES)}.")
    return framework


def pair(framework: str) -> Pair:
    """Return two GPUs where ``framework`` can use two, else two simulated devices.

    ``framework`` is "tensorflow", "pytorch" or "mxnet". TensorFlow must not have run anything yet:
    its CPU devices are fixed at its first operation. Raises ValueError for an unknown framework,
    ImportError where it is missing, DeviceError where TensorFlow has already started.
    """
    import_quietly(framework)
    gpus, reason = _SEES[framework]()
    name = NAMES[framework]
    if len(gpus) >= 2:
        devices = _REAL[framework]()
        sentence = f"Real: {name} uses two GPUs, {gpus[0]} and {gpus[1]}."
        return Pair(framework, devices, simulated=False, sentence=sentence)
    devices, what = _SIMULATED[framework]()
    seen = f"one GPU only ({gpus[0]})" if gpus else f"no GPU ({reason})"
    sentence = f"Simulated: {name} can use {seen}, so {what} stand in for two GPUs."
    return Pair(framework, devices, simulated=True, sentence=sentence)


def _tensorflow_sees() -> tuple[list[str], str]:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    names = [
        tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name) for gpu in gpus
    ]
    if not tf.test.is_built_with_cuda():
        return names, "this build of TensorFlow is for CPUs only"
    return names, "" if len(names) > 1 else _driver_reason(names)


def _pytorch_sees() -> tuple[list[str], str]:
    import torch

    if not torch.backends.cuda.is_built():
        return [], "this build of PyTorch is for CPUs only"
    names: list[str] = []
    reason = ""
    for number in range(torch.cuda.device_count()):
        try:
            torch.ones(1, device=f"cuda:{number}").add_(1)
            names.append(torch.cuda.get_device_name(number))
        except RuntimeError as error:
            reason = f"GPU {number} is present but not usable: {str(error).splitlines()[0]}"
    return names, "" if len(names) > 1 else reason or _driver_reason(names)


def _mxnet_sees() -> tuple[list[str], str]:
    import mxnet as mx

    if not mx.runtime.Features().is_enabled("CUDA"):
        return [], "this build of MXNet is for CPUs only"
    names: list[str] = []
    reason = ""
    for number in range(mx.context.num_gpus()):
        try:
            mx.nd.ones(1, ctx=mx.gpu(number)).asnumpy()
            names.append(f"gpu({number})")
        except mx.MXNetError as error:
            reason = (
                f"GPU {number} is present but not usable: {str(error).strip().splitlines()[-1]}"
            )
    return names, "" if len(names) > 1 else reason or _driver_reason(names)


def _driver_reason(names: list[str]) -> str:
    """Why a framework built for GPUs sees no more than ``names``: what the driver says."""
    gpus, reason = _driver_sees()
    if len(gpus) > len(names):
        return f"the driver shows {len(gpus)}, this framework can use {len(names)}"
    return reason or f"the driver shows {len(gpus)}"


def _simulate_tensorflow() -> tuple[tuple[str, str], str]:
    import tensorflow as tf

    with contextlib.suppress(RuntimeError):
        tf.config.set_visible_devices(
            [], "GPU"
        )  # a single GPU stays out: both devices are to be alike
    cpu = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.get_logical_device_configuration(cpu) or []) != 2:
        two = [tf.config.LogicalDeviceConfiguration(), tf.config.LogicalDeviceConfiguration()]
        # Refused with a RuntimeError once TensorFlow has started; the count below tells.
        with contextlib.suppress(RuntimeError):
            tf.config.set_logical_device_configuration(cpu, two)
    count = len(tf.config.list_logical_devices("CPU"))
    if count != 2:
        raise DeviceError(
            f"TensorFlow has already started with {count} CPU device{'s' if count > 1 else ''} "
            "and cannot change that any more. Restart the kernel (menu Kernel, Restart Kernel) "
            "and run the cells in order."
        )
    return ("CPU:0", "CPU:1"), "two logical CPU devices, CPU:0 and CPU:1,"


def _simulate_pytorch() -> tuple[tuple[str, str], str]:
    # For PyTorch all CPUs are one device, so each simulated device is a process with memory of its
    # own.
    return ("process 0", "process 1"), "two worker processes on the CPU, each with its own memory,"


def _simulate_mxnet() -> tuple[tuple[Any, Any], str]:
    import mxnet as mx

    return (mx.cpu(0), mx.cpu(1)), "two CPU contexts, cpu(0) and cpu(1),"


def _real_mxnet() -> tuple[Any, Any]:
    import mxnet as mx

    return mx.gpu(0), mx.gpu(1)


_SEES = {"tensorflow": _tensorflow_sees, "pytorch": _pytorch_sees, "mxnet": _mxnet_sees}
_SIMULATED = {
    "tensorflow": _simulate_tensorflow,
    "pytorch": _simulate_pytorch,
    "mxnet": _simulate_mxnet,
}
_REAL = {
    "tensorflow": lambda: ("GPU:0", "GPU:1"),
    "pytorch": lambda: ("cuda:0", "cuda:1"),
    "mxnet": _real_mxnet,
}


def survey() -> Survey:
    """Ask the driver and each framework, all at the same time, each framework in a process of its
    own.

    A framework that crashes, hangs or is missing becomes a line with the reason; never an
    exception.
    """
    probes = {name: _start_probe(name) for name in MODULES}
    gpus, reason = _driver_sees()
    return Survey(gpus, reason, [_finish_probe(name, probe) for name, probe in probes.items()])


def _driver_sees() -> tuple[list[Gpu], str]:
    """List the cards through NVML, the library behind nvidia-smi."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except (
        Exception
    ) as error:  # NVML raises a class per cause; each of them means: no card to be had
        return [], f"the NVIDIA driver does not answer: {error}"
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        gpus = [
            Gpu(
                number,
                pynvml.nvmlDeviceGetName(handle),
                pynvml.nvmlDeviceGetMemoryInfo(handle).total >> 20,
            )
            for number, handle in enumerate(handles)
        ]
        return gpus, ""
    except Exception as error:
        return [], f"the NVIDIA driver answers with an error: {error}"
    finally:
        pynvml.nvmlShutdown()


def _start_probe(framework: str) -> subprocess.Popen[str]:
    # The probe runs this file as a program, below; its last line of output is the answer.
    command = [sys.executable, "-m", "helpers.devices", framework]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )


def _finish_probe(framework: str, probe: subprocess.Popen[str]) -> Sight:
    try:
        output, _ = probe.communicate(timeout=_PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        probe.kill()
        probe.communicate()
        return Sight(framework, reason=f"no answer within {_PROBE_SECONDS} seconds")
    lines = output.strip().splitlines() or ["no output"]
    try:
        return Sight(framework, **json.loads(lines[-1]))
    except (ValueError, TypeError):
        return Sight(framework, reason=f"stopped with exit code {probe.returncode}: {lines[-1]}")


def _probe(framework: str) -> dict[str, Any]:
    """What ``framework`` says of itself, as the fields of a Sight; runs in its own process."""
    try:
        module = import_quietly(framework)
        gpus, reason = _SEES[framework]()
        return {"version": module.__version__, "gpus": gpus, "reason": reason}
    except ModuleNotFoundError as error:
        return {"reason": f"not installed here ({error})"}
    except Exception as error:
        return {"reason": f"installed, but its import fails: {type(error).__name__}: {error}"}


if __name__ == "__main__":
    print(json.dumps(_probe(sys.argv[1])))
