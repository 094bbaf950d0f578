"""Contrast in the pictures, by WCAG 2.2: text at least 4.5 to 1 against what is behind it, and what
is drawn on white at least 3 to 1, by itself or by its edge."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex, to_rgb, to_rgba_array
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from helpers import explore, pictures, timeline
from helpers.explore.all_reduce import ground
from helpers.pictures import COLOURS

Colour = Sequence[float]  # red, green and blue from 0 to 1
WHITE = (1.0, 1.0, 1.0)


def luminance(colour: Colour) -> float:
    """The relative luminance, from 0 to 1 (WCAG 2.2, definitions)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def contrast(one: Colour, other: Colour) -> float:
    """From 1 (equal) to 21 (black and white)."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def drawn(figure: Any) -> np.ndarray:
    """The picture as rows of pixels of red, green and blue from 0 to 255, the lowest row first."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[::-1, :, :3]


def faint_texts(figure: Any) -> list[str]:
    """The texts with too little contrast to the most frequent colour behind them."""
    drawn(figure)
    figure.set_layout_engine("none")  # what is behind a text must not move when the texts go
    texts = [t for t in figure.findobj(Text) if any(map(str.isalnum, t.get_text()))]
    places = [text.get_window_extent() for text in texts]
    full, found = drawn(figure), []
    for text in texts:
        text.set_visible(False)
    empty = drawn(figure)
    for text, place in zip(texts, places, strict=True):
        low, high = np.floor(place.min).astype(int).clip(0), np.ceil(place.max).astype(int).clip(0)
        here = np.s_[low[1] : high[1], low[0] : high[0]]
        if (full[here] == empty[here]).all():  # not shown, such as the ticks of hidden axes
            continue
        behind = empty[here].reshape(-1, 3)
        (ground, _), *_ = Counter(map(tuple, behind / 255)).most_common(1)
        if (patch := text.get_bbox_patch()) and patch.get_facecolor()[3] == 1:
            ground = patch.get_facecolor()[:3]
        if (reached := contrast(to_rgb(text.get_color()), ground)) < 4.5:
            found.append(f"{text.get_text()!r}: {reached:.1f}")
    return found


def faint_areas(figure: Any) -> list[str]:
    """Those of COLOURS that are too faint on white and fill an area without a darker edge."""
    found = set()
    for area in figure.findobj(lambda artist: isinstance(artist, (Rectangle, PolyCollection))):
        edges = to_rgba_array(area.get_edgecolor()) if np.any(area.get_linewidth()) else []
        if not any(alpha and contrast(edge, WHITE) >= 3 for *edge, alpha in edges):
            faces = {to_hex(face).upper() for face in to_rgba_array(area.get_facecolor())}
            found |= {c for c in faces if c in COLOURS and contrast(to_rgb(c), WHITE) < 3}
    return sorted(found)


def spans() -> list[timeline.Span]:
    return [
        timeline.Span(f"device {i % 2}", f"{kind} {i}", i, i + 1)
        for i, kind in enumerate(["forward", "backward", "wait", "send", "step", "load"])
    ]


DRAWN = {
    "rows": lambda: pictures.rows({"device 0": [0, 1], "device 1": [2, 3], "device 2": [4]}),
    "losses": lambda: pictures.losses({"one": [2, 1], "two": [2, 1]}),
    "differences": lambda: pictures.differences(
        {"loss": [1e-7], "weights": [0]}, 1e-6, "five steps"
    ),
    "messages": lambda: pictures.messages({"ring": [pictures.Message("chunk 0", 0, 0, 1, 8)]}),
    "processes": lambda: pictures.processes(
        {"one": [["cpu(0)", "cpu(1)"]], "two": [["cpu"], ["cpu"]]}
    ),
    "gantt": lambda: timeline.gantt(spans()),
    **{f"explore.{name}": lambda name=name: getattr(explore, name)() for name in explore.__all__},
}


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The figure behind a picture."""
    figures = []
    monkeypatch.setattr(pictures, "_small_png", lambda figure: figures.append(figure) or b"")
    DRAWN[request.param]()
    return figures[-1]


@pytest.mark.parametrize("figure", DRAWN, indirect=True)
def test_each_text_can_be_read(figure):
    assert faint_texts(figure) == []


@pytest.mark.parametrize("figure", DRAWN, indirect=True)
def test_each_area_stands_out(figure):
    assert faint_areas(figure) == []


def test_white_or_black_text_suits_each_colour():
    """The rule in the pictures: white on the first colour, black on all others."""
    first, *others = map(to_rgb, COLOURS)
    assert contrast(WHITE, first) >= 4.5 > contrast((0, 0, 0), first)
    assert all(contrast((0, 0, 0), colour) >= 4.5 > contrast(WHITE, colour) for colour in others)


@pytest.mark.parametrize("devices", range(2, 9))
def test_black_can_be_read_on_every_ground_of_the_ring(devices):
    grounds = [ground(count, devices) for count in range(1, devices + 1)]
    assert len(set(grounds)) == devices
    assert all(contrast((0, 0, 0), to_rgb(colour)) >= 4.5 for colour in grounds)


def test_faint_things_are_noticed():
    """The negative control."""
    assert contrast(WHITE, (0, 0, 0)) == pytest.approx(21)
    figure = pictures.new_figure(4, 2)
    axes = figure.subplots()
    axes.barh(0, 1, color=COLOURS[1])
    axes.text(0.5, 0, "here", color="white")
    assert [text.partition(":")[0] for text in faint_texts(figure)] == ["'here'"]
    assert faint_areas(figure) == [COLOURS[1]]
