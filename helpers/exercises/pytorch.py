"""The exercises of chapter 3: two workers, a mean over all rows, an idle worker, which split."""

import re
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

from helpers import datasets, jobs, workers
from helpers.exercises.exercise import Exercise, MalformedError, answered, faulty_line
from helpers.exercises.means import MEAN
from helpers.exercises.splits import PICK

STEPS, BATCH, RATE = 3, 128, 0.1
ALL_ROWS = (
    "Each worker has computed all 128 rows of each step, so both do the whole work. Which change "
    "of §3 shares the rows out?"
)
COPIES_DIFFER = (
    "The two copies of the weights differ: each worker has moved by the gradients of its own rows. "
    "What makes them one gradient?"
)
# With plain SGD k times the gradient moves the weights as k times the rate does.
MOVED = {
    2: "The gradients are twice those of one device: a sum of two means.",
    0.5: "The gradients are half those of one device. Who divides them, and how often?",
}
UNKNOWN_NAME = "A worker knows what cells with %%px define, and what the function itself does."
IN_VAIN = "A worker waited for the other in vain: both must make the same calls."
WAITED = re.compile("gloo|NCCL|[Tt]imed out|Connection closed")


def weights(net: Any) -> np.ndarray:
    """All weights of a network, one after the other, float32."""
    return np.concatenate([w.detach().cpu().numpy().ravel() for w in net.parameters()])


def one_device(inputs: Any, labels: Any, times: float) -> np.ndarray:
    """The weights after three steps on one device, with all rows and ``times`` the gradient."""
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    starting = datasets.starting_weights().values()
    with torch.no_grad():
        for parameter, weight in zip(net.parameters(), starting, strict=True):
            parameter.copy_(torch.from_numpy(weight.T))
    optimizer = torch.optim.SGD(net.to(inputs.device).parameters(), lr=RATE * times)
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
    return weights(net)


def report(function: Callable[..., Any]) -> Any:
    """Run in a worker what the reader has written: the rows of each step there, the weights, and
    how far they are from those of one device, for each factor of the gradient.

    None when the function returns no such network, the three dots when it returns those."""
    import torch

    images = datasets.fashion_mnist()
    rows = images.train_images[:BATCH], images.train_labels[:BATCH]
    inputs, labels = (torch.from_numpy(array.copy()) for array in rows)
    places = {row.tobytes(): place for place, row in enumerate(rows[0])}
    seen = []

    def note(layer: Any, arguments: Any) -> None:
        if isinstance(layer, torch.nn.Linear) and layer.in_features == 784:
            seen.append([places.get(row.tobytes()) for row in arguments[0].detach().cpu().numpy()])

    hook = torch.nn.modules.module.register_module_forward_pre_hook(note)
    try:
        net = function(inputs, labels)
    finally:
        hook.remove()
    if not isinstance(net, torch.nn.Module):
        return net if net is ... else None
    here = next(net.parameters()).device
    found = weights(net)
    wanted = {k: one_device(inputs.to(here), labels.to(here), k) for k in (1, *MOVED)}
    if found.shape != wanted[1].shape:
        return None
    return seen, found, {k: float(np.abs(found - other).max()) for k, other in wanted.items()}


def failed(errors: list[str], name: str) -> str:
    """A sentence about errors on the workers; of the tracebacks the lines of this function."""
    own = [error for error in errors if error and not WAITED.search(error)]
    others = re.compile(rf"line \d+ of (?!{re.escape(name)}:)")
    hints = []
    if own:
        lines = [line for line in own[0].splitlines() if not others.match(line)]
        hints.append(f"A worker failed: {textwrap.shorten('; '.join(lines), 300)}.")
        if "NameError" in own[0]:
            hints.append(UNKNOWN_NAME)
    if any(WAITED.search(error) for error in errors):
        hints.append(f"{IN_VAIN} {workers.START_AGAIN}")
    return " ".join(hints)


def shares(of_0: list[list[int]], of_1: list[list[int]]) -> str | None:
    """A hint unless in each step each row was computed once, and no worker was idle."""
    for rank, seen in enumerate((of_0, of_1)):
        if not any(seen):
            return f"Worker {rank} has computed no row. What should it do while the other works?"
    if all(len(step) == BATCH for step in of_0 + of_1):
        return ALL_ROWS
    if (len(of_0), len(of_1)) != (STEPS, STEPS):
        return f"The workers took {len(of_0)} and {len(of_1)} steps; {STEPS} were asked for."
    for step in map(list.__add__, of_0, of_1):
        if len(step) != BATCH or set(step) != set(range(BATCH)):
            return (
                f"In a step both workers together have computed {len(step)} rows, and "
                f"{len(set(step))} different ones: each of the 128 should be there once."
            )
    return None


def judge_two_devices(answer: Any) -> str | None:
    """None when both workers compute, and the weights of both are those of one device.

    The answer is a function and the two workers, on which it is run."""
    function, team = answer if isinstance(answer, tuple) and len(answer) == 2 else (None, None)
    if not isinstance(team, workers.Workers):
        raise MalformedError("a function and the two workers: (my_training, team)")
    if not callable(function):
        raise MalformedError("a function; run the cell that defines it, and give its name")
    if workers.alive() != 2:
        return f"The two workers are not running. {workers.START_AGAIN}"
    tasks = [team.client[n].apply_async(jobs.run, report, function, limit=60) for n in (0, 1)]
    done = jobs.collect(tasks)
    if any(job.error for job in done):
        return failed([job.error for job in done], getattr(function, "__name__", ""))
    reports = [answered(job.value) for job in done]
    if None in reports:
        raise MalformedError("a function that returns the trained network, on both workers")
    (rows_of_0, of_0, gaps), (rows_of_1, of_1, _) = reports
    if hint := shares(rows_of_0, rows_of_1):
        return hint
    if not np.abs(of_0 - of_1).max() <= 1e-6:
        return COPIES_DIFFER
    factor = next((k for k, gap in gaps.items() if gap <= 1e-6), None)
    general = f"The weights are off by {gaps[1]:.1g}. Equal shares, and the optimizer of training?"
    return None if factor == 1 else MOVED.get(factor, general)


IDLE_LINE = 2
INNOCENT = {
    1: "Each worker needs an optimizer for its own copy, and this one has no say about rows.",
    3: "This cuts the epoch into global batches, which should keep their 128 rows. Look at what "
    "becomes of one.",
    4: "Worker 0 begins at row 0 of the batch, worker 1 one share further on, as it should be. At "
    "which row is that?",
    5: "A share goes from its first row on. Write the two numbers down for worker 1.",
    6: "This only forgets the gradients of the step before.",
    7: "The network computes with whatever rows it is given. How many does worker 1 give it?",
    8: "The sum is right, also for no rows at all: there the mean would be nan.",
    9: "DDP divides by the workers, and this makes up for it. It changes a gradient's size, not "
    "who works.",
    10: "Each worker takes this step, with the same gradients. The rows were shared out before.",
}


EXERCISES = {
    "two-devices": Exercise(
        judge_two_devices,
        "Each worker computes its share of the rows, and both hold the weights of one device.",
    ),
    "wrong-mean": MEAN,
    "idle-device": Exercise(
        faulty_line(IDLE_LINE, INNOCENT),
        "Worker 1 took rows 128 to 255 of a batch of 128: an empty slice, which raises nothing.",
    ),
    "pick-a-split": PICK,
}
