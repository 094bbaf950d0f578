"""The comparison of two runs: it accepts rounding, and rejects everything else."""

import numpy as np
import pytest

from helpers import parity


def run_of(steps: int = 3, **changes: dict[int, object]) -> parity.Run:
    """A run with known values; ``changes`` replaces a quantity in one step, e.g. loss={2: 7.0}."""
    run = parity.Run()
    for step in range(steps):
        values = {
            "loss": 2.0 - step,
            "gradients": [np.full((3, 2), 0.5), np.zeros(2)],
            "weights": [np.ones((3, 2)), np.full(2, step, np.float32)],
        }
        for name, change in changes.items():
            values[name] = change.get(step, values[name])
        run.record(**values)
    return run


def test_equal_runs_pass_and_the_sentence_names_steps_and_tolerance():
    assert parity.check(run_of(), run_of()) == (
        "The same: over 3 steps, loss, gradients and weights agree within 1e-06."
    )


def test_rounding_passes_and_its_size_is_reported():
    other = run_of(loss={1: 1.0 + 5e-7})
    assert parity.check(run_of(), other)
    assert parity.differences(run_of(), other)["loss"] == pytest.approx([0, 5e-7, 0])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"loss": {1: 1.1}}, "in step 2 the loss differs by 1.0e-01"),
        (
            {"gradients": {0: [np.ones((3, 2)), np.zeros(2)]}},
            "in step 1 the gradients differ by 5.0e-01",
        ),
        (
            {"weights": {2: [np.ones((3, 2)), np.full(2, 2 + 2e-6)]}},
            "in step 3 the weights differ by 2.0e-06",
        ),
        ({"loss": {0: float("nan")}}, "in step 1 the loss differs by inf"),
        (
            {"gradients": {1: [np.full((3, 2), np.inf), np.zeros(2)]}},
            "in step 2 the gradients differ by inf",
        ),
    ],
)
def test_each_kind_of_difference_is_rejected_with_its_place(changes, sentence):
    with pytest.raises(parity.ParityError, match="Not the same: " + sentence.replace("+", r"\+")):
        parity.check(run_of(), run_of(**changes))


@pytest.mark.parametrize("place", [0, 1])
def test_nan_in_any_array_is_no_agreement(place):
    gradients = [np.zeros((3, 2)), np.zeros(2)]
    gradients[place][-1] = np.nan
    with pytest.raises(parity.ParityError, match="in step 1 the gradients differ by inf"):
        parity.check(run_of(), run_of(gradients={0: gradients}))


def test_nan_on_both_sides_is_no_agreement():
    broken = {"loss": {0: float("nan")}}
    with pytest.raises(parity.ParityError, match="inf"):
        parity.check(run_of(**broken), run_of(**broken))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (run_of(3), run_of(2)),
        (parity.Run(), parity.Run()),
        (run_of(weights={0: []}), run_of(weights={0: []})),
        (run_of(), run_of(gradients={0: [np.zeros((3, 2))]})),
        (run_of(), run_of(weights={0: [np.zeros((2, 3)), np.zeros(2)]})),
    ],
)
def test_runs_that_cannot_be_compared_are_rejected(one, two):
    with pytest.raises(parity.ParityError, match="Cannot compare"):
        parity.check(one, two)


def test_record_copies_what_the_loop_overwrites():
    weights = np.ones(2)
    run = parity.Run()
    run.record(1.0, [np.zeros(2)], [weights])
    weights += 1
    assert run.steps[0]["weights"][0].tolist() == [1, 1]
    assert run.losses == [1.0]


def test_negative_control_returns_the_sentence_or_fails():
    assert "the loss differs" in parity.rejected(run_of(), run_of(loss={0: 9.0}))
    with pytest.raises(AssertionError, match="proves nothing"):
        parity.rejected(run_of(), run_of())


def test_a_run_that_cannot_be_compared_is_no_negative_control():
    with pytest.raises(parity.ParityError, match="Cannot compare"):
        parity.rejected(run_of(), parity.Run())
    with pytest.raises(AssertionError, match="not a number"):
        parity.rejected(run_of(), run_of(loss={1: float("nan")}))
