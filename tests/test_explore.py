"""What all explorers share: a change is drawn, and a still picture stands where widgets cannot."""

import re

import pytest
from ipywidgets import IntSlider

from helpers import explore
from helpers.explore.explorer import Explorer
from helpers.pictures import Picture, new_figure

WIDGET = "application/vnd.jupyter.widget-view+json"


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
    data, metadata = explorer._repr_mimebundle_()
    assert data["image/png"] == draw(5).png
    assert data["text/plain"] == repr(explorer) == "[picture] A line up to 5 & <no more>."
    assert metadata["image/png"]["alt"] == "A line up to 5 & <no more>."
    assert WIDGET in data


@pytest.mark.parametrize("name", explore.__all__)
def test_each_explorer_says_what_can_be_changed(name):
    explorer = getattr(explore, name)()
    assert explorer.controls
    for control in explorer.controls.values():
        assert control.description


@pytest.mark.parametrize("name", explore.__all__)
def test_each_explorer_starts_with_the_same_small_picture(name):
    one, two = (getattr(explore, name)()._repr_mimebundle_()[0] for _ in range(2))
    assert one["image/png"] == two["image/png"]
    assert len(one["image/png"]) < 20_000
