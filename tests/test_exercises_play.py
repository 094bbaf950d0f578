"""The exercises of chapter 6: right answers, each usual wrong one with its own hint, nonsense."""

import pytest
from exercise_answers import NONSENSE, said_by

from helpers.exercises.exercise import verdict
from helpers.exercises.play import ENOUGH, HALVES, LIMIT, SETTINGS, bubble
from helpers.explore.step_time import crossing

RIGHT = {"4 and 4": 6, "5 and 4": 14, "5 and 3": None}


@pytest.mark.parametrize("base", ["step-time-ex-crossing", "pipeline-ex-bubble"])
def test_the_notebooks_worked_answer_is_right(base):
    first, second = said_by("06_play", base, before=("step-time-check", "pipeline-check"))
    assert first.startswith("Not answered yet") and second.startswith("Right. ")


def by_formula(width, rate, bandwidth):
    """Worked out by hand: half of the work of a batch against the message."""
    message = 4 * (784 * width + width + width * 10 + 10) / (1e9 * bandwidth)
    row = (4 * 784 * width + 6 * width * 10) / (1e12 * rate)
    return 2 * (int(message / row) + 1)


def test_crossing():
    assert [by_formula(*setting) for setting in SETTINGS] == [200, 200, 498]
    assert verdict("play/crossing", by_formula).startswith("Right. ")


WRONG_CROSSINGS = {
    "rows of one device": lambda *setting: crossing(*setting) // 2,
    "a stop of the slider": lambda *setting: 256,
    "one too few": lambda *setting: crossing(*setting) - 1,
    "one too many": lambda *setting: crossing(*setting) + 1,
    "rate forgotten": lambda *setting: 200,
    "stops at once": lambda *setting: 1,
}


def test_each_wrong_crossing_has_its_own_hint():
    said = [verdict("play/crossing", f) for f in WRONG_CROSSINGS.values()]
    assert all(sentence.startswith("Not yet. Width ") for sentence in said)
    assert len(set(said)) == len(said)


def test_what_is_enough():
    """The stored answers are those of the pipeline: the fewest pieces below the limit."""
    for name in HALVES:
        found = (m for m in range(1, 200) if bubble(name, m) < LIMIT)
        assert next(found, None) == ENOUGH[name] == RIGHT[name]
    assert 0.2 <= bubble("5 and 3", 10_000) < 0.2001


def test_bubble():
    assert verdict("play/bubble", RIGHT).startswith("Right. ")


def test_each_wrong_bubble_has_its_own_hint():
    wrong = [("4 and 4", 5), ("4 and 4", 7), ("4 and 4", None)]
    wrong += [("5 and 4", 6), ("5 and 4", 13), ("5 and 4", 15), ("5 and 4", None)]
    wrong += [("5 and 3", 6), ("5 and 3", 10_000)]
    said = [verdict("play/bubble", RIGHT | {name: given}) for name, given in wrong]
    assert all(s.startswith(f"Not yet. {name}: ") for s, (name, _) in zip(said, wrong, strict=True))
    assert len(set(said)) == len(said)


@pytest.mark.parametrize("part", [*NONSENSE, 0, 2.5, True, 10**9, float("inf")])
def test_nonsense_inside(part):
    assert verdict("play/crossing", lambda *_: part).startswith("Not yet. ")
    assert verdict("play/bubble", RIGHT | {"4 and 4": part}).startswith("Not yet. ")


def test_not_answered():
    for name, answer in (
        ("crossing", ...),
        ("crossing", lambda *_: ...),
        ("bubble", ...),
        ("bubble", RIGHT | {"5 and 3": ...}),
    ):
        assert verdict(f"play/{name}", answer).startswith("Not answered yet")
