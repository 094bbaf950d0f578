"""What all explorers share: a change is drawn, and a still picture stands where widgets cannot."""

import re

import pytest
from ipywidgets import IntSlider
from strip_widgets import WIDGET

from helpers import explore
from helpers.explore.explorer import Explorer
from helpers.pictures import Picture, new_figure

# For each explorer a change of each control, in an order in which each of them is seen.
CHANGES = {
    "all_reduce": {"devices": 5, "rounds": 2, "size": 200},
    "memory": {"weights": 2000, "optimizer": "SGD", "rows": 128, "activations": 20, "card": 24},
    "pipeline": {"layers": 10, "first": 7, "micro_batches": 8},
    "rows": {"devices": 3, "rows": 11, "split": "by speed", "speed": 3.5},
    "step_time": {"batch": 1024, "width": 1024, "rate": 10, "bandwidth": 50, "overlap": True},
    "which_split": {
        "framework": "mxnet",
        "alike": False,
        "steps": "very short",
        "want": "many trainings",
        "fits": "no",
    },
}


def draw(size):
    figure = new_figure(2, 1)
    figure.subplots().plot([0, size])
    return Picture(figure, f"A line up to {size} & <no more>.")


@pytest.fixture
def explorer():
    return Explorer(draw, size=IntSlider(3, 1, 9, description="size"))


def shown(explorer):
    """The picture and the sentence on the page."""
    found = re.fullmatch(
        r'<img alt="(.*?)" src="(.*?)" style=.*?><p .*?>(.*?)</p>', explorer._shown.value
    )
    alternative, source, sentence = found.groups()
    assert alternative == sentence
    return source, sentence


def test_a_change_of_a_control_is_drawn(explorer):
    before = shown(explorer)
    explorer.controls["size"].value = 4
    source, sentence = shown(explorer)
    assert sentence == "A line up to 4 &amp; &lt;no more&gt;."
    assert source != before[0]
    explorer.controls["size"].value = 3
    assert shown(explorer) == before


def test_a_still_picture_stands_where_widgets_cannot(explorer):
    explorer.controls["size"].value = 5
    data = explorer._repr_mimebundle_()
    assert data["text/html"] == draw(5)._repr_html_()
    assert data["text/plain"] == repr(explorer) == "[picture] A line up to 5 & <no more>."
    assert WIDGET in data


@pytest.mark.parametrize("name", explore.__all__)
def test_each_explorer_says_what_can_be_changed(name):
    explorer = getattr(explore, name)()
    assert explorer.controls
    for control in explorer.controls.values():
        assert control.description


@pytest.mark.parametrize("name", explore.__all__)
def test_each_control_changes_what_is_shown(name):
    explorer = getattr(explore, name)()
    assert CHANGES[name].keys() == explorer.controls.keys()
    for control, value in CHANGES[name].items():
        before = explorer._shown.value
        explorer.controls[control].value = value
        assert explorer._shown.value != before, control


@pytest.mark.parametrize("name", explore.__all__)
def test_each_explorer_is_given_as_widgets_and_as_a_still_picture(name):
    data = getattr(explore, name)()._repr_mimebundle_()
    assert data.keys() >= {WIDGET, "text/plain"}
    assert data["text/html"].startswith('<img alt="')


@pytest.mark.parametrize("name", explore.__all__)
def test_each_explorer_starts_with_the_same_small_picture(name):
    one, two = (getattr(explore, name)().picture for _ in range(2))
    assert one.png == two.png
    assert len(one.png) < 20_000
