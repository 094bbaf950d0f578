"""Where the time of a training step goes: computing, and the message between two devices."""

import math
from typing import NamedTuple

from helpers.explore.explorer import Explorer
from helpers.pictures import COLOURS, EDGE, Picture, new_figure

UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


class Step(NamedTuple):
    """The parts of a training step, one after the other, and the part of the message that nobody
    waits for, all in seconds."""

    forward: float
    backward: float
    message: float
    hidden: float

    @property
    def total(self) -> float:
        """The time of the step in seconds."""
        return self.forward + self.backward + self.message


def _work(rows: int, width: int, rate: float) -> tuple[float, float]:
    """Seconds for the forward and the backward pass of these rows on one device."""
    first, last = 2 * 784 * width, 2 * width * 10  # operations of one product, for each row
    # Nobody asks for the gradient of the images, so the first layer has one product backwards.
    return rows * (first + last) / (1e12 * rate), rows * (first + 2 * last) / (1e12 * rate)


def _messages(width: int, bandwidth: float, devices: int) -> tuple[float, float]:
    """Seconds for the gradients of the first layer and for those of the last."""
    per_weight = 2 * (devices - 1) / devices * 4 / (1e9 * bandwidth)
    return per_weight * (784 + 1) * width, per_weight * (width + 1) * 10


def step(
    batch: int, width: int, rate: float, bandwidth: float, devices: int = 1, overlap: bool = False
) -> Step:
    """One training step of the network 784-width-10, predicted as in §8 of *in practice*.

    The batch is the global one, in rows; the device with the most rows sets the pace. The rate of
    one device is in TFLOP/s, the bandwidth between devices in GB/s (10**9 bytes). Both passes
    together take batch * (4 * 784 * width + 6 * width * 10) operations; each of n devices sends
    2(n - 1)/n * 4 bytes for each weight. The fixed time of a step is left out.

    With ``overlap`` the gradient of the last layer leaves as soon as it is there, and travels while
    the rest of the backward pass is at work. That of the first layer comes last: it leaves when the
    backward pass is over and the link is free, and the step waits for all of it. Raises ValueError
    for a number that is not above 0.
    """
    if not all(0 < number < math.inf for number in (batch, width, rate, bandwidth, devices)):
        raise ValueError("Batch, width, rate, bandwidth and devices must be numbers above 0.")
    forward, backward = _work(math.ceil(batch / devices), width, rate)
    first, last = _messages(width, bandwidth, devices)
    # The rest of the backward pass, after the gradient of the last layer's weights, is one product
    # for each layer: as long as the forward pass.
    hidden = min(last, forward) if overlap else 0.0
    return Step(forward, backward, first + last - hidden, hidden)


def crossing(width: int, rate: float, bandwidth: float, overlap: bool = False) -> int:
    """The smallest global batch, in rows, with which two devices are faster than one; the rest is
    as in ``step``.

    There is always one, as the message does not grow with the rows: two devices win as soon as the
    work that is saved, that of half the rows, takes longer than the wait for the message.
    """
    saved = step(1, width, rate, bandwidth)  # by each row that the other device takes over
    first, last = _messages(width, bandwidth, 2)
    half = (first + last) / saved.total
    if overlap:  # hidden is the whole message of the last layer, or as much as there is time for
        half = max(first / saved.total, (first + last) / (saved.total + saved.forward))
    return 2 * (math.floor(half) + 1)


def _unit(seconds: float) -> str:
    """The unit in which this is a number from 1 to 1,000, as far as there is one."""
    return next((name for name, size in UNITS.items() if seconds >= 0.9995 * size), "ns")


def _time(seconds: float) -> str:
    unit = _unit(seconds)
    return f"{seconds / UNITS[unit]:.3g} {unit}"


def _times(factor: float) -> str:
    return f"{factor:,.{2 if factor < 100 else 0}f} times"


def draw(batch: int, width: int, rate: float, bandwidth: float, overlap: bool) -> Picture:
    """Draw the parts of a step on one device and on two as stacked bars."""
    one, two = (step(batch, width, rate, bandwidth, devices, overlap) for devices in (1, 2))
    from_rows = crossing(width, rate, bandwidth, overlap)
    longest = max(one.total, two.total)
    unit = _unit(longest)

    figure = new_figure(9, 3)
    figure.set_layout_engine("none")  # the axes stay where they are
    axes = figure.add_axes((0.12, 0.36, 0.86, 0.44), xlim=(0, 1.15 * longest), ylim=(-1.55, 0.4))
    looks = {
        "forward": {"facecolor": COLOURS[0], "edgecolor": EDGE},
        "backward": {"facecolor": COLOURS[4], "edgecolor": EDGE},
        "wait for the message": {"facecolor": COLOURS[1], "edgecolor": EDGE, "hatch": "///"},
        "message, sent during backward": {"facecolor": COLOURS[5], "edgecolor": EDGE},
    }
    for line, each in enumerate((one, two)):
        left = 0.0
        for (name, look), seconds in zip(looks.items(), each[:3], strict=False):
            if seconds:
                axes.barh(-line, seconds, 0.6, left, **look)
            if seconds > 0.1 * longest:
                ink = "white" if name == "forward" else "black"
                ground = {"facecolor": look.get("facecolor", "none"), "edgecolor": "none", "pad": 2}
                place = {"ha": "center", "va": "center", "fontsize": 9, "bbox": ground}
                axes.text(left + seconds / 2, -line, _time(seconds), color=ink, **place)
            left += seconds
        axes.text(left + longest / 100, -line, _time(left), va="center", fontweight="bold")
    # It leaves after the forward pass and one product of the last layer: the two together have as
    # many operations as the backward pass.
    if two.hidden:
        axes.barh(-1.38, two.hidden, 0.12, two.backward, **looks["message, sent during backward"])
    for name, look in looks.items():
        axes.barh(0, 0, label=name, **look)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.38), ncols=4, fontsize=9, frameon=False)
    axes.set_yticks([0, -1], ["one device", "two devices"])
    axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds / UNITS[unit]:g}")
    axes.set_xlabel(f"time in {unit}, without the fixed time of a step")
    axes.spines[["top", "right"]].set_visible(False)

    if batch >= from_rows:
        compared = f"{_times(one.total / two.total)} as fast as one"
    else:
        compared = f"slower: a step takes {_times(two.total / one.total)} as long as on one"
    title = f"Two devices are {compared}.\nTwo devices win from {from_rows:,} rows."
    axes.set_title(title, fontsize=11)
    hidden = overlap * (
        f" Of the message, {_time(two.hidden)} are hidden behind the backward pass: only the last "
        "layer's gradient can be, as that of the first layer comes last."
    )
    return Picture(
        figure,
        f"{batch:,} rows, {width:,} hidden units: one device computes for {_time(one.total)}; two "
        f"compute for {_time(two.forward + two.backward)} and wait {_time(two.message)} for the "
        f"message. Two devices are {compared}; they win from {from_rows:,} rows.{hidden}",
    )


def step_time() -> Explorer:
    """Explore when two devices are faster than one, and why not always."""
    from ipywidgets import Checkbox, FloatLogSlider, SelectionSlider

    def powers(first: int, last: int) -> list[int]:
        return [2**power for power in range(first, last + 1)]

    per_second = {"base": 10, "readout_format": ".3g"}
    most = math.log10(500)
    return Explorer(
        draw,
        batch=SelectionSlider(options=powers(4, 16), value=256, description="global batch in rows"),
        width=SelectionSlider(options=powers(6, 13), value=128, description="hidden layer, units"),
        rate=FloatLogSlider(0.1, min=-2, max=2, description="one device, TFLOP/s", **per_second),
        bandwidth=FloatLogSlider(
            1, min=-1, max=most, description="between devices, GB/s", **per_second
        ),
        overlap=Checkbox(False, description="send during backward"),
    )
