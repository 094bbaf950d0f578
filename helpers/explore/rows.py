"""Who gets which rows: the shards of one global batch, and what each of them weighs in the mean."""

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import fmean
from typing import Any

from helpers.explore.explorer import Explorer
from helpers.pictures import COLOURS, EDGE, Picture, new_figure


def share_out(rows: int, speeds: Sequence[float]) -> list[int]:
    """The rows of each device: consecutive shards, as nearly proportional to the speeds as whole
    rows allow.

    The rows that rounding down leaves over go to the largest remainders, of equal ones to the lower
    device. With equal speeds that is the cut of the chapters: the first devices get the odd rows.
    A slow device may get none. The speeds are relative, so their unit does not matter. Raises
    ValueError without a row or a device, and for a speed that is not above 0.
    """
    if rows < 1 or rows % 1:
        raise ValueError(f"A global batch has a whole number of rows, at least 1, not {rows}.")
    if not speeds or not all(0 < speed < math.inf for speed in speeds):
        raise ValueError(f"Each device needs a speed above 0, got {list(speeds)}.")
    # Exact fractions: rounding would decide which of two equal remainders is the larger.
    exact = [Fraction(speed) for speed in speeds]
    quotas = [rows * speed / sum(exact) for speed in exact]
    sizes = [math.floor(quota) for quota in quotas]
    by_remainder = sorted(range(len(sizes)), key=lambda i: sizes[i] - quotas[i])
    for device in by_remainder[: rows - sum(sizes)]:
        sizes[device] += 1
    return sizes


def shards(values: Sequence[float], sizes: Sequence[int]) -> list[Sequence[float]]:
    """The values in consecutive shards of these sizes. Raises ValueError where they do not fit."""
    if min(sizes, default=0) < 0 or sum(sizes) != len(values):
        raise ValueError(f"Shards of {list(sizes)} rows do not make up {len(values)} rows.")
    ends = [sum(sizes[: device + 1]) for device in range(len(sizes))]
    return [values[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def mean(values: Sequence[float]) -> float:
    """The mean as the frameworks compute it: over no values it is 0/0, not a number."""
    return fmean(values) if values else math.nan


def means(values: Sequence[float], sizes: Sequence[int]) -> tuple[float, float]:
    """The right mean, over all rows, and the naive one, the mean of the devices' means: a device
    without rows makes it nan. Raises ValueError where the sizes do not make up the values."""
    return mean(values), mean([mean(shard) for shard in shards(values, sizes)])


def draw(rows: int, devices: int, split: str, speed: float) -> Picture:
    """Draw the rows of each device, its weight in both means, and how the means come about."""
    sizes = share_out(rows, [speed if split == "by speed" else 1] + [1] * (devices - 1))
    losses = range(1, rows + 1)
    right, naive = means(losses, sizes)
    own = [f"{mean(shard):.2f}" for shard in shards(losses, sizes)]

    figure = new_figure(9, 3.2)
    figure.set_layout_engine("none")  # all stands at fixed places, in pixels from the top left
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 900), ylim=(320, 0))
    axes.axis("off")

    def write(x: float, y: float, text: str, **style: Any) -> None:
        axes.text(x, y, text, **{"va": "center", "ha": "center", "fontsize": 9} | style)

    columns = 588, 639, 727, 834
    heads = "rows", "mean\nloss", "weight in the\nright mean", "weight in the\nnaive mean"
    for x, head in zip(columns, heads, strict=True):
        write(x, 30, head)
    write(70, 30, "row of the global batch (row i has the loss i + 1)", ha="left")
    boxes = [(70 + 20 * row, 18) for row in range(rows)]
    for device, size in enumerate(sizes):
        y, first = 54 + 42 * device, sum(sizes[:device])
        mine, look = slice(first, first + size), {"edgecolor": EDGE, "linewidth": 0.6}
        axes.broken_barh(boxes, (y, 30), facecolor="#EEEEEE", **look)
        axes.broken_barh(boxes[mine], (y, 30), facecolor=COLOURS[device], **look)
        for row in range(rows)[mine]:
            write(79 + 20 * row, y + 15, str(row), color="black" if device else "white", fontsize=8)
        write(62, y + 15, f"device {device}", ha="right")
        weights = f"{size}/{rows} ({size / rows:.1%})", f"1/{devices} ({1 / devices:.1%})"
        for x, cell in zip(columns, (str(size), own[device], *weights), strict=True):
            write(x, y + 15, cell)
    below = 78 + 42 * devices
    terms = [f"{size}/{rows} × {each}" for size, each in zip(sizes, own, strict=True) if size]
    write(70, below, f"right mean = {' + '.join(terms)} = {right:.2f}", ha="left", fontsize=10)
    sums = " + ".join(f"1/{devices} × {each}" for each in own)
    weight = "normal" if min(sizes) == max(sizes) else "bold"
    style = {"ha": "left", "fontsize": 10, "fontweight": weight}
    write(70, below + 34, f"naive mean = {sums} = {naive:.2f}", **style)
    return Picture(figure, _told(sizes, right, naive))


def _told(sizes: Sequence[int], right: float, naive: float) -> str:
    """What the picture says. Losses grow with the rows, and no shard is larger than the one before
    it: so a naive mean that is off is too high."""
    *others, last = map(str, sizes)
    said = (
        f"{sum(sizes)} row{'s' * (sum(sizes) > 1)} on {len(sizes)} devices: "
        f"{', '.join(others)} and {last}. The mean loss over all rows is {right:.2f}; "
        "the naive mean of the devices' means is"
    )
    small, large = min(sizes), max(sizes)
    slow, fast = sizes.index(small), sizes.index(large)
    if small == large:
        return f"{said} the same, as all shards have the same size."
    if not small:
        return (
            f"{said} not a number (nan), as device {slow} has no row, and the mean over no rows is "
            "0/0."
        )
    return (
        f"{said} {naive:.2f}, {naive - right:.2f} too high: in it, a row of device {slow} weighs "
        f"{large / small:.3g} times as much as a row of device {fast}."
    )


def rows() -> Explorer:
    """Explore who gets which rows, and when the mean of the devices' means is wrong."""
    from ipywidgets import FloatSlider, IntSlider, ToggleButtons, dlink

    split = ToggleButtons(options=["even", "by speed"], description="split")
    speed = FloatSlider(2, min=1, max=4, step=0.5, description="speed of device 0")
    dlink((split, "value"), (speed, "disabled"), lambda value: value == "even")
    return Explorer(
        draw,
        # The picture has room for 24 rows.
        rows=IntSlider(10, min=1, max=24, description="rows of the global batch"),
        devices=IntSlider(2, min=2, max=4, description="devices"),
        split=split,
        speed=speed,
    )
