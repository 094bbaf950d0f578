"""The notebooks *in practice*, and chapter 6, each run twice in a browser."""

import pytest
from chapters import OTHERS, run_twice


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_chapter(lab, browser, path):
    run_twice(lab, browser, path)
