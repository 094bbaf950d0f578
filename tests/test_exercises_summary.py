"""The exercises of chapter 5: right answers, each usual wrong one with its own hint, nonsense."""

from statistics import mean, median

import numpy as np
import pytest
from exercise_answers import NONSENSE, said_by

from helpers import timing
from helpers.exercises.exercise import verdict
from helpers.exercises.summary import TIMES

RIGHT = {"TensorFlow": 96, "PyTorch": 32, "DDP": 3, "MXNet": 96}


def pairs(one, two):
    return [a / b for a, b in zip(one, two, strict=True)]


def with_half(speed_up):
    """An answer: this speed-up, and half of it."""
    return lambda one, two: (speed_up(one, two), speed_up(one, two) / 2)


def right(one, two):
    return median(pairs(one, two)), median(pairs(one, two)) / 2


WRONG_SPEED_UPS = {
    "upside down": with_half(lambda one, two: median(pairs(two, one))),
    "medians upside down": with_half(lambda one, two: median(two) / median(one)),
    "ratio of medians": with_half(lambda one, two: median(one) / median(two)),
    "ratio of sums": with_half(lambda one, two: sum(one) / sum(two)),
    "mean of ratios": with_half(lambda one, two: mean(pairs(one, two))),
    "best of each": with_half(lambda one, two: min(one) / min(two)),
    "best pair": with_half(lambda one, two: max(pairs(one, two))),
    "something else": with_half(lambda one, two: one[0]),
    "not halved": lambda one, two: (right(one, two)[0],) * 2,
    "in percent": lambda one, two: (right(one, two)[0], 100 * right(one, two)[1]),
    "efficiency upside down": lambda one, two: (right(one, two)[0], 2 / right(one, two)[0]),
}


@pytest.mark.parametrize("base", ["speed-ex-speed-up", "words-ex-divisors"])
def test_the_notebooks_worked_answer_is_right(base):
    first, second = said_by("05_summary", base, np=np)
    assert first.startswith("Not answered yet") and second.startswith("Right. ")


def test_speed_up():
    def as_in_the_chapter(one, two):
        found = timing.ratio(timing.Times(tuple(one)), timing.Times(tuple(two))).median
        return [np.float64(found), np.float64(found / 2)]

    assert verdict("summary/speed-up", right).startswith("Right. ")
    assert verdict("summary/speed-up", as_in_the_chapter).startswith("Right. ")


def test_each_wrong_speed_up_has_its_own_hint():
    said = [verdict("summary/speed-up", f) for f in WRONG_SPEED_UPS.values()]
    assert all(sentence.startswith("Not yet. ") and "raised" not in sentence for sentence in said)
    assert len(set(said)) == len(said)


def test_the_times_tell_the_ways_apart():
    """On the first times alone, which the reader sees, the usual ways differ."""
    one, two = TIMES[0]
    ways = ("ratio of medians", "ratio of sums", "mean of ratios")
    found = [right(one, two)[0], *(WRONG_SPEED_UPS[way](one, two)[0] for way in ways)]
    assert len({round(value, 2) for value in found}) == len(found)


def test_the_answer_may_change_its_lists():
    def sorts(one, two):
        answer = right(one, two)
        one.sort(), two.clear()
        return answer

    for _ in range(2):
        assert verdict("summary/speed-up", sorts).startswith("Right. ")


def test_divisors():
    assert verdict("summary/divisors", RIGHT).startswith("Right. ")


def test_each_wrong_divisor_has_its_own_hint():
    wrong = [("TensorFlow", 32), ("TensorFlow", 3), ("TensorFlow", 5)]
    wrong += [("PyTorch", 96), ("PyTorch", 3), ("PyTorch", 1)]
    wrong += [("DDP", 32), ("DDP", 96), ("DDP", 1), ("DDP", 2)]
    wrong += [("MXNet", 32), ("MXNet", 3), ("MXNet", 1), ("MXNet", 5)]
    said = [verdict("summary/divisors", RIGHT | {key: value}) for key, value in wrong]
    assert all(s.startswith(f"Not yet. {k}: ") for s, (k, _) in zip(said, wrong, strict=True))
    assert len(set(said)) == len(said)


@pytest.mark.parametrize("part", NONSENSE)
def test_nonsense_inside(part):
    assert verdict("summary/speed-up", lambda *_: (part, part)).startswith("Not yet. ")
    assert verdict("summary/speed-up", lambda *_: part).startswith("Not yet. ")
    assert verdict("summary/divisors", RIGHT | {"DDP": part}).startswith("Not yet. ")


def test_not_answered():
    for name, answer in (
        ("speed-up", ...),
        ("speed-up", lambda *_: ...),
        ("speed-up", lambda *_: (1.6, ...)),
        ("divisors", ...),
        ("divisors", RIGHT | {"DDP": ...}),
    ):
        assert verdict(f"summary/{name}", answer).startswith("Not answered yet")
