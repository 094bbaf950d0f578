"""Where a framework is not installed, what needs it is skipped, with a sentence."""

import importlib.util

import pytest

from helpers import hosts
from helpers.frameworks import MODULES, NAMES


def of_chapter(stem: str) -> list[str]:
    """The frameworks without which a chapter shows something else than is stored."""
    if stem in ("01_devices", "05_summary"):
        return list(MODULES)
    return [framework for framework in MODULES if framework in stem]


def not_installed(*frameworks: str) -> list[str]:
    """The names of those of these that are not installed."""
    return [NAMES[name] for name in frameworks if importlib.util.find_spec(MODULES[name]) is None]


def skip_without(*frameworks: str) -> None:
    """Skip the running test, or the tests of a fixture, where one of these is not installed. One
    that is installed and broken is no reason: then the test fails."""
    if missing := not_installed(*frameworks):
        pytest.skip(f"not installed here: {', '.join(missing)}")


def skip_without_two_hosts() -> None:
    """Skip the running test where this machine cannot keep two hosts apart."""
    if why := hosts.why_not():
        pytest.skip(why)
