"""The explorer of the pipeline: the schedule of GPipe, and its bubble against the formula."""

import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from helpers import explore, timeline
from helpers.explore.pipeline import bubble, draw, schedule


@st.composite
def pipelines(draw):
    layers = draw(st.integers(2, 40))
    return layers, draw(st.integers(1, layers - 1)), draw(st.integers(1, 40))


def test_a_small_pipeline_by_hand():
    # Two layers on each device, two micro-batches: a forward takes 1, a backward 2.
    assert sorted(schedule(4, 2, 2)) == [
        ("device 0", "backward 0", 5, 7),
        ("device 0", "backward 1", 7, 9),
        ("device 0", "forward 0", 0, 1),
        ("device 0", "forward 1", 1, 2),
        ("device 1", "backward 0", 3, 5),
        ("device 1", "backward 1", 5, 7),
        ("device 1", "forward 0", 1, 2),
        ("device 1", "forward 1", 2, 3),
    ]


def test_an_uneven_pipeline_by_hand():
    # One micro-batch: one after the other. 1 + 3 + 6 + 2 units, each device idle in the other's.
    spans = schedule(4, 1, 1)
    assert [(s.start, s.end) for s in spans] == [(0, 1), (1, 4), (4, 10), (10, 12)]
    assert timeline.idle(spans) == 0.5


@pytest.mark.parametrize("micro_batches", [*range(1, 17), 100])
@pytest.mark.parametrize("half", [1, 3, 6])
def test_even_halves_have_the_bubble_of_the_formula(half, micro_batches):
    spans = schedule(2 * half, half, micro_batches)
    assert timeline.idle(spans) == pytest.approx(bubble(micro_batches), abs=1e-12)


def test_the_formula_is_that_of_the_chapters():
    assert [bubble(m) for m in (1, 2, 4, 8)] == [1 / 2, 1 / 3, 1 / 5, 1 / 9]
    assert bubble(4, stages=1) == 0
    assert bubble(5, stages=4) == 3 / 8


@given(pipelines())
def test_uneven_halves_never_wait_less_than_the_formula(setting):
    assert timeline.idle(schedule(*setting)) >= bubble(setting[-1]) - 1e-12


def test_uneven_halves_wait_more():
    assert timeline.idle(schedule(12, 1, 16)) > 5 * bubble(16)


@given(pipelines())
def test_nothing_begins_before_what_it_needs(setting):
    layers, first, micro_batches = setting
    spans = schedule(*setting)
    when = {(s.device, s.label): s for s in spans}
    assert len(when) == len(spans) == 4 * micro_batches
    for i in range(micro_batches):
        forward_0, forward_1 = (when[f"device {d}", f"forward {i}"] for d in (0, 1))
        backward_0, backward_1 = (when[f"device {d}", f"backward {i}"] for d in (0, 1))
        assert forward_0.end <= forward_1.start
        assert backward_1.end <= backward_0.start
    for device, share in (("device 0", first), ("device 1", layers - first)):
        mine = sorted((s for s in spans if s.device == device), key=lambda s: s.start)
        assert all(a.end <= b.start for a, b in itertools.pairwise(mine))
        # all forward passes, then all backward passes, each kind in order
        assert [s.label for s in mine] == [
            f"{kind} {i}" for kind in ("forward", "backward") for i in range(micro_batches)
        ]
        assert sum(s.end - s.start for s in mine) == pytest.approx(3 * share)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ((8, 0, 1), "0 of 8 do not make two stages"),
        ((8, 8, 1), "8 of 8"),
        ((1, 1, 1), "1 of 1"),
        ((8, -1, 1), "-1 of 8"),
        ((8, 4, 0), "at least one micro-batch, not 0"),
    ],
)
def test_what_is_no_pipeline_is_said(setting, said):
    with pytest.raises(ValueError, match=said):
        schedule(*setting)


@pytest.mark.parametrize(
    "setting", [(2, 1, 1), (2, 1, 16), (12, 1, 16), (12, 11, 16), (12, 6, 1), (9, 4, 8)]
)
def test_the_picture_has_one_size(setting):
    png = draw(*setting).png
    assert Image.open(io.BytesIO(png)).size == (900, 280)
    assert len(png) < 20_000


def test_the_text_says_the_bubble_and_the_time():
    text = draw(8, 4, 4).text
    assert "8 layers, 4 on device 0 and 4 on device 1, 4 micro-batches" in text
    assert "wait 20.0% of the time; with even halves it is 20.0% by the formula" in text
    assert "The step takes 15 units of time, on one device alone 24." in text
    # 1/16 + 11 + 22 + 2/16 units, of which each device works half of 36
    text = draw(12, 1, 16).text
    assert "wait 45.8% of the time; with even halves it is 5.9%" in text
    assert "1 micro-batch:" in draw(8, 4, 1).text


def test_the_first_device_leaves_a_layer_for_the_second():
    explorer = explore.pipeline()
    controls = explorer.controls
    controls["first"].value = 99
    assert controls["first"].value == 7
    controls["layers"].value = 2
    assert controls["first"].value == controls["first"].max == 1
    assert "1 on device 0 and 1 on device 1" in explorer._shown.value
    controls["layers"].value = 12
    assert (controls["first"].value, controls["first"].max) == (1, 11)
