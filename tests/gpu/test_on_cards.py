"""The chapters on the cards of this machine; skipped, with the reason, where there are too few.

The same as a table: ``python -m tests.gpu``.
"""

import pytest

from helpers.frameworks import MODULES, NAMES
from tests.gpu import checks


class Cards:
    """A framework, the kernel it runs in, and the cards that it can use there."""

    def __init__(self, framework: str) -> None:
        self.framework, self.kernel = framework, checks.kernel_of(framework)
        self._sight, self._why = checks.seen(framework, self.kernel)
        self.first = self._sight.usable[0].device if self._sight.usable else ""

    def need(self, count: int) -> None:
        """Skip the test where the framework can use fewer cards."""
        usable = len(self._sight.usable)
        if usable < count:
            reason = self._why or f"it can use {usable} here"
            pytest.skip(f"needs {count} cards for {NAMES[self.framework]}: {reason}")


@pytest.fixture(scope="module", params=MODULES)
def cards(request: pytest.FixtureRequest) -> Cards:
    if why := checks.no_cards():
        pytest.skip(why)
    return Cards(request.param)


def failed(results: list[checks.Result]) -> list[str]:
    return [str(result) for result in results if result.ok is False]


def test_two_cards_are_one_device(cards: Cards) -> None:
    cards.need(2)
    assert failed(list(checks.two_cards(cards.framework, cards.kernel))) == []


def test_one_card_is_called_one(cards: Cards) -> None:
    cards.need(1)
    assert failed(list(checks.one_card(cards.framework, cards.kernel, cards.first))) == []


def test_two_cards_are_timed(cards: Cards) -> None:
    """How fast they are is no matter of a test."""
    cards.need(2)
    results = list(checks.speed_up(cards.framework, cards.kernel))
    assert failed(results) == []
    assert len(results) == len(checks.SIZES)
