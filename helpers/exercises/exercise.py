"""What all exercises share: how an answer is judged, and what is said about it."""

import importlib
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


class NotAnsweredError(Exception):
    """The three dots are still there."""


class MalformedError(Exception):
    """The answer has another form than asked for; the message says which form."""


@dataclass(frozen=True)
class Exercise:
    """``judge`` gets an answer and returns None when it is right, else a hint at the likely error;
    it may raise MalformedError. ``because`` says why the right answer is right."""

    judge: Callable[[Any], str | None]
    because: str


def find(name: str) -> Exercise:
    """The exercise called "chapter/name". Raises KeyError with the known names for another one."""
    chapter, _, short = name.partition("/")
    try:
        known = importlib.import_module(f"helpers.exercises.{chapter}").EXERCISES
    except ModuleNotFoundError:
        raise KeyError(f"There is no chapter {chapter!r} with exercises.") from None
    if short not in known:
        raise KeyError(f"Chapter {chapter!r} has the exercises {', '.join(known)}, not {short!r}.")
    return known[short]


def verdict(name: str, answer: Any) -> str:
    """One or two sentences about this answer to the exercise ``name``."""
    exercise = find(name)
    try:
        answered(answer)
        hint = exercise.judge(answer)
    except NotAnsweredError:
        return "Not answered yet: replace `...` by your answer, run that cell, then this one."
    except MalformedError as error:
        return f"Not yet. The answer should be {error}."
    except Exception as error:
        return f"Not yet. {raised(error)}"
    return f"Not yet. {hint}" if hint else f"Right. {exercise.because}"


def check(name: str, answer: Any) -> None:
    """Say whether the answer is right, not yet (with a hint), or not there; never raises for an
    answer. KeyError when there is no exercise of this name."""
    print(verdict(name, answer))


def answered(value: Any) -> Any:
    """The value, once no part of it is the three dots; raises NotAnsweredError before that."""
    parts = list(value.values()) if isinstance(value, dict) else value
    if value is ... or (isinstance(parts, (list, tuple)) and any(part is ... for part in parts)):
        raise NotAnsweredError
    return value


def call(function: Any, *args: Any) -> Any:
    """What the reader's function returns. Raises NotAnsweredError when that is the three dots, and
    MalformedError when it is no function."""
    if not callable(function):
        raise MalformedError("a function; run the cell that defines it, and give its name")
    return answered(function(*args))


def number(value: Any, form: str) -> float:
    """The value as a float, for a comparison. Raises MalformedError when it is no number."""
    if isinstance(value, (bool, str, bytes)):
        raise MalformedError(form)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise MalformedError(form) from None


def faulty_line(faulty: int, innocent: Mapping[int, str]) -> Callable[[Any], str | None]:
    """A judge of the number of a line: right for the faulty one, for each innocent one its hint."""
    form = f"the number of a line, from 1 to {max(faulty, *innocent)}"

    def judge(answer: Any) -> str | None:
        line = number(answer, form)
        if line == faulty:
            return None
        if line not in innocent:
            raise MalformedError(form)
        return f"Line {line:g}: {innocent[line]}"

    return judge


def raised(error: BaseException) -> str:
    """A sentence about an error in the reader's code, with the line when it is in a cell."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if "ipykernel" in frame.filename or frame.filename.startswith("<ipython")
    ]
    where = f" in line {lines[-1]} of its cell" if lines else ""
    return f"Your code raised {type(error).__name__}{where}: {str(error) or 'without a message'}"
