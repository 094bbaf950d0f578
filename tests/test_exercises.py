"""What an exercise says: right, not yet with a hint, not answered; and never an exception."""

import importlib
import sys
from types import ModuleType

import pytest
from exercise_answers import NONSENSE, no_arguments, raises

from helpers import exercises
from helpers.exercises.exercise import MalformedError, answered, call, number, verdict


def exercises_of(chapter):
    """The names of the exercises of a chapter."""
    return importlib.import_module(f"helpers.exercises.{chapter}").EXERCISES


class Hostile:
    """An answer that raises whatever is asked of it."""

    def __eq__(self, _):
        raise RuntimeError("never")

    def __float__(self):
        raise ZeroDivisionError


def judge_six(answer):
    """The toy exercise: the product of 2 and 3."""
    found = number(answer, "one number")
    if found == 6:
        return None
    return "That is the sum." if found == 5 else "Multiply."


def judge_double(function):
    return None if call(function, 4) == 8 else "It should double."


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    module = ModuleType("toy")
    module.EXERCISES = {
        "six": exercises.Exercise(judge_six, "2 times 3 is 6."),
        "double": exercises.Exercise(judge_double, "It doubles."),
    }
    monkeypatch.setitem(sys.modules, "helpers.exercises.toy", module)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (6, "Right. 2 times 3 is 6."),
        (6.0, "Right. 2 times 3 is 6."),
        (5, "Not yet. That is the sum."),
        (7, "Not yet. Multiply."),
        (float("nan"), "Not yet. Multiply."),
        (..., "Not answered yet: replace `...` by your answer, run that cell, then this one."),
        ("6", "Not yet. The answer should be one number."),
        (True, "Not yet. The answer should be one number."),
        (None, "Not yet. The answer should be one number."),
        ([6], "Not yet. The answer should be one number."),
        (10**400, "Not yet. The answer should be one number."),
        (Hostile(), "Not yet. Your code raised ZeroDivisionError: without a message"),
    ],
)
def test_verdict_about_a_value(answer, said, capsys):
    assert verdict("toy/six", answer) == said
    exercises.check("toy/six", answer)
    assert capsys.readouterr().out == f"{said}\n"


def fails(_):
    raise ValueError("no such device")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: 2 * x, "Right. It doubles."),
        (lambda x: x, "Not yet. It should double."),
        (lambda x: ..., "Not answered yet"),
        (fails, "Not yet. Your code raised ValueError: no such device"),
        (lambda: 8, "Not yet. Your code raised TypeError: "),
        (8, "Not yet. The answer should be a function; run the cell that defines it"),
    ],
)
def test_verdict_about_a_function(function, said):
    assert verdict("toy/double", function).startswith(said)


def test_the_line_of_a_cell_is_said():
    cell = compile("def f(x):\n    y = x\n    return y / 0\n", "<ipython-input-3-abc>", "exec")
    names = {}
    exec(cell, names)
    said = verdict("toy/double", names["f"])
    assert said.startswith("Not yet. Your code raised ZeroDivisionError in line 3 of its cell: ")


def test_an_interrupt_is_not_swallowed():
    def interrupted(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verdict("toy/double", interrupted)


@pytest.mark.parametrize("part", [..., [1, ...], (..., 2), {"a": ...}])
def test_three_dots_anywhere_are_no_answer(part):
    assert verdict("toy/six", part).startswith("Not answered yet")


def test_answered_gives_the_value_back():
    assert answered([1, 2]) == [1, 2]
    with pytest.raises(MalformedError, match="one number"):
        number("1", "one number")


CHAPTERS = ("devices", "tensorflow", "pytorch", "mxnet", "summary", "play")
EVERY = [f"{chapter}/{name}" for chapter in CHAPTERS for name in exercises_of(chapter)]


@pytest.mark.parametrize("name", EVERY)
def test_every_exercise_that_is_not_answered(name):
    assert verdict(name, ...).startswith("Not answered yet")


# The judge of this one uses MXNet's contexts: test_exercises_mxnet.py asks it in a kernel.
@pytest.mark.parametrize("name", [name for name in EVERY if name != "mxnet/two-devices"])
@pytest.mark.parametrize("answer", [*NONSENSE, True, no_arguments, raises])
def test_every_exercise_with_nonsense(name, answer):
    assert verdict(name, answer).startswith("Not yet. ")


def test_unknown_exercises_are_named():
    with pytest.raises(KeyError, match="six, double, not 'seven'"):
        exercises.check("toy/seven", 1)
    with pytest.raises(KeyError, match="no chapter 'nowhere'"):
        exercises.check("nowhere/six", 1)
