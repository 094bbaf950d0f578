"""The chapters 1 to 5, each run twice in a browser."""

import pytest
from chapters import MAIN, differences, run_twice


@pytest.mark.parametrize("path", MAIN, ids=lambda path: path.stem)
def test_chapter(lab, browser, path):
    run_twice(lab, browser, path)


def test_another_output_is_noticed():
    """The negative control."""
    stored = {"a": ["1\n", ""], "b": ["", "", "[picture] A line."]}
    assert differences(stored, {**stored}) == []
    assert len(differences(stored, {**stored, "a": ["2\n", ""]})) == 1
    assert len(differences(stored, {**stored, "b": ["", ""]})) == 1
