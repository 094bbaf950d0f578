"""Compare two training runs step by step: losses, gradients and weights."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

QUANTITIES = ("loss", "gradients", "weights")


class ParityError(AssertionError):
    """Two runs differ by more than the tolerance. The message names the first step that does."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


@dataclass
class Run:
    """The record of one training run; each step holds copies of its loss, gradients and weights."""

    steps: list[dict[str, list[np.ndarray]]] = field(default_factory=list)

    def record(self, loss: Any, gradients: Iterable[Any], weights: Iterable[Any]) -> None:
        """Add one step: ``loss`` a number, ``gradients`` and ``weights`` arrays in one fixed order.

        Everything that NumPy can read is welcome. Values are copied: a training loop writes its
        weights in place.
        """
        values = {"loss": [loss], "gradients": gradients, "weights": weights}
        self.steps.append({name: [np.array(one) for one in many] for name, many in values.items()})

    @property
    def losses(self) -> list[float]:
        """The loss of each step."""
        return [float(step["loss"][0]) for step in self.steps]


def differences(one: Run, two: Run) -> dict[str, list[float]]:
    """Largest absolute difference of each quantity in each step: {"loss": [...], "gradients": ...,
    "weights": ...}.

    A value that is not a number counts as an infinite difference. Raises ParityError when the runs
    have different numbers of steps, or arrays that do not match in number or shape, or no step at
    all.
    """
    if len(one.steps) != len(two.steps) or not one.steps:
        raise ParityError(
            f"Cannot compare a run of {len(one.steps)} steps with a run of {len(two.steps)} steps."
        )
    return {
        name: [_largest(name, a[name], b[name]) for a, b in zip(one.steps, two.steps, strict=True)]
        for name in QUANTITIES
    }


def _largest(name: str, ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    shapes = [array.shape for array in ours], [array.shape for array in theirs]
    if shapes[0] != shapes[1]:
        raise ParityError(
            f"Cannot compare {name} of shapes {shapes[0]} with {name} of shapes {shapes[1]}."
        )
    if not ours:
        raise ParityError(f"Cannot compare {name}: none were recorded.")
    # In float64, so that the comparison adds no rounding of its own.
    gaps = [
        np.abs(np.subtract(a, b, dtype=np.float64)).max(initial=0)
        for a, b in zip(ours, theirs, strict=True)
    ]
    # np.max, not max: only the former hands on a nan that is not the first in the list.
    return float(np.nan_to_num(np.max(gaps), nan=np.inf, posinf=np.inf))


def check(one: Run, two: Run, tolerance: float = 1e-6) -> str:
    """Return a sentence when each loss, gradient and weight of every step agrees within
    ``tolerance`` (absolute).

    Raises ParityError with the first step, its quantity and the difference when one does not.
    """
    found = differences(one, two)
    for step in range(len(one.steps)):
        for name in QUANTITIES:
            if not found[name][step] <= tolerance:
                raise ParityError(
                    f"Not the same: in step {step + 1} the {name} differ{'s' * (name == 'loss')} "
                    f"by {found[name][step]:.1e}, allowed is {tolerance:.0e}."
                )
    steps = f"over {len(one.steps)} steps"
    return f"The same: {steps}, loss, gradients and weights agree within {tolerance:.0e}."


def rejected(one: Run, two: Run, tolerance: float = 1e-6) -> str:
    """The negative control: return the sentence with which ``check`` rejects ``two``.

    Raises AssertionError when the check accepts a run that was broken on purpose: then it proves
    nothing.
    """
    differences(one, two)  # a run that cannot be compared is no control: let it raise
    if not all(np.isfinite(two.losses)):
        raise AssertionError("The broken run is no control: its loss is not a number.")
    try:
        check(one, two, tolerance)
    except ParityError as error:
        return str(error)
    raise AssertionError(
        "The check accepts a run that was broken on purpose, so it proves nothing."
    )
