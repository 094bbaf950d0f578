"""The exercises of chapter 1: which cards a program sees, and how to show it those it shall use."""

from collections.abc import Mapping
from typing import Any

from helpers.driver import Card, visible
from helpers.exercises.exercise import Exercise, MalformedError, answered, call

ALIKE = [Card(number, "Card", uuid=f"GPU-{number}") for number in range(4)]
UNLIKE = [Card(number, f"Card {number}", uuid=f"GPU-{number}") for number in range(4)]


def seen(cards: list[Card], environment: Mapping[str, str]) -> list[int]:
    """The numbers of the cards that a program with this environment sees, in its own order."""
    return [card.number for card in visible(cards, environment)[0]]


# For each value the likely wrong answers, each with what it overlooks.
VALUES = {
    "2,0": {
        (0, 2): "the order of the list is the order in which the program counts.",
        (0, 1): "give the machine's numbers; the program's own are the places in your list.",
    },
    "3,7,1": {
        (3, 1): "an entry that is no card is not skipped. What of those behind it?",
        (1, 3): "an entry that is no card is not skipped, and the order counts, too.",
        (3, 7, 1): "this machine has the cards 0 to 3. Where does the list end?",
        (): "an entry that is no card does not undo those before it.",
    },
    "1,2,1": {
        (1, 2): "count how often each card is named. The chapter tried such a value.",
        (1, 2, 1): "one card can be no two devices. What does CUDA do about that?",
        (1,): "CUDA does not keep the first of two equal entries either.",
        (2, 1): "CUDA does not keep the last of two equal entries either.",
        (2,): "CUDA does not throw out the repeated card alone.",
    },
    "": {
        (0, 1, 2, 3): "so it is where the variable is not set. Here it is set, to an empty list.",
        (0,): "which entry of the list names card 0?",
    },
}
FORM = "a dictionary like the given one: for each value a list of card numbers, such as [0, 1]"


def judge_visible(answer: Any) -> str | None:
    """None when each value of CUDA_VISIBLE_DEVICES has the list of the cards it shows."""
    if not isinstance(answer, dict) or set(answer) != set(VALUES):
        raise MalformedError(FORM)
    answered(answer)
    for value, hints in VALUES.items():
        given = answer[value]
        if not isinstance(given, (list, tuple)) or any(type(card) is not int for card in given):
            raise MalformedError(FORM)
        if list(given) != seen(ALIKE, {"CUDA_VISIBLE_DEVICES": value}):
            hint = hints.get(tuple(given), "go through the entries from left to right.")
            return f"{value!r}: {hint}"
    return None


def judge_setting(function: Any) -> str | None:
    """None when the function returns an environment in which a program sees the first card as
    its cuda:0 and the second as its cuda:1, by the numbers of nvidia-smi, and no other card."""
    for wanted in ([1, 0], [0, 1], [3, 2]):
        setting = call(function, *wanted)
        if not isinstance(setting, Mapping) or not setting:
            raise MalformedError(
                'a function that returns a dictionary of variables, such as {"HOME": "/"}'
            )
        for name, value in setting.items():
            answered(value)
            if not isinstance(value, str):
                return f"A variable of the environment is a text: {name} is {value!r}."
        shown = seen(UNLIKE, setting)
        if "CUDA_VISIBLE_DEVICES" not in setting:
            return "This hides no card. Which variable does?"
        if shown != wanted:
            value = setting["CUDA_VISIBLE_DEVICES"]
            return f"Asked for the cards {wanted}, it gives {value!r}: {_why(shown, wanted)}"
        if setting.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            return (
                "Right for equal cards. With unlike ones CUDA counts the fastest first, and "
                "nvidia-smi does not: what makes both count alike?"
            )
    return None


def _why(shown: list[int], wanted: list[int]) -> str:
    if not shown:
        return "that shows no card. How does such a list look?"
    if shown == wanted[::-1]:
        return "both cards, but which one is the program's cuda:0?"
    if len(shown) == 1:
        return "that shows one card only. How are the entries kept apart?"
    return f"that shows the cards {shown}. Are both numbers taken from the arguments?"


EXERCISES = {
    "visible": Exercise(
        judge_visible,
        "The order counts; the list ends at the first entry that is no card; a card listed twice "
        "hides all, and so does an empty list.",
    ),
    "setting": Exercise(
        judge_setting,
        "The list chooses and orders; CUDA_DEVICE_ORDER=PCI_BUS_ID makes its numbers those of "
        "nvidia-smi, on any machine.",
    ),
}
