"""Split the model: two stages, micro-batches, and the time in which a device waits (the bubble)."""

from helpers import timeline
from helpers.explore.explorer import Explorer
from helpers.pictures import COLOURS, EDGE, Picture, new_figure


def schedule(layers: int, first: int, micro_batches: int) -> list[timeline.Span]:
    """Who works when in one step of a pipeline of two stages, the first with ``first`` layers.

    The order is GPipe's, as in §6 of the chapters: all forward passes, then all backward passes.
    All layers are alike, a backward pass takes twice as long as a forward pass, and messages take
    no time. The unit of time is the forward pass of one layer for the whole batch. Raises
    ValueError where a device has no layer, and without a micro-batch.
    """
    if not 0 < first < layers:
        raise ValueError(f"Each device needs a layer: {first} of {layers} do not make two stages.")
    if micro_batches < 1:
        raise ValueError(f"A step has at least one micro-batch, not {micro_batches}.")
    stages = first / micro_batches, (layers - first) / micro_batches
    spans, free = [], [0.0, 0.0]

    def work(device: int, label: str, length: float, received: float = 0.0) -> float:
        """Note the work, begun when the device is free and has what it needs; when it is done."""
        start = max(free[device], received)
        free[device] = start + length
        spans.append(timeline.Span(f"device {device}", label, start, free[device]))
        return free[device]

    for number in range(micro_batches):
        sent = work(0, f"forward {number}", stages[0])
        work(1, f"forward {number}", stages[1], sent)
    for number in range(micro_batches):
        sent = work(1, f"backward {number}", 2 * stages[1])
        work(0, f"backward {number}", 2 * stages[0], sent)
    return spans


def bubble(micro_batches: int, stages: int = 2) -> float:
    """The share of the time in which devices wait, with stages of equal length: (p - 1) /
    (m + p - 1) for p stages and m micro-batches (Huang et al., 2019, GPipe)."""
    return (stages - 1) / (micro_batches + stages - 1)


def draw(layers: int, first: int, micro_batches: int) -> Picture:
    """Draw the step as a Gantt chart, on a scale that ends where one device alone would end."""
    spans = schedule(layers, first, micro_batches)
    idle, even, end = timeline.idle(spans), bubble(micro_batches), max(s.end for s in spans)
    alone = 3 * layers  # forward takes 1 for each layer, backward 2

    figure = new_figure(9, 2.8)
    figure.set_layout_engine("none")  # the axes stay where they are
    axes = figure.add_axes((0.1, 0.39, 0.88, 0.43), xlim=(0, 1.02 * alone), ylim=(-1.5, 0.5))
    inches = 0.88 * 9 / (1.02 * alone)  # of one unit of time
    waiting = {"facecolor": "white", "edgecolor": "#999999", "hatch": "////", "linewidth": 0}
    axes.barh([0, -1], end, 0.7, label="idle", **waiting)
    for kind, colour, ink in ("forward", COLOURS[0], "white"), ("backward", COLOURS[1], "black"):
        for line in (0, -1):
            mine = [s for s in spans if s.device == f"device {-line}" and s.label.startswith(kind)]
            width = inches * (mine[0].end - mine[0].start)
            boxes = [(s.start, s.end - s.start) for s in mine]
            # The line between two boxes is thin where a thick one would cover them.
            edges = {"edgecolor": EDGE, "linewidth": min(0.6, 10 * width)}
            label = "" if line else kind
            axes.broken_barh(boxes, (line - 0.35, 0.7), facecolor=colour, label=label, **edges)
            if width < 0.05 + 0.065 * len(str(micro_batches - 1)):
                continue  # the numbers have no room
            for one in mine:
                place, number = (one.start + one.end) / 2, one.label.split()[1]
                style = {"ha": "center", "va": "center", "fontsize": 8, "color": ink}
                axes.text(place, line, number, **style)
    axes.axvline(alone, color="black", linestyle="--", label="end on one device alone")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.42), ncols=4, fontsize=9, frameon=False)
    axes.set_yticks([0, -1], ["device 0", "device 1"])
    axes.set_xlabel("time (1 is the forward pass of one layer for the whole batch)")
    axes.spines[["top", "right"]].set_visible(False)
    formula = f"1 / (m + 1) = {even:.1%}"
    axes.set_title(f"Bubble {idle:.1%}; for even halves the formula says {formula}", fontsize=11)
    pieces = f"{micro_batches} micro-batch{'es' * (micro_batches > 1)}"
    return Picture(
        figure,
        f"{layers} layers, {first} on device 0 and {layers - first} on device 1, {pieces}: the "
        f"devices wait {idle:.1%} of the time; with even halves it is {even:.1%} by the formula. "
        f"The step takes {end:.3g} units of time, on one device alone {alone}.",
    )


def pipeline() -> Explorer:
    """Explore how micro-batches and uneven halves change the bubble."""
    from ipywidgets import IntSlider, dlink

    layers = IntSlider(8, min=2, max=12, description="layers")
    first = IntSlider(4, min=1, description="layers on device 0")
    # Linked before Explorer looks on: it never draws a device without a layer.
    dlink((layers, "value"), (first, "max"), lambda count: count - 1)
    micro_batches = IntSlider(4, min=1, max=16, description="micro-batches")
    return Explorer(draw, layers=layers, first=first, micro_batches=micro_batches)
