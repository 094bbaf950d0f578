"""The explorer of step times: the counts of §8, the message and what of it can be hidden."""

import io
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from helpers import explore
from helpers.explore.step_time import crossing, draw, step

WIDTHS = st.integers(1, 8192)
RATES, BANDWIDTHS = st.floats(0.01, 100), st.floats(0.1, 500)


@pytest.mark.parametrize(
    ("width", "flops", "message"),
    # as printed in §8 of the chapters, where the compiled step is asked: 256 rows, two devices
    [(128, 104_726_528, 407_080), (1024, 837_812_224, 3_256_360)],
)
def test_the_counts_are_those_of_the_chapters(width, flops, message):
    # At 1 TFLOP/s and 1 GB/s, seconds are counts.
    one, two = (step(256, width, 1, 1, devices) for devices in (1, 2))
    assert one.total == pytest.approx(flops / 1e12)
    assert two.forward + two.backward == pytest.approx(flops / 2 / 1e12)
    assert two.message == pytest.approx(message / 1e9)
    assert (one.message, one.hidden, two.hidden) == (0, 0, 0)


def test_a_small_step_by_hand():
    # 784-1-10: 784 + 1 weights in the first layer, 10 + 10 in the last; 3 rows, so 2 on one device.
    two = step(3, 1, 1e-12, 1e-9, 2)  # 1 operation and 1 byte a second
    assert two.forward == pytest.approx(2 * (2 * 784 + 2 * 10))
    assert two.backward == pytest.approx(2 * (2 * 784 + 4 * 10))
    assert two.message == pytest.approx(4 * 805)
    # Hidden: the whole message of the last layer, 80 bytes, as the rest takes 3176 seconds.
    overlapped = step(3, 1, 1e-12, 1e-9, 2, overlap=True)
    assert overlapped.hidden == pytest.approx(4 * 20)
    assert overlapped.message == pytest.approx(4 * 785)
    # With a link 100 times slower the rest of the backward pass is too short for it.
    slow = step(3, 1, 1e-12, 1e-11, 2, overlap=True)
    assert slow.hidden == pytest.approx(2 * (2 * 10 + 2 * 784))
    assert slow.hidden + slow.message == pytest.approx(100 * 4 * 805)


def test_more_devices_send_more():
    two, four = (step(256, 128, 1, 1, devices).message for devices in (2, 4))
    assert four / two == pytest.approx(1.5)  # 2 * 3/4 against 2 * 1/2


@given(st.integers(1, 10**6), WIDTHS, RATES, BANDWIDTHS)
def test_overlap_hides_a_part_of_the_message_and_changes_no_work(batch, width, rate, bandwidth):
    plain, overlapped = (step(batch, width, rate, bandwidth, 2, overlap) for overlap in (0, 1))
    assert overlapped[:2] == plain[:2]
    assert overlapped.message + overlapped.hidden == pytest.approx(plain.message)
    assert 0 < overlapped.hidden <= overlapped.backward
    first_layer = 785 * width / (795 * width + 10)
    assert overlapped.message >= plain.message * first_layer * (1 - 1e-9)


@given(WIDTHS, RATES, BANDWIDTHS, st.booleans())
def test_two_devices_win_from_the_crossing_and_not_before(width, rate, bandwidth, overlap):
    def speed_up(batch):
        one, two = (step(batch, width, rate, bandwidth, n, overlap).total for n in (1, 2))
        return one / two

    rows = crossing(width, rate, bandwidth, overlap)
    assert speed_up(rows) > 1 - 1e-9
    assert speed_up(rows - 1) < 1 + 1e-9
    assert rows == 2 or speed_up(rows - 2) < 1 + 1e-9
    assert speed_up(2 * rows + 2) > 1


def test_the_crossing_by_hand():
    # 4 * 101,770 bytes at 1 GB/s against 409,088 operations for each row saved at 0.1 TFLOP/s:
    # 99.5 rows, so 100 of them must be saved.
    assert crossing(128, 0.1, 1) == 200
    assert crossing(128, 0.1, 500) == 2
    assert crossing(128, 1, 1) == 1992  # 995.1 rows
    # 98.26 rows for the first layer's message alone, which cannot be hidden
    assert crossing(128, 0.1, 1, overlap=True) == 198


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("bad", [0, -1, math.inf, math.nan])
def test_what_is_not_above_0_is_said(place, bad):
    numbers = [256, 128, 0.1, 1, 2]
    numbers[place] = bad
    with pytest.raises(ValueError, match="must be numbers above 0"):
        step(*numbers)


EXTREMES = [*itertools.product((16, 65536), (64, 8192), (0.01, 100), (0.1, 500), (False, True))]


@pytest.mark.parametrize("setting", EXTREMES)
def test_the_picture_has_one_size(setting):
    picture = draw(*setting)
    assert Image.open(io.BytesIO(picture.png)).size == (900, 300)
    assert len(picture.png) < 20_000
    assert "e+" not in picture.text and "e-" not in picture.text


def test_the_text_says_the_times_and_who_wins():
    text = draw(256, 128, 0.1, 1, False).text
    assert "one device computes for 1.05 ms; two compute for 524 µs and wait 407 µs" in text
    assert "Two devices are 1.13 times as fast as one; they win from 200 rows." in text
    assert "hidden behind" not in text
    assert "5.16 µs are hidden behind" in draw(256, 128, 0.1, 1, True).text
    # a quarter of the rows: 0.262 ms against 0.131 + 0.407
    assert "slower: a step takes 2.05 times as long" in draw(64, 128, 0.1, 1, False).text
    # at the crossing itself, and one power of two below it
    assert "slower" in draw(198, 128, 0.1, 1, False).text
    assert "slower" not in draw(200, 128, 0.1, 1, False).text


def test_the_ranges_of_the_controls():
    controls = explore.step_time().controls
    ends = {
        name: (controls[name].options[0], controls[name].options[-1]) for name in list(controls)[:2]
    }
    assert ends == {"batch": (16, 65536), "width": (64, 8192)}
    controls["bandwidth"].value = 1e6
    assert controls["bandwidth"].value == pytest.approx(500)
