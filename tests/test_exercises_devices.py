"""The exercises of chapter 1: right answers, each usual wrong one with its own hint, nonsense."""

import pytest
from exercise_answers import NONSENSE, said_by

from helpers.exercises.exercise import verdict

RIGHT = {"2,0": [2, 0], "3,7,1": [3], "1,2,1": [], "": []}


def setting(value, order="PCI_BUS_ID"):
    """An answer: the environment with this value, where {0} and {1} are the two cards."""
    return lambda *cards: {
        "CUDA_VISIBLE_DEVICES": value.format(*cards),
        **({"CUDA_DEVICE_ORDER": order} if order else {}),
    }


WRONG_SETTINGS = {
    "not a text": lambda *cards: {"CUDA_VISIBLE_DEVICES": list(cards)},
    "another variable": lambda *cards: {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    "as a list": setting("[{0}, {1}]"),
    "turned round": setting("{1},{0}"),
    "a point for the comma": setting("{0},{1}.0"),
    "other cards": setting("2,3"),
    "unlike cards forgotten": setting("{0},{1}", order=None),
}


@pytest.mark.parametrize("base", ["visibility-ex-visible", "numbering-ex-setting"])
def test_the_notebooks_worked_answer_is_right(base):
    first, second = said_by("01_devices", base, before=("visibility-cards",))
    assert first.startswith("Not answered yet") and second.startswith("Right. ")


def test_visible():
    assert verdict("devices/visible", RIGHT).startswith("Right. ")
    assert verdict("devices/visible", RIGHT | {"3,7,1": (3,)}).startswith("Right. ")


def test_each_wrong_list_has_its_own_hint():
    wrong = [("2,0", [0, 2]), ("2,0", [0, 1]), ("2,0", [2])]
    wrong += [("3,7,1", cards) for cards in ([3, 1], [1, 3], [3, 7, 1], [], [0])]
    wrong += [("1,2,1", cards) for cards in ([1, 2], [1, 2, 1], [1], [2], [0])]
    wrong += [("", cards) for cards in ([0, 1, 2, 3], [0], [1])]
    said = [verdict("devices/visible", RIGHT | {value: cards}) for value, cards in wrong]
    assert all(
        s.startswith(f"Not yet. {value!r}: ") for s, (value, _) in zip(said, wrong, strict=True)
    )
    assert len(set(said)) == len(said)


@pytest.mark.parametrize("cards", [*NONSENSE[:4], {}, [True], ["2", "0"], [2.0, 0.0], [None]])
def test_no_list_of_cards(cards):
    said = verdict("devices/visible", RIGHT | {"2,0": cards})
    assert said.startswith("Not yet. The answer should be a dictionary")


def test_setting():
    assert verdict("devices/setting", setting("{0},{1}")).startswith("Right. ")
    assert verdict("devices/setting", setting(" {0}, {1}")).startswith("Right. ")
    assert verdict("devices/setting", setting("GPU-{0},GPU-{1}")).startswith("Right. ")


def test_each_wrong_setting_has_its_own_hint():
    said = {name: verdict("devices/setting", f) for name, f in WRONG_SETTINGS.items()}
    assert all(sentence.startswith("Not yet. ") for sentence in said.values()), said
    ends = {sentence.rsplit(": ", 1)[-1] for sentence in said.values()}
    assert len(ends) == len(said)


@pytest.mark.parametrize("value", [None, "", [], {}, {"CUDA_VISIBLE_DEVICES": None}])
def test_a_setting_that_is_none(value):
    assert verdict("devices/setting", lambda *_: value).startswith("Not yet. ")


def test_not_answered():
    for name, answer in (
        ("visible", ...),
        ("visible", RIGHT | {"": ...}),
        ("setting", ...),
        ("setting", lambda *_: ...),
        ("setting", lambda *_: {"CUDA_VISIBLE_DEVICES": ...}),
    ):
        assert verdict(f"devices/{name}", answer).startswith("Not answered yet")
