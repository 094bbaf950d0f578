"""The exercises of chapter 4: two devices, a mean over all rows, an idle device, which split."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from helpers import datasets, devices
from helpers.exercises.exercise import Exercise, call, faulty_line, number
from helpers.exercises.means import MEAN
from helpers.exercises.splits import PICK

STEPS, BATCH = 3, 128
SHARES = {
    "unused": "The given network has computed nothing. Call it as one_device_step does.",
    "idle": "One of the two contexts has computed no row: the network computes where its rows are. "
    "Which call of §3 puts a part of them into each context?",
    "copied": "Each context has computed every row, so nothing is shared out. How many of the 128 "
    "rows should each get?",
    "not once": "Together, the contexts should compute each of the 128 rows once.",
}
NO_GRADIENT = (
    "The Trainer misses new gradients in a context: was backward called on the loss of each?"
)
COPIES_DIFFER = (
    "The two copies of the weights differ after a step: each context has moved by the gradients of "
    "its own rows. What adds them up?"
)
NOT_MOVED = "The weights have not moved. Which call changes them?"
MOVED = {
    2: "The weights move twice as far as on one device: the Trainer adds two gradients up, and "
    "each is that of a mean already.",
    0.5: "The weights move half as far as on one device. How often is the sum of the gradients "
    "divided by the number of contexts?",
}


def network(contexts: Sequence[Any]) -> Any:
    """The 784-128-10 network with the fixed starting weights, one copy in each context."""
    from mxnet import gluon, nd

    net = gluon.nn.Sequential()
    net.add(gluon.nn.Dense(128, "relu", in_units=784), gluon.nn.Dense(10, in_units=128))
    net.initialize(ctx=list(contexts))
    starting = datasets.starting_weights().values()
    for parameter, weight in zip(net.collect_params().values(), starting, strict=True):
        parameter.set_data(nd.array(weight.T))
    return net


def weights(net: Any, contexts: Sequence[Any]) -> np.ndarray:
    """All weights of each copy, float32, (contexts, numbers)."""
    copies = [
        [p.data(c).asnumpy().ravel() for p in net.collect_params().values()] for c in contexts
    ]
    return np.array([np.concatenate(copy) for copy in copies])


def trained(step: Any, contexts: Sequence[Any], rows: Counter) -> tuple[np.ndarray, np.ndarray]:
    """The losses (steps,) and weights (steps + 1, contexts, numbers) of three steps with SGD.

    ``rows`` counts what the network computes in each context, also where a step raises."""
    from mxnet import gluon, nd

    images, net = datasets.fashion_mnist(), network(contexts)
    net.register_forward_pre_hook(lambda _, xs: rows.update({xs[0].context: len(xs[0])}))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    losses, held = [], [weights(net, contexts)]
    for start in range(0, STEPS * BATCH, BATCH):
        data, label = (
            nd.array(array[start : start + BATCH])
            for array in (images.train_images, images.train_labels)
        )
        loss = call(step, net, trainer, data, label, contexts)
        losses.append(number(loss, "a function that returns one number, the mean loss"))
        held.append(weights(net, contexts))
    return np.array(losses), np.array(held)


def one_device_step(
    net: Any, trainer: Any, data: Any, label: Any, contexts: Sequence[Any]
) -> float:
    """One step in the first context; returns the mean loss of the rows. Stands in the notebook."""
    from mxnet import autograd, gluon

    x, y = data.as_in_context(contexts[0]), label.as_in_context(contexts[0])
    with autograd.record():
        loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(x), y).mean()
    loss.backward()
    trainer.step(1)
    return loss.asscalar()


def shares(seen: list[int], asked: int) -> str | None:
    """A hint unless each of ``asked`` rows was computed once, and no context was idle."""
    if not any(seen):
        return SHARES["unused"]
    if not all(seen):
        return SHARES["idle"]
    if all(rows == asked for rows in seen):
        return SHARES["copied"]
    return None if sum(seen) == asked else SHARES["not once"]


def judge_two_devices(function: Any) -> str | None:
    """None when both contexts compute, and losses and weights are those of one device."""
    contexts, rows = list(devices.pair("mxnet").devices), Counter()
    try:
        losses, held = trained(function, contexts, rows)
    except UserWarning:  # so the Trainer refuses its first step without gradients in each context
        return shares([rows[c] for c in contexts], sum(rows.values())) or NO_GRADIENT
    if hint := shares([rows[c] for c in contexts], STEPS * BATCH):
        return hint
    if np.abs(held[:, 0] - held[:, 1]).max() > 1e-6:
        return COPIES_DIFFER
    losses_of_one, held_of_one = trained(one_device_step, contexts[:1], Counter())
    ours, theirs = ((each[1] - each[0])[0] for each in (held, held_of_one))
    times = float(ours @ theirs / (theirs @ theirs))
    if abs(times) < 1e-9:
        return NOT_MOVED
    if abs(times - 1) > 1e-3 and np.allclose(ours, times * theirs, rtol=1e-3, atol=1e-6):
        general = f"The weights move {times:.3g} times as far as on one device: by what is the sum "
        return MOVED.get(round(times, 2), f"{general}of the gradients divided, in all?")
    if not np.abs(held - held_of_one).max() <= 1e-6:
        return "The weights are not those of one device after the same three steps."
    if np.allclose(losses, 2 * losses_of_one, rtol=1e-5):
        return "The weights are right. The loss is twice too large: two means were added up."
    if not np.abs(losses - losses_of_one).max() <= 1e-6:
        return "The weights are right. The loss is not the mean over the rows of both contexts."
    return None


IDLE_LINE = 3
INNOCENT = {
    1: "The network and the Trainer that come in have a copy of the weights in both contexts.",
    2: "Before the cut the whole batch may lie anywhere, also in the first context. What matters "
    "is where the shares lie afterwards.",
    4: "record holds for this thread, whatever the contexts are.",
    5: "One thread is enough, as MXNet returns before the work is done. And the network computes "
    "where its rows lie. Where do they?",
    6: "backward computes each gradient where its loss lies. Where do the losses lie?",
    7: "ignore_stale_grad=True silences the one message that would have told you, but sends no row "
    "anywhere. What made the gradients stale?",
    8: "It hands back what was computed; by then all is over.",
}


EXERCISES = {
    "two-devices": Exercise(
        judge_two_devices,
        "Both contexts compute a part of the rows, and both copies hold the weights of one device.",
    ),
    "wrong-mean": MEAN,
    "idle-device": Exercise(
        faulty_line(IDLE_LINE, INNOCENT),
        "split_data cuts the rows and leaves the shares where they are; split_and_load also puts "
        "each into its own context.",
    ),
    "pick-a-split": PICK,
}
