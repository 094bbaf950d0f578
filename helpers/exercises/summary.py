"""The exercises of chapter 5: a speed-up from repeated times, and one mean in three frameworks."""

from statistics import mean, median
from typing import Any

from helpers.exercises.exercise import Exercise, MalformedError, answered, call, number

# Times in ms on one device and on two, measured in turn. Those of the notebook come first.
TIMES = (
    ([40, 44, 48, 80, 88], [25, 44, 30, 50, 55]),
    ([30, 20, 36, 90, 27], [20, 16, 20, 50, 20]),
)
PAIR = "a function that returns two numbers: the speed-up and the efficiency"


def ratios(one: list[float], two: list[float]) -> list[float]:
    """How many times faster two devices were, pair by pair."""
    return [a / b for a, b in zip(one, two, strict=True)]


def speed_up(one: list[float], two: list[float]) -> float:
    """The median of the ratios, as timing.ratio(...).median."""
    return median(ratios(one, two))


# What is often computed in its place, and what is wrong with it.
INSTEAD = (
    (
        lambda one, two: 1 / speed_up(one, two),
        "That is above 1 when two devices are slower. Which of the two times goes on top?",
    ),
    (
        lambda one, two: median(two) / median(one),
        "Which of the two times goes on top? And first divide the two times of one repeat.",
    ),
    (
        lambda one, two: median(one) / median(two),
        "The two medians can come from different repeats, and the machine slowed down meanwhile. "
        "Which two times were measured right after each other?",
    ),
    (
        lambda one, two: mean(one) / mean(two),
        "The ratio of sums or means counts the slow repeats most. Divide each pair first.",
    ),
    (
        lambda one, two: mean(ratios(one, two)),
        "The pairs are right. But one disturbed pair moves their mean: what does it not move?",
    ),
    (
        lambda one, two: min(one) / min(two),
        "The best time of each side says nothing about a usual step. Use every repeat.",
    ),
    (
        lambda one, two: max(ratios(one, two)),
        "That is the best pair. Which pair is the usual one?",
    ),
)


def same(one: float, two: float) -> bool:
    return abs(one - two) <= 1e-9


def judge_speed_up(function: Any) -> str | None:
    """None when the function returns the median of the pairs' ratios, and half of it."""
    given = []
    for one, two in TIMES:
        pair = call(function, list(one), list(two))
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise MalformedError(PAIR)
        given.append([number(part, PAIR) for part in answered(pair)])
    rights = [speed_up(*times) for times in TIMES]
    if not all(same(pair[0], right) for pair, right in zip(given, rights, strict=True)):
        for wrong, hint in INSTEAD:
            if all(same(pair[0], wrong(*t)) for pair, t in zip(given, TIMES, strict=True)):
                return hint
        return "The speed-up: divide the two times of each repeat, then take the middle ratio."
    for wrong, hint in (
        (1, "The efficiency is that of one device of the two: the speed-up divided by what?"),
        (50, "The efficiency as a share, please: 1 where two devices are twice as fast."),
    ):
        if all(same(pair[1], wrong * right) for pair, right in zip(given, rights, strict=True)):
            return hint
    if all(same(pair[1], right / 2) for pair, right in zip(given, rights, strict=True)):
        return None
    return "The speed-up is right. The efficiency is 1 where two devices are twice as fast."


DIVISORS = {"TensorFlow": 96, "PyTorch": 32, "DDP": 3, "MXNet": 96}
WRONG = {
    ("TensorFlow", 32): "the replicas' gradients are added up, so this gives three times the mean.",
    ("TensorFlow", 3): "this is a sum of losses over rows; how many rows make the global batch?",
    ("PyTorch", 96): "DDP divides once more, so this gives a third of the mean.",
    ("PyTorch", 3): "this is one rank's sum over its rows. How many rows has it?",
    ("DDP", 32): "the rows are divided by already, in the loss. What has DDP added up?",
    ("DDP", 96): "then the rows count twice. What has DDP added up, and how many of them?",
    ("DDP", 1): "DDP takes the mean over the ranks, not their sum.",
    ("MXNet", 32): "the gradients of all contexts are added up before this division.",
    ("MXNet", 3): "no loss was divided by rows before. How many rows are in the sum?",
    ("MXNet", 1): "then the weights move by the sum over all rows, not by the mean.",
}


def judge_divisors(answer: Any) -> str | None:
    """None when each framework's divisors make the mean over the 96 rows."""
    form = f"a dictionary with the keys {', '.join(DIVISORS)}, and a number for each"
    if not isinstance(answer, dict) or set(answer) != set(DIVISORS):
        raise MalformedError(form)
    answered(answer)
    for name, right in DIVISORS.items():
        given = number(answer[name], form)
        if given != right:
            general = "which rows are in the sum at this point, and what is divided again later?"
            return f"{name}: {WRONG.get((name, given), general)}"
    return None


EXERCISES = {
    "speed-up": Exercise(
        judge_speed_up,
        "Two times of one repeat saw the same machine, so their ratio keeps when it slows down; "
        "the median forgets the one disturbed pair.",
    ),
    "divisors": Exercise(
        judge_divisors,
        "Each way divides by 96 in all: at once, as 32 times 3, or at the end.",
    ),
}
