"""``python -m helpers``: the survey in a terminal."""

from helpers.devices import survey

print(survey())
