"""Find the processes that a test has started, also those that have left its process tree."""

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
