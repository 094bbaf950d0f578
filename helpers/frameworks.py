"""What each framework sees: version, build, GPUs, and whether it can compute on them."""

import contextlib
import importlib
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

MODULES = {"tensorflow": "tensorflow", "pytorch": "torch", "mxnet": "mxnet"}
NAMES = {"tensorflow": "TensorFlow", "pytorch": "PyTorch", "mxnet": "MXNet"}


@dataclass(frozen=True)
class Seen:
    """One GPU as a framework names it; ``problem`` says why it cannot compute on it."""

    device: str
    name: str
    uuid: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Sight:
    """The answer of one framework. ``cuda`` is the CUDA version of its build, "" for a CPU build;
    ``error`` is the exception that its import raised, "" where it works."""

    framework: str
    version: str = ""
    cuda: str = ""
    gpus: list[Seen] = field(default_factory=list)
    error: str = ""

    @property
    def usable(self) -> list[Seen]:
        """The GPUs that it can compute on."""
        return [gpu for gpu in self.gpus if not gpu.problem]


def check_known(framework: str) -> None:
    """Raise ValueError, with the choices, for a framework that is not one of the three."""
    if framework not in MODULES:
        raise ValueError(f"Unknown framework {framework!r}: choose one of {', '.join(MODULES)}.")


def import_quietly(framework: str) -> Any:
    """Import a framework and hold its start-up log back; the log is shown when the import fails.

    MXNet 1.9.1 asks for ``np.bool``, which NumPy dropped in 1.24: it is put back first, and stays.
    On cards from Ampere on it would round the inputs of matrix products to 10 bits (TF32, says its
    own ``test_utils.is_TF32_enabled``): NVIDIA's variable against that is set where it is not yet.
    Raises ValueError for an unknown framework, and whatever the import raises.
    """
    check_known(framework)
    if framework == "mxnet":
        import numpy as np

        if "bool" not in np.__dict__:
            np.bool = bool
        os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")
    with _stderr_held_back(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what old packages warn of at their import is for others
        module = importlib.import_module(MODULES[framework])
    # Where the reader has all warnings on, Python's own rule for libraries stays: these two kinds
    # are for those who write them. MXNet gives thousands.
    for kind in (DeprecationWarning, ResourceWarning):
        warnings.filterwarnings("ignore", category=kind, module=rf"{module.__name__}(\.|$)")
    return module


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


def sight(framework: str) -> Sight:
    """Import ``framework`` here and ask it for its GPUs. Raises what the import raises."""
    module = import_quietly(framework)
    cuda, gpus = _SEES[framework]()
    return Sight(framework, module.__version__, cuda, gpus)


def _try(operation: Callable[[], object]) -> str:
    """Run a tiny operation on a GPU; return "" or the first line of what is wrong."""
    try:
        operation()
    except Exception as error:  # each framework has exceptions of its own
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return lines[0] if lines else type(error).__name__
    return ""


def _tensorflow() -> tuple[str, list[Seen]]:
    import tensorflow as tf

    # No operation is run here: the first one would fix TensorFlow's devices for good. TensorFlow
    # itself leaves out a GPU that its build cannot use.
    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", "") for gpu in gpus]
    cuda = (
        tf.sysconfig.get_build_info().get("cuda_version", "")
        if tf.test.is_built_with_cuda()
        else ""
    )
    return cuda, [Seen(f"GPU:{i}", name or "a GPU") for i, name in enumerate(names)]


def _pytorch() -> tuple[str, list[Seen]]:
    import torch

    gpus = []
    for i in range(torch.cuda.device_count()):
        problem = _try(lambda i=i: torch.ones(1, device=f"cuda:{i}").add_(1).item())
        details = None if problem else torch.cuda.get_device_properties(i)
        name = details.name if details else "a GPU"
        uuid = f"GPU-{details.uuid}" if hasattr(details, "uuid") else ""
        gpus.append(Seen(f"cuda:{i}", name, uuid, problem))
    return torch.version.cuda or "", gpus


def _mxnet() -> tuple[str, list[Seen]]:
    import mxnet as mx

    if not mx.runtime.Features().is_enabled("CUDA"):
        return "", []
    gpus = []
    for i in range(mx.context.num_gpus()):
        problem = _try(lambda i=i: mx.nd.ones(1, ctx=mx.gpu(i)).asnumpy())
        gpus.append(Seen(f"gpu({i})", "a GPU", problem=problem))
    return "11", gpus


_SEES = {"tensorflow": _tensorflow, "pytorch": _pytorch, "mxnet": _mxnet}


if __name__ == "__main__":  # the process that asks one framework on behalf of the survey
    name = sys.argv[1]
    if name != "tensorflow" and hasattr(os, "nice"):
        os.nice(10)  # TensorFlow's import is the longest: where cores are few, the others make way
    try:
        answer = sight(name)
    except Exception as error:
        answer = Sight(name, error=f"{type(error).__name__}: {error}")
    print(json.dumps(asdict(answer)))
