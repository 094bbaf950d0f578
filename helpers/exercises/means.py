"""The mean over all rows of shards that are not equal. One exercise, shared by the frameworks."""

import math
from typing import Any

from helpers.exercises.exercise import Exercise, call, number

# Each device's mean loss, its number of rows, and the mean over all rows. In the first case each
# usual mistake gives a number of its own.
CASES = (
    ([2.0, 6.0], [3, 1], 3.0),
    ([2.0, 4.0], [2, 2], 3.0),
    ([5.0, math.nan], [1, 0], 5.0),
    ([4.0, 1.0, 6.0], [2, 1, 1], 3.75),
)
HINTS = {
    4.0: "That is the mean of the means: the one row of the second device counts as much as the "
    "three of the first.",
    8.0: "That is the sum of the means. How can it be larger than the loss of every device?",
    6.0: "The sum over all rows is right, but you divide it by the number of devices.",
    12.0: "That is the sum over all rows. What makes it a mean?",
    2.0: "The divisor is right. But a mean stands for several rows: how large was their sum?",
}
EMPTY = "The device without rows makes it nan: 0 times nan is nan, too."


def judge(function: Any) -> str | None:
    """None when the function of losses and rows returns the mean over all rows, in each case."""
    for losses, rows, right in CASES:
        found = number(call(function, list(losses), list(rows)), "a function that returns a number")
        if abs(found - right) <= 1e-6:
            continue
        if math.isnan(found) and 0 in rows:
            return EMPTY
        general = f"For the mean losses {losses} of {rows} rows it gives {found:.4g}."
        return HINTS.get(round(found, 6), general) if losses == CASES[0][0] else general
    return None


MEAN = Exercise(
    judge,
    "A mean times its rows is a sum again; add the sums up, and divide once, by all rows. A device "
    "without rows adds nothing.",
)
