"""Every combination of answers gets one answer, its reasons, and a link to a heading there is."""

import itertools
import json
from pathlib import Path

import pytest
from test_notebooks import anchors

from helpers import explore
from helpers.explore.which_split import (
    FITS,
    HEADINGS,
    SPLITS,
    STEPS,
    TURNS,
    WANTS,
    draw,
    place,
    recommend,
)
from helpers.frameworks import NAMES

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
SOONER, MANY, LARGE = WANTS
YES, NO, TINY = FITS
COMPUTING, SHORT = STEPS
ANSWERS = list(itertools.product(WANTS, FITS, (True, False), STEPS))


CASES = [
    (SOONER, YES, True, COMPUTING, 3),
    (SOONER, YES, False, COMPUTING, 4),
    (SOONER, TINY, True, COMPUTING, 3),
    (SOONER, YES, True, SHORT, 8),
    (SOONER, YES, False, SHORT, 8),
    (SOONER, NO, True, COMPUTING, 6),
    (MANY, YES, True, SHORT, 7),
    (MANY, TINY, False, COMPUTING, 7),
    (MANY, NO, True, COMPUTING, 6),
    (LARGE, NO, True, SHORT, 6),
    (LARGE, TINY, True, COMPUTING, 6),
    (LARGE, YES, True, COMPUTING, 3),
]


@pytest.mark.parametrize(("want", "fits", "alike", "steps", "section"), CASES)
def test_the_recommended_section(want, fits, alike, steps, section):
    answer = recommend(want, fits, alike, steps)
    assert answer.section == section
    assert answer.split == SPLITS[section]


@pytest.mark.parametrize("answers", ANSWERS)
def test_what_must_hold_for_all_answers(answers):
    want, fits, alike, steps = answers
    split, reasons, section = recommend(*answers)
    assert split == SPLITS[section]
    assert 1 <= len(reasons) <= 4 and all(reason.endswith(".") for reason in reasons)
    # What does not fit is never put on a card whole, and what fits well is never cut.
    assert (section == 6) == (fits == NO or (fits == TINY and want == LARGE))
    # Only independent trainings can be split by jobs; equal shares are for equal cards.
    assert (section == 7) <= (want == MANY)
    assert (section == 3) <= (alike and steps == COMPUTING)
    assert (section == 4) <= (not alike and steps == COMPUTING)


def test_each_section_is_recommended_for_some_answers():
    assert {recommend(*answers).section for answers in ANSWERS} == HEADINGS.keys()
    assert HEADINGS.keys() == SPLITS.keys() == {section for _, section in TURNS}


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (("fame", YES, True, COMPUTING), "'fame': choose one of one network sooner, "),
        ((SOONER, "perhaps", True, COMPUTING), "'perhaps': choose one of yes, no, "),
        ((SOONER, YES, True, "long"), "'long': choose one of mostly computing, very short"),
    ],
)
def test_an_unknown_answer_is_refused(answers, told):
    with pytest.raises(ValueError, match=told):
        recommend(*answers)


@pytest.mark.parametrize("framework", NAMES)
@pytest.mark.parametrize("section", HEADINGS)
def test_the_link_leads_to_a_heading(section, framework):
    file, anchor = place(section, framework)[1].split("#")
    assert framework in file
    there = anchors(json.loads((NOTEBOOKS / file).read_text(encoding="utf-8"), object_hook=joined))
    assert anchor in there
    assert anchor.startswith(f"§{section}-")
    assert anchor.replace("§", "§1") not in there


def joined(value):
    """A cell as nbformat reads it: its lines in one string."""
    if isinstance(value.get("source"), list):
        value["source"] = "".join(value["source"])
    return value


def test_unknown_places_are_refused():
    with pytest.raises(ValueError, match="Unknown framework 'jax'"):
        place(3, "jax")
    with pytest.raises(KeyError):
        place(5, "pytorch")


def test_the_text_says_what_where_and_why():
    text = draw(SOONER, YES, True, COMPUTING, "tensorflow").text
    assert text.startswith("Split the batch, with the tool: TensorFlow, chapter 2, §3. ")
    assert "equal shares" in text
    text = draw(MANY, TINY, False, SHORT, "pytorch").text
    assert text.startswith("Split the jobs: PyTorch in practice, §7. ")
    assert "MXNet, chapter 4, §6" in draw(LARGE, NO, True, COMPUTING, "mxnet").text


def test_all_pictures_are_small_of_one_size_and_differ_by_the_way_taken():
    ways = {}
    for *answers, section in CASES:
        picture = draw(*answers, "tensorflow")
        ways.setdefault(picture.png, set()).add(section)
        assert len(picture.png) < 20_000
    assert len({png[16:24] for png in ways}) == 1  # width and height, as a PNG says them
    assert len(ways) == len(TURNS)  # one for each turn that leaves the questions
    assert all(len(sections) == 1 for sections in ways.values())


def test_the_link_below_follows_the_answers():
    explorer = explore.which_split()
    assert explorer.link in explorer._box.children
    for control, value, section, framework, words in (
        ("want", MANY, 7, "tensorflow", "TensorFlow in practice: §7 Split the jobs"),
        ("framework", "pytorch", 7, "pytorch", "PyTorch in practice: §7 Split the jobs"),
        ("fits", NO, 6, "pytorch", "PyTorch, chapter 3: §6 Split the model"),
    ):
        explorer.controls[control].value = value
        (shown,) = explorer.link.outputs
        target = place(section, framework)[1]
        assert shown["data"] == {"text/markdown": f"[{words}]({target})"}
