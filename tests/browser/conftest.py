"""What the browser tests share. Without a browser they are skipped.

The browser is opened for each file: while it is open, playwright keeps an event loop running in
this thread, and other tests need their own.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from lab import NEEDED, NOTEBOOKS, Lab, chromium, found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not found():
        pytest.skip(NEEDED)
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def lab(browser: Any) -> Iterator[Lab]:
    """JupyterLab with all chapters."""
    with Lab(*NOTEBOOKS.glob("*.ipynb")) as lab:
        yield lab
