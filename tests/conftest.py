"""What several test files share."""

from collections.abc import Iterator

import pytest
from worker_kernel import Notebook


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    notebook = Notebook()
    yield notebook
    notebook.close()
    assert notebook.left_in_the_end() == []
