"""What several test files share."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from worker_kernel import Notebook

# A busy machine is no failure.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    notebook = Notebook()
    yield notebook
    notebook.close()
    assert notebook.left_in_the_end() == []
