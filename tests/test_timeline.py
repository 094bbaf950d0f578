"""Spans, their idle share, and the Gantt chart."""

import pytest

from helpers import timeline
from helpers.timeline import Span

PIPELINE = [  # two stages, two micro-batches: each stage works 4 of 6 time units
    Span("device 0", "forward 0", 0, 1),
    Span("device 0", "forward 1", 1, 2),
    Span("device 1", "forward 0", 1, 2),
    Span("device 1", "forward 1", 2, 3),
    Span("device 1", "backward 0", 3, 4),
    Span("device 1", "backward 1", 4, 5),
    Span("device 0", "backward 0", 4, 5),
    Span("device 0", "backward 1", 5, 6),
]


def test_a_span_is_noted_in_order_also_when_the_work_raises():
    spans = []
    with timeline.span(spans, "device 0", "forward 0"):
        pass
    with pytest.raises(ZeroDivisionError), timeline.span(spans, "device 1", "forward 1"):
        1 / 0  # noqa: B018
    assert [(s.device, s.label) for s in spans] == [
        ("device 0", "forward 0"),
        ("device 1", "forward 1"),
    ]
    assert spans[0].start <= spans[0].end <= spans[1].start <= spans[1].end


def test_idle_is_the_bubble():
    assert timeline.idle(PIPELINE) == pytest.approx(1 / 3)
    assert timeline.idle(PIPELINE[:1]) == 0


def test_overlapping_spans_of_one_device_count_once():
    spans = [
        Span("a", "x", 0, 4),
        Span("a", "y", 1, 2),
        Span("a", "z", 3, 5),
        Span("b", "x", 0, 10),
    ]
    assert timeline.idle(spans) == pytest.approx(1 - 15 / 20)


def test_a_span_without_length_is_no_division_by_zero():
    assert timeline.idle([Span("a", "x", 1, 1)]) == 0


def test_gantt_says_what_it_shows():
    picture = timeline.gantt(PIPELINE, "A pipeline")
    assert picture.text == (
        "A pipeline: device 0 4 pieces, device 1 4 pieces of work (forward, backward)."
    )
    assert picture.png.startswith(b"\x89PNG")


@pytest.mark.parametrize("draw", [timeline.idle, timeline.gantt])
def test_no_span_is_said(draw):
    with pytest.raises(ValueError, match="there is no span"):
        draw([])
