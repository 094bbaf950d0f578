"""The drawings that several chapters share. Each comes with a sentence that says what it shows."""

import base64
import html
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import psutil

from helpers.devices import Survey
from helpers.frameworks import NAMES

# From Okabe and Ito (2008): colours that people with a colour vision deficiency can tell apart.
EDGE = "#555555"  # around areas: the lighter ones of these colours are faint on white
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
ROUNDING = float(np.finfo(np.float32).eps) / 2  # relative rounding error of one float32 operation


class Picture:
    """A drawing as PNG with a text alternative, which stands for it where there are no pictures.

    It is shown as HTML: JupyterLab and nbconvert give no alternative text to an image/png output.
    """

    def __init__(self, figure: Any, text: str) -> None:
        self.png = _small_png(figure)
        self.text = text

    def __repr__(self) -> str:
        return f"[picture] {self.text}"

    def _repr_html_(self) -> str:
        png = base64.b64encode(self.png).decode()
        source = f'src="data:image/png;base64,{png}"'
        return f'<img alt="{html.escape(self.text)}" {source} style="max-width: 100%">'


def _small_png(figure: Any) -> bytes:
    """PNG of at most 128 colours: a third of the bytes, and notebooks stay small."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas, small = FigureCanvasAgg(figure), io.BytesIO()
    canvas.draw()  # savefig would draw twice, and an explorer waits for it
    drawn = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    # No dithering: it would speckle plain areas.
    drawn.quantize(128, dither=Image.Dither.NONE).save(small, format="png", optimize=True)
    return small.getvalue()


def new_figure(width: float, height: float) -> Any:
    """A figure of this size in inches."""
    # Figure alone, without pyplot: no global state, no window, nothing shown twice.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def images(pictures: np.ndarray, labels: Sequence[str]) -> Picture:
    """Draw rows of 784 grey values as 28 x 28 images side by side, each under its label."""
    figure = new_figure(1.1 * len(labels), 1.4)
    for axes, row, label in zip(figure.subplots(1, len(labels)), pictures, labels, strict=True):
        axes.imshow(row.reshape(28, 28), cmap="gray_r")
        axes.set_title(label, fontsize=9)
        axes.axis("off")
    return Picture(figure, f"{len(labels)} grey images: {', '.join(labels)}.")


def rows(shares: Mapping[str, Sequence[int]]) -> Picture:
    """Draw the rows of one global batch as boxes, each in the colour of the device that gets it."""
    batch = max(row for share in shares.values() for row in share) + 1
    figure = new_figure(8, 0.7 + 0.45 * len(shares))
    axes = figure.subplots()
    for line, share in enumerate(shares.values()):
        for row in range(batch):
            axes.add_patch(_box(row, -line, COLOURS[line] if row in share else "#EEEEEE"))
    axes.set_xlim(-0.5, batch + 0.5)
    axes.set_ylim(-len(shares) + 0.8, 1)
    axes.set_yticks([0.4 - line for line in range(len(shares))], list(shares))
    axes.set_xticks(np.arange(batch) + 0.4, [str(row) for row in range(batch)])
    axes.set_xlabel("row of the global batch")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    told = (f"{device} gets rows {', '.join(map(str, share))}" for device, share in shares.items())
    return Picture(figure, f"A global batch of {batch} rows: {'; '.join(told)}.")


def _box(x: float, y: float, colour: str, width: float = 0.8, height: float = 0.8) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), width, height, facecolor=colour, edgecolor=EDGE, linewidth=0.6)


def losses(curves: Mapping[str, Sequence[float]], x: str = "step") -> Picture:
    """Draw one loss curve per entry, each with its own marker: equal curves show as such."""
    figure = new_figure(7, 3)
    axes = figure.subplots()
    for number, (name, values) in enumerate(curves.items()):
        axes.plot(
            range(1, len(values) + 1),
            values,
            color=COLOURS[number],
            marker="o+x^"[number % 4],
            markersize=11 / (1 + 0.3 * number),
            fillstyle="none",
            linewidth=max(2.5 / (1 + number), 0.9),
            label=name,
        )
    axes.set_xlabel(x)
    axes.set_ylabel("loss")
    axes.xaxis.get_major_locator().set_params(integer=True)
    beside = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}  # many would cover the curves
    axes.legend(**beside if len(curves) > 3 else {})
    told = (f"{name} from {v[0]:.2f} to {v[-1]:.2f}" for name, v in curves.items())
    return Picture(figure, f"Loss over the {x}s: {'; '.join(told)}.")


def differences(found: Mapping[str, Sequence[float]], tolerance: float, title: str) -> Picture:
    """Draw the largest difference of each quantity per step on a log scale, with the tolerance."""
    figure = new_figure(7, 3.2)
    axes = figure.subplots()
    floor = 1e-10  # a difference of exactly zero has no place on a log scale: it is drawn here
    for number, (name, values) in enumerate(found.items()):
        shown = np.maximum(values, floor)
        axes.plot(
            range(1, len(shown) + 1),
            shown,
            marker="os^"[number % 3],
            markersize=10 / (1 + 0.25 * number),  # equal curves show as such
            linewidth=2.5 / (1 + 0.5 * number),
            color=COLOURS[number],
            label=name,
        )
    axes.axhline(tolerance, color="black", linestyle="--", label=f"tolerance {tolerance:.0e}")
    axes.axhline(ROUNDING, color="grey", linestyle=":", label=f"float32 near 1: {ROUNDING:.0e}")
    axes.set_yscale("log")
    axes.set_ylim(bottom=floor / 2)
    axes.set_xticks(range(1, max(map(len, found.values())) + 1))
    axes.set_xlabel("step")
    axes.set_ylabel(f"largest difference\n(none: drawn at {floor:.0e})")
    axes.set_title(title)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    below = max(map(max, found.values())) <= tolerance
    verdict = "every point lies below the tolerance" if below else "points lie above the tolerance"
    return Picture(figure, f"{title}: difference per step, log scale; {verdict}.")


def speed_ups(
    measured: Mapping[str, Mapping[int, tuple[float, float, float]]],
    predicted: Mapping[str, Mapping[int, float]],
    x: str = "global batch in rows",
) -> Picture:
    """Draw how many times faster two devices are than one: for each network one colour, measured
    as (median, low, high) over ``x`` (points with their spread), predicted as a broken line."""
    figure = new_figure(8, 3.6)
    axes = figure.subplots()
    for number, (name, points) in enumerate(measured.items()):
        colour, places = COLOURS[number], list(points)
        middle, low, high = np.array(list(points.values())).T
        spread = np.maximum([middle - low, high - middle], 0)
        marker = {"marker": "os^D"[number % 4], "capsize": 3, "linestyle": "none"}
        axes.errorbar(places, middle, spread, color=colour, label=f"{name}, measured", **marker)
        line = predicted[name]
        axes.plot(list(line), list(line.values()), "--", color=colour, label=f"{name}, predicted")
    axes.axhline(1, color="black", linewidth=1, label="as fast as one device")
    axes.axhline(2, color="grey", linestyle=":", label="the limit: twice as fast")
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(x)
    axes.set_ylabel("speed-up, two devices")
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)
    told = "; ".join(
        f"{name}: " + ", ".join(f"{place} rows {point[0]:.2f}" for place, point in points.items())
        for name, points in measured.items()
    )
    return Picture(figure, f"Measured speed-up with two devices over the {x}. {told}.")


class Message(NamedTuple):
    """One message of an all-reduce: which part, in which round, between which devices (0, 1, ...),
    and its size in bytes."""

    part: str
    round: int
    sender: int
    receiver: int
    size: int


def messages(ways: Mapping[str, Sequence[Message]]) -> Picture:
    """Draw who sends what: for each way to do an all-reduce one panel, round by round."""
    ways = {name: sorted(sent, key=lambda m: (m.round, m.sender)) for name, sent in ways.items()}
    rounds = [1 + max(message.round for message in sent) for sent in ways.values()]
    figure = new_figure(9, 2.6)
    panels = figure.subplots(1, len(ways), width_ratios=rounds)
    for axes, (name, sent), count in zip(np.atleast_1d(panels), ways.items(), rounds, strict=True):
        devices = 1 + max(max(message.sender, message.receiver) for message in sent)
        for device in range(devices):
            axes.axhline(-device, color=COLOURS[device], linewidth=5)
        for message in sent:
            together = [m for m in sent if m.round == message.round]
            x = message.round + (together.index(message) + 0.5) / len(together)
            axes.annotate(
                "",
                xy=(x, -message.receiver),
                xytext=(x, -message.sender),
                arrowprops={"arrowstyle": "-|>", "color": "black", "shrinkA": 3, "shrinkB": 3},
            )
            middle = -(message.sender + message.receiver) / 2
            told = f"{message.part}\n{message.size:,} B"
            ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
            axes.text(x + 0.04, middle, told, va="center", fontsize=8.5, bbox=ground)
        for edge in range(1, count):
            axes.axvline(edge, color="grey", linestyle=":", zorder=0)
        axes.set_xlim(0, count)
        axes.set_ylim(-devices + 0.7, 0.3)
        axes.set_xticks(np.arange(count) + 0.5, [f"round {1 + i}" for i in range(count)])
        axes.set_yticks([-i for i in range(devices)], [f"device {i}" for i in range(devices)])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(name)
    told = "; ".join(
        f"{name}: "
        + ", ".join(
            f"round {m.round + 1} device {m.sender} sends {m.part} ({m.size:,} bytes) "
            f"to device {m.receiver}"
            for m in sent
        )
        for name, sent in ways.items()
    )
    return Picture(figure, f"Who sends what; {told}.")


def processes(frameworks: Mapping[str, Sequence[Sequence[str]]]) -> Picture:
    """Draw for each framework its processes as frames, the devices in them as coloured boxes."""
    figure = new_figure(9, 2.2)
    for axes, (name, frames) in zip(
        figure.subplots(1, len(frameworks)), frameworks.items(), strict=True
    ):
        width, device = 2 / len(frames), 0
        for number, names in enumerate(frames):
            axes.add_patch(_box(number * width + 0.03, 0, "#F5F5F5", width - 0.06, 1))
            axes.text((number + 0.5) * width, 0.88, "process", ha="center", va="center", fontsize=9)
            for place, label in enumerate(names):
                left = number * width + (place + 0.5) * width / len(names)
                axes.add_patch(_box(left - 0.36, 0.15, COLOURS[device], 0.72, 0.55))
                axes.text(
                    left,
                    0.42,
                    label,
                    ha="center",
                    va="center",
                    color="white" if device == 0 else "black",
                )
                device += 1
        axes.set_xlim(0, 2)
        axes.set_ylim(-0.05, 1.05)
        axes.set_title(name)
        axes.axis("off")
    told = (
        f"{name}: {' and '.join(device for frame in frames for device in frame)} in "
        f"{len(frames)} process{'es' * (len(frames) > 1)}"
        for name, frames in frameworks.items()
    )
    return Picture(figure, f"Two simulated devices. {'; '.join(told)}.")


_ON_CPU = "TensorFlow CPU:0, CPU:1\n  PyTorch two processes\n  MXNet cpu(0), cpu(1)"


def machine(found: Survey) -> Picture:
    """Draw the memory of this machine and of each card, and what each framework calls them."""
    gib = 2**30
    host = psutil.virtual_memory()
    bars = [("CPU", host.total / gib, (host.total - host.available) / gib, _ON_CPU)]
    for card, row in zip(found.cards, found.rows()[1:], strict=True):
        total = card.total or 0  # unknown memory: a bar without length
        used = total - (total if card.free is None else card.free)
        names = zip(found.sights, row[-len(found.sights) :], strict=True)
        calls = ", ".join(f"{NAMES[sight.framework]} {name}" for sight, name in names)
        bars.append((f"GPU {card.number}: {card.name}", total / 1024, used / 1024, calls))
    figure = new_figure(9, 0.9 + 0.6 * len(bars))
    axes = figure.subplots()
    for line, (_, total, used, calls) in enumerate(bars):
        axes.add_patch(_box(0, -line - 0.3, "#EEEEEE", total, 0.6))
        axes.add_patch(_box(0, -line - 0.3, COLOURS[line % 2], used, 0.6))
        axes.text(total, -line, f"  {calls}", va="center", fontsize=9)
    longest = max(total for _, total, _, _ in bars)
    axes.set_xlim(0, 1.7 * longest)  # room for the names behind the bars
    axes.set_ylim(-len(bars) + 0.5, 0.5)
    axes.set_yticks([-line for line in range(len(bars))], [bar[0] for bar in bars])
    axes.set_xlabel("memory in GiB, the coloured part is in use")
    axes.spines[["top", "right"]].set_visible(False)
    told = "; ".join(
        f"{name} {used:.1f} of {total:.1f} GiB in use" for name, total, used, _ in bars
    )
    return Picture(figure, f"Memory of this machine: {told}.")
