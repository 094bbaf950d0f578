"""Settings that must hold wherever pytest is started from, and what nbval leaves out."""

import queue
import signal
import time
from collections.abc import Generator
from typing import Any

import pytest
from jupyter_client.connect import LocalPortCache
from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbCell, NbCellError

from helpers import hosts
from helpers.frameworks import MODULES
from tests.needs import not_installed, of_chapter, skip_without


def pytest_configure(config: pytest.Config) -> None:
    """Find nbval's sanitize file from the root of this repository, not from the current folder."""
    path = config.option.nbval_sanitize_with
    config.option.nbval_sanitize_with = path and str(config.rootpath / path)


def pytest_addoption(parser: pytest.Parser) -> None:
    """What takes long is done on request; without it, a part of the same kind."""
    what = "every broken line, every chapter twice in the browser and in hostile surroundings"
    parser.addoption("--thorough", action="store_true", help=f"{what}: takes twice as long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked thorough, unless it is asked for."""
    if not config.option.thorough:
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


def pytest_report_header() -> list[str]:
    """Say which framework is missing."""
    return [f"not installed, so skipped: {name}" for name in not_installed(*MODULES)]


# --- A kernel that does not start ---

# Jupyter's own choice can be taken by any connection before the kernel, some seconds later, has it.
LocalPortCache.find_available_port = lambda cache, ip: hosts.free_port()


# --- A kernel that dies ---

_wait_for_message = RunningKernel.get_message


class KernelDied(Exception):
    """The kernel's process has ended. The message says how."""


def _get_message(kernel: RunningKernel, stream: str, timeout: float | None = None) -> Any:
    """As nbval's own, but a dead kernel is noticed within a second, not at the cell's time limit.

    Raises KernelDied, and queue.Empty after ``timeout`` seconds.
    """
    deadline = time.monotonic() + (float("inf") if timeout is None else timeout)
    while True:
        try:
            return _wait_for_message(kernel, stream, max(0, min(1, deadline - time.monotonic())))
        except queue.Empty:
            if not kernel.is_alive():
                raise KernelDied(_how_it_ended(kernel)) from None
            if time.monotonic() >= deadline:
                raise


def _how_it_ended(kernel: RunningKernel) -> str:
    code = kernel.km.provisioner.process.returncode
    if code >= 0:
        return f"The kernel ended with exit code {code}."
    name = signal.Signals(-code).name
    hint = ": usually the machine has no memory left" if name == "SIGKILL" else ""
    return f"The kernel was ended by signal {-code}, {name}{hint}."


RunningKernel.get_message = _get_message


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """The cell in which the kernel dies fails with a sentence."""
    try:
        return (yield)
    except KernelDied as died:
        item.parent.died = f"The kernel died in cell {item.cell_num}."
        item.parent.kernel.stop()
        raise NbCellError(item.cell_num, str(died), item.cell.source) from None


@pytest.hookimpl(tryfirst=True)  # before a kernel is started
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a cell whose kernel has died, and a chapter whose framework is not installed."""
    if isinstance(item, IPyNbCell):
        item.output_timeout = 60  # seconds; nbval's own 5 are short on a busy machine
        skip_without(*of_chapter(item.path.stem))
        if hasattr(item.parent, "died"):
            pytest.skip(item.parent.died)
