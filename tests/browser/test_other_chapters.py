"""The notebooks *in practice* and *further*, and chapter 6, run in a browser."""

import pytest
from chapters import OTHERS, passes, run


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_chapter(lab, browser, path, pytestconfig):
    run(lab, browser, path, passes(path, pytestconfig.option.thorough))
