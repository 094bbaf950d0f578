"""What each device holds during a training step, under each way to split the work."""

import math
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from helpers.explore.explorer import Explorer
from helpers.pictures import COLOURS, EDGE, Picture, new_figure

GB = 10**9
KEPT = {"SGD": 0, "momentum": 1, "Adam": 2}  # numbers that the optimizer keeps for each weight
CARDS = 8, 12, 16, 24, 40, 80


class Parts(NamedTuple):
    """What lies on one device, in bytes."""

    weights: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        """All parts together, in bytes."""
        return sum(self)


def held(weights: int, optimizer: str, rows: int, row_bytes: int) -> dict[str, list[Parts]]:
    """What each device holds, for one device and for each split over two. All numbers are float32.

    The arguments are the weights of the network, the optimizer (a key of ``KEPT``), the rows of the
    global batch, and the bytes of activations for one row. It is counted as in §6 of the chapters:
    a gradient for each weight, and the numbers that the optimizer keeps. Split the batch: all of
    that on both devices, and half of the rows. Split the model: half of everything, as if the two
    halves were equal; micro-batches are not counted. Split the jobs: each device trains a whole
    network, with a whole batch. Left out are workspaces, what the allocator keeps in reserve, the
    input batch, and copies on their way. Raises ValueError for an unknown optimizer, without a
    weight or a row, and for fewer than 0 bytes.
    """
    if optimizer not in KEPT:
        raise ValueError(f"Unknown optimizer {optimizer!r}: choose one of {', '.join(KEPT)}.")
    if weights < 1 or rows < 1 or row_bytes < 0:
        raise ValueError("At least one weight, one row, and no less than 0 bytes for a row.")

    def parts(weights: int, activations: int) -> Parts:
        return Parts(4 * weights, 4 * weights, 4 * weights * KEPT[optimizer], activations)

    activations = rows * row_bytes
    whole = parts(weights, activations)
    odd_first = (rows + 1) // 2, rows // 2  # the first device gets the odd row, as in the chapters
    return {
        "one device": [whole],
        "split the batch": [parts(weights, share * row_bytes) for share in odd_first],
        "split the model": [
            parts((weights + 1) // 2, (activations + 1) // 2),
            parts(weights // 2, activations // 2),
        ],
        "split the jobs": [whole, whole],
    }


def draw(weights: float, optimizer: str, rows: int, activations: float, card: int) -> Picture:
    """Draw a bar for each device: weights in millions, activations in MB for a row, card in GB."""
    plans = held(round(1e6 * weights), optimizer, rows, round(1e6 * activations))
    figure = new_figure(8, 3.4)
    figure.set_layout_engine("none")  # the axes stay where they are
    longest = max(card, *(parts.total / GB for plan in plans.values() for parts in plan))
    axes = figure.add_axes((0.24, 0.14, 0.74, 0.71), xlim=(0, 1.38 * longest), ylim=(7, -0.6))
    axes.set_xlabel("GB of memory (1 GB = 10\u2079 bytes)")
    axes.set_yticks([])
    axes.spines[["top", "right"]].set_visible(False)
    for number, name in enumerate(Parts._fields):  # the key, in the order of the parts
        figure.text(0.24 + 0.16 * number, 0.945, "\u25a0", color=COLOURS[number], fontsize=15)
        figure.text(0.268 + 0.16 * number, 0.95, name)
    axes.axvline(card, color="black", linestyle="--")
    label = {"va": "center", "fontsize": 9}
    axes.text(card, -0.7, f"card: {card} GB", ha="center", va="bottom", fontsize=9)
    y = 0.0
    for split, plan in plans.items():
        place = {"x": -0.11, "transform": axes.get_yaxis_transform(), "ha": "right"}
        axes.text(y=y + 0.4 * (len(plan) - 1), s=split, fontweight="bold", **place, **label)
        for device, parts in enumerate(plan):
            axes.text(y=y, s=f"device {device} ", **place | {"x": 0}, **label)
            _bar(axes, y, parts, card, longest)
            y += 0.8
        y += 0.4
    return Picture(figure, _told(plans, card))


def _bar(axes: Any, y: float, parts: Parts, card: int, longest: float) -> None:
    """One bar of the parts side by side; what lies beyond the card's size is hatched."""
    ends = [end / GB for end in accumulate(parts, initial=0)]
    pieces = [(start, end - start) for start, end in pairwise(ends)]
    axes.broken_barh(pieces, (y - 0.33, 0.66), facecolors=COLOURS[:4], edgecolor=EDGE, lw=0.6)
    fits = ends[-1] <= card
    if not fits:
        beyond = [(card, ends[-1] - card)]
        axes.broken_barh(
            beyond, (y - 0.33, 0.66), facecolor="none", edgecolor="black", hatch="////"
        )
    axes.text(
        ends[-1] + 0.012 * longest,
        y,
        f"{_short(ends[-1])} GB, {'fits' if fits else 'too large'}",
        va="center",
        fontsize=9,
        fontweight="normal" if fits else "bold",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )


def _short(number: float) -> str:
    """Three digits, or all of them before the point."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _told(plans: dict[str, list[Parts]], card: int) -> str:
    needs = {split: max(parts.total for parts in plan) / GB for split, plan in plans.items()}
    said = ", ".join(f"{split} {_short(need)} GB" for split, need in needs.items())
    fit = [split for split, need in needs.items() if need <= card]
    verdict = {0: "nothing fits", len(needs): "all of them fit"}
    return (
        f"Needed on the fullest device: {said}. On cards of {card} GB "
        f"{verdict.get(len(fit)) or 'what fits is: ' + ', '.join(fit)}. "
        "Counted are float32 weights, gradients, what the optimizer keeps, and activations; "
        "workspaces and micro-batches are not."
    )


def memory() -> Explorer:
    """Explore what each device holds under each split, and whether it fits on the card."""
    from ipywidgets import FloatLogSlider, SelectionSlider, ToggleButtons

    return Explorer(
        draw,
        weights=FloatLogSlider(
            1000,
            min=0,
            max=math.log10(20_000),
            readout_format=",.0f",
            description="weights, millions",
        ),
        optimizer=ToggleButtons(options=list(KEPT), value="Adam", description="optimizer"),
        rows=SelectionSlider(
            options=[2**i for i in range(11)], value=64, description="rows of the global batch"
        ),
        activations=FloatLogSlider(
            10, min=-2, max=3, readout_format=",.2f", description="activations, MB per row"
        ),
        card=SelectionSlider(options=CARDS, value=16, description="card, GB"),
    )
