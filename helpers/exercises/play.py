"""The exercises of chapter 6: from how many rows two devices win, and how many micro-batches."""

from typing import Any

from helpers import timeline
from helpers.exercises.exercise import Exercise, MalformedError, answered, call, number
from helpers.explore.pipeline import schedule
from helpers.explore.step_time import crossing, step

# Width, rate of one device in TFLOP/s, bandwidth in GB/s. The first is the one in the notebook.
SETTINGS = ((128, 0.1, 1), (1024, 0.1, 1), (128, 5, 20))
ROWS = "a function that returns a number of rows: a whole number, at least 1"


def judge_crossing(function: Any) -> str | None:
    """None when the function finds the smallest global batch with which two devices win."""
    for setting in SETTINGS:
        rows = number(call(function, *setting), ROWS)
        if not rows.is_integer() or rows < 1:
            raise MalformedError(ROWS)
        if rows == crossing(*setting):
            continue
        width, rate, bandwidth = setting
        return f"Width {width}, {rate} TFLOP/s, {bandwidth} GB/s: {_compared(int(rows), setting)}"
    return None


def _compared(rows: int, setting: tuple[int, float, float]) -> str:
    right = crossing(*setting)
    if 2 * rows == right:
        return (
            "half of what it takes. Are these the rows of one device? Or was the message "
            "compared with the whole work, of which two devices save only a half?"
        )
    if rows == 1 << right.bit_length():
        return f"{rows} is a stop of the slider. The function can try each number of rows."
    one, two = (step(rows, *setting, devices).total for devices in (1, 2))
    if two >= one:
        return (
            f"with {rows} rows two devices take {two / one:.1%} of the time of one, so they do not "
            "win yet. With an odd batch, one of them has a row more."
        )
    return f"with {rows} rows two devices win, but with fewer they win already."


HALVES = {"4 and 4": (8, 4), "5 and 4": (9, 5), "5 and 3": (8, 5)}  # layers, layers on device 0
LIMIT = 0.15
ENOUGH = {"4 and 4": 6, "5 and 4": 14, "5 and 3": None}
FORM = f"a dictionary with the keys {', '.join(HALVES)}, and for each a number of pieces or None"


def bubble(name: str, micro_batches: int) -> float:
    """The share of the time, 0 to 1, in which the devices wait."""
    return timeline.idle(schedule(*HALVES[name], micro_batches))


def judge_bubble(answer: Any) -> str | None:
    """None when each pair of stages has the fewest micro-batches with a bubble below LIMIT."""
    if not isinstance(answer, dict) or set(answer) != set(HALVES):
        raise MalformedError(FORM)
    for name, given in answered(answer).items():
        if given is not None and (type(given) is not int or not 1 <= given <= 10_000):
            raise MalformedError(f"{FORM}; pieces are counted from 1 to 10,000")
        if given != ENOUGH[name]:
            return f"{name}: {_hint(name, given)}"
    return None


def _hint(name: str, given: int | None) -> str:
    if given is None:
        return "more pieces do help, as long as the stages are nearly equal. Try 16."
    idle = bubble(name, given)
    if ENOUGH[name] is None:
        return (
            f"with {given} the bubble is {idle:.1%}. Does it come below {LIMIT:.0%} with a "
            "thousand? Which device waits, and for whom?"
        )
    if idle >= LIMIT:
        even = " The formula is for stages of equal length." if given == ENOUGH["4 and 4"] else ""
        return f"with {given} the bubble is {idle:.1%}, not below {LIMIT:.0%}.{even}"
    return f"with {given} the bubble is {idle:.1%}, but fewer are enough."


EXERCISES = {
    "crossing": Exercise(
        judge_crossing,
        "Two devices win when the work on half of the rows takes longer than the message. A wider "
        "network makes both larger; a faster device needs more rows, a faster link fewer. "
        "An odd row saves nothing, so the number is even.",
    ),
    "bubble": Exercise(
        judge_bubble,
        "With 5 and 3 layers device 1 has 3 layers' work to do while device 0 has 5: it waits "
        "two fifths of the step, so the bubble, over both devices, stays above one fifth, however "
        "many micro-batches there are. Balance the stages first.",
    ),
}
