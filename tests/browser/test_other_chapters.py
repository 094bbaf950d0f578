"""The notebooks *in practice* and *further*, and chapter 6, run in a browser."""

import pytest
from chapters import ALWAYS, OTHERS, passes, run


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, id=path.stem, marks=[] if path.stem in ALWAYS else [pytest.mark.thorough]
        )
        for path in OTHERS
    ],
)
def test_chapter(lab, browser, path, pytestconfig):
    run(lab, browser, path, passes(path, pytestconfig.option.thorough))
