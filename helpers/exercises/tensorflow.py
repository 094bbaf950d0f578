"""The exercises of the TensorFlow chapter. TensorFlow is imported when an answer is judged."""

from typing import Any

import numpy as np

from helpers import datasets
from helpers.exercises.exercise import Exercise, MalformedError, call, faulty_line, number
from helpers.exercises.means import MEAN
from helpers.exercises.splits import PICK

ROWS, RATE, TOLERANCE = 128, 0.1, 1e-6  # of "two-devices"


def counting(seen: list[list[int]]) -> Any:
    """A Keras layer that hands its rows on, and notes their number in ``seen[replica]``, each time
    that a replica computes with it."""
    import tensorflow as tf

    class Counting(tf.keras.layers.Layer):
        def call(self, rows):
            context = tf.distribute.get_replica_context()
            if context:  # there is none while the network is built inside a scope
                inputs = [context.replica_id_in_sync_group, tf.shape(rows)[0]]
                tf.numpy_function(lambda i, count: seen[int(i)].append(int(count)), inputs, [])
            return rows

        def compute_output_shape(self, shape):
            return shape

    layer = Counting()
    layer.supports_jit = False  # XLA cannot call Python
    return layer


def network(seen: list[list[int]]) -> Any:
    """The network 784-128-10 with the fixed starting weights; it notes the rows in ``seen``."""
    from tensorflow import keras

    hidden = keras.layers.Dense(128, activation="relu")
    net = keras.Sequential([keras.Input((784,)), counting(seen), hidden, keras.layers.Dense(10)])
    net.set_weights(list(datasets.starting_weights().values()))
    return net


def on_one_device(x: np.ndarray, y: np.ndarray, rate: float = RATE) -> tuple[Any, list[float]]:
    """Three steps on these rows on one device: the network and the loss of each step."""
    from tensorflow import keras

    net = network([[]])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(keras.optimizers.SGD(rate), loss, jit_compile=False)  # as under a strategy
    history = net.fit(x, y, batch_size=len(x), epochs=3, shuffle=False, verbose=0)
    return net, history.history["loss"]


def two_devices(answer: Any) -> str | None:
    images = datasets.fashion_mnist()
    x, y = images.train_images[:ROWS], images.train_labels[:ROWS]
    seen = [[], []]
    net, losses = trained(call(answer, lambda: network(seen), x, y))
    copies = [getattr(weight.value, "values", (weight.value,)) for weight in net.weights]
    return idle(copies, seen) or other_answer(net, copies, losses, x, y)


def trained(result: Any) -> tuple[Any, list[float]]:
    """The network and the three losses. Raises MalformedError for anything else."""
    from tensorflow import keras

    form = "a function that returns two things: the network, and the list of its three losses"
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise MalformedError(form)
    net, losses = result
    if not isinstance(net, keras.Model) or not isinstance(losses, (tuple, list)):
        raise MalformedError(form)
    if len(losses) != 3:
        raise MalformedError(form)
    return net, [number(loss, form) for loss in losses]


def idle(copies: list[tuple[Any, ...]], seen: list[list[int]]) -> str | None:
    """The hint when the devices do not both work on their half of each step, else None."""
    if not any(seen):
        return "No row went through the network that `make` builds. Train that one."
    if len({copy.device for each in copies for copy in each}) == 1:
        return "All weights lie on one device. What was in force when `make` was called?"
    if not all(seen):
        return "Both devices have the weights, but one replica saw all rows. Who shares them out?"
    if seen == [[ROWS] * 3] * 2:
        return "In each step every device took all 128 rows: nothing was shared out."
    if len(seen[0]) != 3:
        return f"These are {len(seen[0])} passes, not 3. Is `batch_size` the rows of one device?"
    if seen != [[ROWS // 2] * 3] * 2:
        return f"The rows of each step should be halved, but the devices saw {seen}."
    return None


def other_answer(
    net: Any, copies: list[tuple[Any, ...]], losses: list[float], x: np.ndarray, y: np.ndarray
) -> str | None:
    """The hint when losses or weights are not those of one device, else None."""
    if any((copy.numpy() != each[0].numpy()).any() for each in copies for copy in each):
        return "The copies have become different networks. What must be added up before a step?"
    alone, right = on_one_device(x, y)
    if not same_weights(net, alone):
        if same_weights(net, on_one_device(x, y, 2 * RATE)[0]):
            return (
                "Each step is twice as long as on one device. Was something added up that should "
                "be averaged, or the learning rate doubled?"
            )
        if same_weights(net, on_one_device(x, y, RATE / 2)[0]):
            return "Each step is half as long as on one device. Is something divided twice?"
        return "Both devices work, but the weights are not those of one device. What else changed?"
    if not np.allclose(losses, right, rtol=0, atol=TOLERANCE):
        return "The weights are right, the losses are not: give the mean over the global batch."
    return None


def same_weights(one: Any, other: Any) -> bool:
    pairs = zip(one.get_weights(), other.get_weights(), strict=True)
    return all(np.allclose(a, b, rtol=0, atol=TOLERANCE) for a, b in pairs)


LINES = {
    1: "It only begins a function: nothing is made before it is called.",
    2: "It is right, but it matters when it runs: what is in force when `build` is called?",
    3: "The network may be compiled inside the scope or outside. What counts is its variables.",
    4: "It hands the network back; where its variables lie was decided before.",
    5: "The scope is needed, and it is there. Is everything inside that belongs inside?",
    6: "It tells the truth about the strategy. Was the network made under it?",
    7: "128 is the global batch: with two replicas that is 64 rows each. Datasets need no scope.",
    9: "`fit` needs no scope: it asks the network how it was made. How was it?",
}


EXERCISES = {
    "two-devices": Exercise(
        two_devices,
        "Each device has a copy of the weights and saw 64 rows of each step; losses and weights "
        "are those of one device within 1e-06.",
    ),
    "wrong-mean": MEAN,
    "idle-device": Exercise(
        faulty_line(8, LINES),
        "The variables are made when `build` is called, and there the scope has ended. A network "
        "made outside the scope has one copy, and `fit` uses one device, without a word.",
    ),
    "pick-a-split": PICK,
}
