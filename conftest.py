"""Settings that must hold wherever pytest is started from."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Find nbval's sanitize file from the root of this repository, not from the current folder."""
    path = config.option.nbval_sanitize_with
    config.option.nbval_sanitize_with = path and str(config.rootpath / path)
