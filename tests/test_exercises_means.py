"""The exercise on the mean of uneven shards: right answers, common errors, nonsense."""

import math

import pytest
from exercise_answers import said_by

from helpers.exercises import means
from helpers.exercises.exercise import verdict

CHAPTERS = {"tensorflow": "02_tensorflow", "pytorch": "03_pytorch", "mxnet": "04_mxnet"}


def weighted(losses, rows):
    return sum(loss * n for loss, n in zip(losses, rows, strict=True) if n)


WRONG = {
    "mean of the means": (lambda losses, rows: sum(losses) / len(losses), means.HINTS[4]),
    "sum of the means": (lambda losses, rows: sum(losses), means.HINTS[8]),
    "by the devices": (lambda losses, rows: weighted(losses, rows) / len(rows), means.HINTS[6]),
    "not divided": (weighted, means.HINTS[12]),
    "means by the rows": (lambda losses, rows: sum(losses) / sum(rows), means.HINTS[2]),
    "nan from no rows": (
        lambda losses, rows: sum(a * n for a, n in zip(losses, rows, strict=True)) / sum(rows),
        means.EMPTY,
    ),
    "always nan": (lambda losses, rows: math.nan, "For the mean losses [2.0, 6.0] of [3, 1] rows"),
    "two devices only": (
        lambda losses, rows: weighted(losses[:2], rows[:2]) / sum(rows[:2]),
        "For the mean losses [4.0, 1.0, 6.0] of [2, 1, 1] rows it gives 3.",
    ),
    "always 3": (lambda losses, rows: 3.0, "For the mean losses [5.0, nan] of [1, 0] rows"),
    "raises": (lambda losses, rows: losses[5], "Your code raised IndexError"),
    "one argument": (lambda losses: 3, "Your code raised TypeError"),
    "no number": (lambda losses, rows: "3", "The answer should be a function that returns a numb"),
    "nothing": (lambda losses, rows: None, "The answer should be a function that returns a numb"),
    "no function": (3.0, "The answer should be a function; run the cell"),
}


@pytest.mark.parametrize("name", WRONG)
def test_each_wrong_mean_has_its_hint(name):
    answer, hint = WRONG[name]
    assert verdict("tensorflow/wrong-mean", answer).startswith(f"Not yet. {hint}")


def test_the_hints_differ():
    assert len({*means.HINTS.values(), means.EMPTY}) == len(means.HINTS) + 1


def test_the_cases_are_right():
    for losses, rows, right in means.CASES:
        assert weighted(losses, rows) / sum(rows) == right


def test_another_right_mean():
    def mean(losses, rows):
        parts = zip(losses, rows, strict=True)
        return sum(0 if math.isnan(a) else a * n / sum(rows) for a, n in parts)

    assert verdict("tensorflow/wrong-mean", mean).startswith("Right. ")


@pytest.mark.parametrize("framework", CHAPTERS)
def test_the_worked_answer_is_right(framework):
    not_yet, right, *_ = said_by(CHAPTERS[framework], "s5-ex-wrong-mean")
    assert not_yet.startswith("Not answered yet") and right == f"Right. {means.MEAN.because}"
