"""Bytes worked out by hand, what must hold for all sizes, and a picture that says the same."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import explore
from helpers.explore.memory import CARDS, GB, KEPT, Parts, draw, held

SPLITS = ["one device", "split the batch", "split the model", "split the jobs"]
NETWORK = 784 * 128 + 128 + 128 * 10 + 10  # that of the chapters


def test_the_network_of_the_chapters():
    # The table of §6 has these bytes for "one device" and "data parallel, each".
    plans = held(NETWORK, "Adam", 128, 4 * (128 + 10))
    assert plans["one device"] == [Parts(407_080, 407_080, 814_160, 70_656)]
    assert plans["one device"][0].total == 1_698_976
    assert plans["split the batch"] == [Parts(407_080, 407_080, 814_160, 35_328)] * 2
    assert plans["split the model"] == [Parts(203_540, 203_540, 407_080, 35_328)] * 2
    assert plans["split the jobs"] == plans["one device"] * 2


def test_what_the_optimizers_keep():
    kept = {name: held(1000, name, 1, 0)["one device"][0].optimizer for name in KEPT}
    assert kept == {"SGD": 0, "momentum": 4000, "Adam": 8000}


def test_odd_numbers_are_not_lost():
    plans = held(3, "SGD", 1, 5)
    assert [parts.activations for parts in plans["split the batch"]] == [5, 0]
    assert plans["split the model"] == [Parts(8, 8, 0, 3), Parts(4, 4, 0, 2)]


@given(
    st.integers(1, 10**11),
    st.sampled_from(list(KEPT)),
    st.integers(1, 10**4),
    st.integers(0, 10**9),
)
def test_each_split_holds_what_it_must(weights, optimizer, rows, row_bytes):
    plans = held(weights, optimizer, rows, row_bytes)
    (one,) = plans["one device"]
    first, second = plans["split the model"]
    assert Parts(*map(sum, zip(first, second, strict=True))) == one
    first, second = plans["split the batch"]
    assert first[:3] == second[:3] == one[:3]
    assert first.activations + second.activations == one.activations
    assert plans["split the jobs"] == [one, one]
    assert list(plans) == SPLITS


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((10, "Adagrad", 1, 0), "Unknown optimizer 'Adagrad': choose one of SGD, momentum, Adam"),
        ((0, "SGD", 1, 0), "At least one weight"),
        ((10, "SGD", 0, 0), "one row"),
        ((10, "SGD", 1, -1), "no less than 0 bytes"),
    ],
)
def test_what_cannot_be_is_refused(arguments, told):
    with pytest.raises(ValueError, match=told):
        held(*arguments)


def test_the_text_says_what_fits():
    text = draw(1000, "Adam", 64, 10, 16).text
    assert "one device 16.6 GB, split the batch 16.3 GB, split the model 8.32 GB" in text
    assert "On cards of 16 GB what fits is: split the model. " in text
    assert "On cards of 8 GB nothing fits. " in draw(1000, "Adam", 64, 10, 8).text
    assert "On cards of 24 GB all of them fit. " in draw(1000, "Adam", 64, 10, 24).text


def test_a_card_that_is_exactly_full_is_enough():
    assert held(10**9, "SGD", 1, 0)["one device"][0].total == 8 * GB
    assert "all of them fit" in draw(1000, "SGD", 1, 0, 8).text
    assert "what fits is: split the model" in draw(1000.001, "SGD", 1, 0, 8).text


def test_all_pictures_are_small_and_of_one_size():
    wanted = draw(1000, "Adam", 64, 10, 16).png[16:24]  # width and height, as a PNG says them
    extremes = (1, 20_000), (("SGD", max(CARDS)), ("Adam", min(CARDS))), (1, 1024), (0.01, 1000)
    for weights, (optimizer, card), rows, activations in itertools.product(*extremes):
        picture = draw(weights, optimizer, rows, activations, card)
        assert picture.png[16:24] == wanted
        assert len(picture.png) < 20_000


def test_the_ends_of_the_controls_can_be_drawn():
    explorer = explore.memory()
    for name in ("weights", "activations"):
        control = explorer.controls[name]
        control.value = control.base**control.max
    # 16 bytes for each of 20,000 million weights, and 64 rows of 1 GB.
    assert "one device 384 GB" in explorer.picture.text
