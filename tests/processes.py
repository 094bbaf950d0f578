"""Find the processes that a test has started, also those that have left its process tree."""

import contextlib

import psutil


def processes_with(variable: str, value: str | None = None) -> list[psutil.Process]:
    """The running processes that carry an environment variable, with ``value`` if one is given."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except (psutil.Error, OSError):  # gone meanwhile, or another user's
            continue
        if variable in environment and value in (None, environment[variable]):
            found.append(process)
    return found


def memory_of(variable: str, value: str | None = None) -> float:
    """What these processes hold now: PSS in MiB, where a shared page counts once. On Linux."""
    total = 0
    for process in processes_with(variable, value):
        with contextlib.suppress(psutil.Error, OSError):  # it ended meanwhile
            total += process.memory_full_info().pss
    return total / 2**20
