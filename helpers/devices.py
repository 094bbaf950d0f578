"""The two devices of a chapter, and the survey of all GPUs.

``pair`` never returns one device as two: with fewer than two usable GPUs it returns two *simulated
devices*, CPU devices that the framework keeps apart.
"""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from helpers import driver, frameworks
from helpers.frameworks import MODULES, NAMES, Sight
from helpers.survey import Survey, sight_apart, survey, why_none

__all__ = [
    "DeviceError",
    "Pair",
    "Survey",
    "before_import",
    "before_start",
    "pair",
    "pair_for_workers",
    "survey",
]

_RESTART = "Restart the kernel (menu Kernel, Restart Kernel) and run the cells in order."


class DeviceError(RuntimeError):
    """A set-up that cannot go on. The message says what is wrong and what to do next."""

    def _render_traceback_(self) -> list[str]:
        # IPython asks for this: the sentence is the whole answer, the stack would only hide it.
        return [f"{type(self).__name__}: {self}"]


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


def pair(framework: str) -> Pair:
    """Return two GPUs where ``framework`` can use two, else two simulated devices.

    ``framework`` is "tensorflow", "pytorch" or "mxnet". TensorFlow must not have run anything yet:
    its CPU devices are fixed at its first operation. Raises ValueError for an unknown framework,
    ImportError where it is missing, DeviceError where TensorFlow has already started.
    """
    sight = frameworks.sight(framework)
    return _pair(sight, partial(_real, framework), _SIMULATED[framework])


def pair_for_workers(framework: str) -> Pair:
    """The same for two worker processes: this process does not import ``framework``, so it takes
    no memory of the GPUs. Devices are named as the framework would name them here.

    Raises ValueError for an unknown framework, ImportError where its import fails.
    """
    sight = sight_apart(framework)
    if sight.error:
        raise ImportError(f"{NAMES[framework]} cannot be used here: {sight.error}")
    return _pair(sight, lambda one, two: (one, two), _two_processes)


def before_import(framework: str, **variables: str) -> None:
    """Set environment variables that ``framework`` reads only when it is imported.

    Raises DeviceError where it has been imported with other values.
    """
    late = [name for name, value in variables.items() if os.environ.get(name) != value]
    if late and MODULES[framework] in sys.modules:
        raise DeviceError(
            f"Too late to set {' and '.join(late)}: {NAMES[framework]} is already imported, and "
            f"reads such settings only then. {_RESTART}"
        )
    os.environ.update(variables)


@contextlib.contextmanager
def before_start() -> Iterator[None]:
    """For settings that TensorFlow takes until its first operation. Where it refuses one later,
    its RuntimeError becomes a DeviceError that says what to do."""
    try:
        yield
    except RuntimeError as error:
        told = f"Too late for this setting: TensorFlow has already started. {_RESTART}"
        raise DeviceError(told) from error


def _pair(
    sight: Sight,
    real: Callable[[str, str], tuple[Any, Any]],
    simulate: Callable[[], tuple[tuple[Any, Any], str]],
) -> Pair:
    """The first two usable GPUs, made devices by ``real``, else what ``simulate`` returns."""
    name = NAMES[sight.framework]
    if len(sight.usable) >= 2:
        one, two = sight.usable[:2]
        sentence = (
            f"Real: {name} uses two GPUs, {one.device} ({one.name}) and {two.device} ({two.name})."
        )
        return Pair(sight.framework, real(one.device, two.device), False, sentence)
    devices, what = simulate()
    if sight.usable:
        seen = f"one GPU only ({sight.usable[0].name})"
    else:
        seen = f"no GPU ({why_none(sight)})"
    sentence = f"Simulated: {name} can use {seen}, so {what} stand in for two GPUs."
    return Pair(sight.framework, devices, True, sentence)


def _real(framework: str, one: str, two: str) -> tuple[Any, Any]:
    if framework != "mxnet":
        return one, two
    import mxnet as mx

    return mx.gpu(number_of(one)), mx.gpu(number_of(two))


def number_of(device: Any) -> int:
    """The number in a device's name: 1 for cuda:1, GPU:1 and gpu(1)."""
    return int(re.search(r"\d+", str(device))[0])


def entry_of(device: Any) -> str:
    """The entry of CUDA_VISIBLE_DEVICES with which a process sees this device of ours alone."""
    listed, number = os.environ.get("CUDA_VISIBLE_DEVICES"), number_of(device)
    return str(number) if listed is None else listed.split(",")[number].strip()


def visible(pair: Pair) -> list[str]:
    """For each of the two devices: CUDA_VISIBLE_DEVICES for a process that is to see it alone.

    Empty if a card is there and only simulated devices are used: else one process would get it.
    """
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if pair.simulated:
        cards, _ = driver.hear(driver.ask())
        return ["", ""] if cards or listed is not None else ["0", "1"]
    return [entry_of(device) for device in pair.devices]


def _simulate_tensorflow() -> tuple[tuple[str, str], str]:
    import tensorflow as tf

    with contextlib.suppress(RuntimeError):
        tf.config.set_visible_devices([], "GPU")  # a single GPU stays out: both are to be alike
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
            f"and cannot change that any more. {_RESTART}"
        )
    return ("CPU:0", "CPU:1"), "two logical CPU devices, CPU:0 and CPU:1,"


def _two_processes() -> tuple[tuple[str, str], str]:
    return ("process 0", "process 1"), "two worker processes on the CPU, each with its own memory,"


def _simulate_mxnet() -> tuple[tuple[Any, Any], str]:
    import mxnet as mx

    return (mx.cpu(0), mx.cpu(1)), "two CPU contexts, cpu(0) and cpu(1),"


_SIMULATED = {
    "tensorflow": _simulate_tensorflow,
    "pytorch": _two_processes,  # for PyTorch all CPUs of one process are one device
    "mxnet": _simulate_mxnet,
}
