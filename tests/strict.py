"""The strict check as ``make test`` makes it, of notebooks in another folder."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).parents[1]


def small_notebook(path: Path, *sources: str) -> Path:
    """Store a notebook with these code cells, which show nothing; return its path."""
    cells = [nbformat.v4.new_code_cell(source, execution_count=1) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def check(
    folder: Path, *options: str, surroundings: Mapping[str, str] | None = None, **how: Any
) -> subprocess.CompletedProcess[str]:
    """Run pytest in this folder with the settings of this repository; its report is ``stdout``.

    ``surroundings`` are environment variables, ``how`` is for subprocess.run. A sitecustomize.py
    in the folder is run by every Python that starts.
    """
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "-p", "conftest"]
    return subprocess.run(
        [*command, "-n0", "-p", "no:cacheprovider", *options, folder],
        cwd=folder,
        env=os.environ | (surroundings or {}) | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **how,
    )
