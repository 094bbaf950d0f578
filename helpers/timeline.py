"""Who worked when: spans of work on each device, their idle share, and a Gantt chart.

    spans = []
    with timeline.span(spans, "device 0", "forward 0"):
        ...work, waited for inside the block...
    timeline.gantt(spans)

Times are those of ``time.perf_counter``, in seconds. On Linux and macOS its clock is the same for
all processes of one machine, so spans of several processes can be put in one list.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from helpers.pictures import COLOURS, EDGE, Picture, new_figure


class Span(NamedTuple):
    """One piece of work: on which device, what, and when, in seconds."""

    device: str
    label: str
    start: float
    end: float


@contextmanager
def span(spans: list[Span], device: str, label: str) -> Iterator[None]:
    """Note the time that the block takes as a span of this device, also when the block raises.

    The block itself must wait for the device: a framework that returns before the work is done
    makes the span too short.
    """
    start = time.perf_counter()
    try:
        yield
    finally:
        spans.append(Span(device, label, start, time.perf_counter()))


def idle(spans: Sequence[Span]) -> float:
    """The share of all devices' time, from the first start to the last end, in which they did
    nothing (0 to 1). For a pipeline this is its bubble.

    Overlapping spans of one device count once. Raises ValueError without a span.
    """
    if not spans:
        raise ValueError("Nothing was noted: there is no span.")
    devices = {span.device for span in spans}
    whole = (max(s.end for s in spans) - min(s.start for s in spans)) * len(devices)
    busy = 0.0
    for device in devices:
        reached = float("-inf")
        for one in sorted((s for s in spans if s.device == device), key=lambda s: s.start):
            busy += max(0.0, one.end - max(one.start, reached))
            reached = max(reached, one.end)
    return 1 - busy / whole if whole else 0.0


def gantt(spans: Sequence[Span], title: str = "Who worked when") -> Picture:
    """Draw the spans as a Gantt chart: one line per device, one colour per kind of work (the first
    word of the label), the rest of the label in the box. Raises ValueError without a span."""
    if not spans:
        raise ValueError("Nothing was noted: there is no span.")
    begin = min(span.start for span in spans)
    devices = sorted({span.device for span in spans})
    kinds = list(dict.fromkeys(span.label.split()[0] for span in spans))
    figure = new_figure(9, 1.2 + 0.5 * len(devices))
    axes = figure.subplots()
    edge = {"edgecolor": EDGE, "linewidth": 0.6}
    for one in spans:
        kind, _, rest = one.label.partition(" ")
        left, width = 1000 * (one.start - begin), 1000 * (one.end - one.start)
        line = -devices.index(one.device)
        colour = kinds.index(kind) % len(COLOURS)
        axes.barh(line, width, left=left, height=0.7, color=COLOURS[colour], **edge)
        text = "black" if colour else "white"  # a contrast of 4.5 to 1 or more
        axes.text(left + width / 2, line, rest, ha="center", va="center", fontsize=8, color=text)
    for number, kind in enumerate(kinds):
        axes.barh(0, 0, color=COLOURS[number % len(COLOURS)], label=kind, **edge)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    axes.set_yticks([-line for line in range(len(devices))], devices)
    axes.set_xlabel("milliseconds")
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)
    told = (f"{device} {sum(s.device == device for s in spans)} pieces" for device in devices)
    return Picture(figure, f"{title}: {', '.join(told)} of work ({', '.join(kinds)}).")
