"""The chapters 1 to 5, run in a browser."""

import pytest
from chapters import MAIN, differences, passes, run


@pytest.mark.parametrize("path", MAIN, ids=lambda path: path.stem)
def test_chapter(lab, browser, path, pytestconfig):
    run(lab, browser, path, passes(path, pytestconfig.option.thorough))


def test_another_output_is_noticed():
    """The negative control."""
    stored = {"a": ["1\n", ""], "b": ["", "", "[picture] A line."]}
    assert differences(stored, {**stored}) == []
    assert len(differences(stored, {**stored, "a": ["2\n", ""]})) == 1
    assert len(differences(stored, {**stored, "b": ["", ""]})) == 1
