"""The frame of a chapter: is its framework here, and with which versions was it last run?"""

from importlib import metadata

from IPython import get_ipython

from helpers.frameworks import NAMES, import_quietly
from helpers.survey import import_gap, sight_apart

_missing = ""


def require(framework: str | None = None, apart: bool = False) -> None:
    """Import ``framework``, its start-up log held back. Where it cannot be used, say why and skip
    what follows. The import is tried in a process of its own first, as it may crash or hang; with
    ``apart`` only there.

    Skipped cells print one line in place of running, up to the next cell that calls
    ``chapter.require``; without a framework, that call ends the skipping.
    """
    global _missing
    _missing = ""
    if framework is None:
        return
    name = NAMES[framework]
    told = sight_apart(framework).error
    if not told and not apart:
        told = _import_error(framework)
    if told:
        gap = import_gap(framework, told)
        print(f"{name} cannot be used here: {told}")
        print(f"The cause: {gap.cause}. {gap.repair}")
        print(f"The cells below that need {name} are skipped.")
        print("After a repair, restart the kernel and run this notebook again.")
        _missing = name
        transformers = get_ipython().input_transformers_cleanup
        if _skip not in transformers:
            transformers.append(_skip)
    else:
        print(f"{name} is ready.")


def _import_error(framework: str) -> str:
    try:
        import_quietly(framework)
    except Exception as error:  # a broken installation can raise anything
        return f"{type(error).__name__}: {error}"
    return ""


def _skip(lines: list[str]) -> list[str]:
    if not _missing or any("chapter.require(" in line for line in lines):
        return lines
    return [f"print('Skipped: {_missing} cannot be used here.')\n"]


def versions(*packages: str) -> str:
    """The installed versions of ``packages`` in one line, for "last verified with"."""
    return ", ".join(f"{package} {_version(package)}" for package in packages)


def _version(package: str) -> str:
    """Of a module, too, whose distribution has another name: tensorflow-cpu, mxnet-cu117."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        others = metadata.packages_distributions().get(package)
        return metadata.version(others[0]) if others else "is not installed"
