"""Answers that no exercise takes, and the cells of an exercise as its notebook has them."""

import contextlib
import io
from typing import Any

from chapter_kernel import ChapterKernel

NONSENSE = [None, "", "abc", -1, [], {}, float("nan"), object()]


def no_arguments() -> float:
    return 3.0


def raises(*_: Any) -> None:
    raise ValueError("no such device")


def said_by(stem: str, base: str, before: tuple[str, ...] = (), **names: Any) -> list[str]:
    """Run the cells ``before``, then the reader's cell, the check and the worked answer of the
    exercise whose ids begin with ``base``: the lines that the last three print."""
    cells, printed = ChapterKernel(stem).sources, io.StringIO()
    for name in before:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(cells[name], names)
    for part in ("answer", "check", "worked"):
        with contextlib.redirect_stdout(printed):
            exec(f"from helpers import exercises\n{cells[f'{base}-{part}']}", names)
    return printed.getvalue().splitlines()
