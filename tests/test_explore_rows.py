"""The explorer of shards: whole rows, shared out by speed, and the two means."""

import io
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from helpers import explore
from helpers.explore.rows import draw, means, share_out

SPEEDS = st.lists(st.floats(0.1, 10), min_size=1, max_size=6)
ROWS = st.integers(1, 200)


@pytest.mark.parametrize(
    ("rows", "speeds", "sizes"),
    [
        (10, [1, 1], [5, 5]),
        (7, [1, 1], [4, 3]),  # the odd row: the first device, as in the chapters
        (10, [1, 1, 1, 1], [3, 3, 2, 2]),
        (10, [4, 1], [8, 2]),
        (10, [3, 1], [8, 2]),  # quotas 7.5 and 2.5: equal remainders, the lower device
        (11, [3, 1], [8, 3]),  # quotas 8.25 and 2.75: the larger remainder, the higher device
        (10, [0.1, 0.1, 0.1], [4, 3, 3]),
        (2, [1, 1, 1], [1, 1, 0]),
        (2, [4, 1, 1], [2, 0, 0]),  # three remainders of a third, unlike in floats
        (3, [10, 1, 1], [3, 0, 0]),
        (5, [2], [5]),
    ],
)
def test_rows_are_shared_out_as_worked_out_by_hand(rows, speeds, sizes):
    assert share_out(rows, speeds) == sizes


@given(ROWS, SPEEDS)
def test_no_row_is_lost_and_no_share_is_a_row_away_from_its_quota(rows, speeds):
    sizes = share_out(rows, speeds)
    assert sum(sizes) == rows
    for size, speed in zip(sizes, speeds, strict=True):
        assert abs(size - rows * speed / sum(speeds)) < 1 + 1e-9


@given(ROWS, st.integers(1, 8))
def test_equal_speeds_give_the_cut_of_the_chapters(rows, devices):
    each, odd = divmod(rows, devices)
    assert share_out(rows, [3] * devices) == [each + (device < odd) for device in range(devices)]


@pytest.mark.parametrize(
    ("rows", "speeds", "said"),
    [
        (0, [1, 1], "at least 1, not 0"),
        (2.5, [1, 1], "whole number"),
        (4, [], "Each device"),
        (4, [1, 0], "above 0"),
        (4, [1, -1], "above 0"),
        (4, [1, math.nan], "above 0"),
        (4, [1, math.inf], "above 0"),
    ],
)
def test_what_cannot_be_shared_out_is_said(rows, speeds, said):
    with pytest.raises(ValueError, match=said):
        share_out(rows, speeds)


def test_the_naive_mean_is_right_for_equal_shards_only():
    values = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert means(values, [5, 5]) == (5.5, 5.5)
    assert means(values, [8, 2]) == (5.5, 7.0)  # (4.5 + 9.5) / 2
    right, naive = means(values, [10, 0])
    assert right == 5.5 and math.isnan(naive)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=40), st.integers(1, 5))
def test_weighted_by_their_rows_the_devices_means_give_the_right_mean(values, devices):
    sizes = share_out(len(values), [1] * devices)
    right, _ = means(values, sizes)
    weighted, first = 0.0, 0
    for size in filter(None, sizes):
        weighted += size / len(values) * (sum(values[first : first + size]) / size)
        first += size
    assert weighted == pytest.approx(right, abs=1e-9)


@pytest.mark.parametrize("sizes", [[1, 1], [2, 2], [4, -1], []])
def test_shards_that_do_not_make_up_the_values_are_refused(sizes):
    with pytest.raises(ValueError, match="do not make up 3 rows"):
        means([1, 2, 3], sizes)


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("rows", [1, 24])
@pytest.mark.parametrize("split", ["even", "by speed"])
def test_the_picture_has_one_size(rows, devices, split):
    png = draw(rows, devices, split, 4).png
    assert Image.open(io.BytesIO(png)).size == (900, 320)
    assert len(png) < 20_000


def test_the_text_says_the_sizes_and_the_means():
    text = draw(10, 2, "by speed", 4).text
    assert "10 rows on 2 devices: 8 and 2." in text
    assert "5.50" in text and "7.00, 1.50 too high" in text
    assert "a row of device 1 weighs 4 times as much as a row of device 0" in text
    # The speed counts only where the split is by speed.
    assert "5 and 5" in draw(10, 2, "even", 4).text
    assert "is the same, as all shards have the same size" in draw(10, 2, "even", 4).text
    assert "1 row on 3 devices: 1, 0 and 0." in draw(1, 3, "even", 1).text
    assert "not a number (nan), as device 1 has no row" in draw(1, 3, "even", 1).text


def test_too_high_is_true_for_all_settings_that_say_so():
    for rows, devices, speed in itertools.product(range(1, 25), (2, 3, 4), (1, 1.5, 2, 2.5, 3, 4)):
        sizes = share_out(rows, [speed] + [1] * (devices - 1))
        right, naive = means(range(1, rows + 1), sizes)
        if min(sizes) == max(sizes):
            assert naive == pytest.approx(right)
        elif min(sizes):
            assert naive - right > 0.005  # not rounded to 0.00


def test_the_speed_can_be_set_only_where_it_counts():
    controls = explore.rows().controls
    assert controls["speed"].disabled
    controls["split"].value = "by speed"
    assert not controls["speed"].disabled
