"""Train the network 784-128-10 on all devices of one machine, or on several machines.

One machine: MirroredStrategy over its GPUs; without a GPU over two simulated devices, CPU devices
that TensorFlow keeps apart. Several machines: MultiWorkerMirroredStrategy, where TF_CONFIG is set.

    python train_tensorflow.py --epochs 5 --batch 256
    python train_tensorflow.py --epochs 20 --checkpoint last.npz --resume

The same options make the same training on one device, on two, and on two machines.
"""

import argparse
import json
import math
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # 0 shows what TensorFlow does, and waits for
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")


def fail(sentence: str) -> NoReturn:
    """End with exit status 2 and one sentence: for what the user can repair."""
    print(f"{Path(__file__).name}: {sentence}", file=sys.stderr)
    raise SystemExit(2)


def options() -> argparse.Namespace:
    """The command line. Ends with exit status 2 where a value makes no sense."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    add = parser.add_argument
    add("--epochs", type=int, default=5, help="passes over the training images (default: 5)")
    add("--batch", type=int, default=128, help="rows of the GLOBAL batch (default: 128)")
    add("--lr", type=float, default=0.02, help="learning rate (default: 0.02)")
    add("--seed", type=int, default=0, help="of the weights and the row order (default: 0)")
    add("--devices", type=int, metavar="N", help="so many (default: all GPUs, or two simulated)")
    add("--steps", type=int, metavar="N", help="stop after so many steps (default: go on)")
    add("--checkpoint", type=Path, metavar="FILE", help="save here after each epoch, as .npz")
    add("--resume", action="store_true", help="go on from the file of --checkpoint")
    add("--losses", type=Path, metavar="FILE", help="write the loss of each step, as JSON")
    told = f".npz with {', '.join(ARRAYS)}, pixels 0 to 255 (default: those of helpers, if there)"
    add("--data", type=Path, metavar="FILE", help=told)
    add("--quiet", action="store_true", help="print no progress")
    chosen = parser.parse_args()
    for name in ("epochs", "batch", "lr", "devices", "steps"):
        value = getattr(chosen, name)
        if value is not None and not 0 < value < math.inf:
            fail(f"--{name} must be above 0, not {value}.")
    if chosen.seed < 0:
        fail(f"--seed must not be below 0, but is {chosen.seed}.")
    if chosen.resume and not chosen.checkpoint:
        fail("--resume needs --checkpoint FILE, the file to go on from.")
    for file in filter(None, (chosen.checkpoint, chosen.losses)):
        if file.is_dir():
            fail(f"{file} is a folder: name a file in it.")
        if not file.parent.is_dir():
            fail(f"There is no folder {file.parent} to write {file.name} into.")
    return chosen


def load_images(path: Path | None) -> tuple[np.ndarray, ...]:
    """Images (rows, 784) float32 in 0..1 and labels (rows,) int64: training, then test."""
    if path is None:
        try:
            from helpers import datasets
        except ImportError:
            fail("No images: name a file with --data (the package helpers is not installed here).")
        return datasets.fashion_mnist()
    try:
        with np.load(path) as stored:
            arrays = [stored[name] for name in ARRAYS]
    except Exception as error:  # a file of another kind can raise anything
        fail(f"--data {path} is no .npz file with {', '.join(ARRAYS)} ({error}).")
    images, labels = arrays[::2], arrays[1::2]
    images = [x.reshape(len(x), -1).astype(np.float32) / np.float32(255) for x in images]
    labels = [y.astype(np.int64) for y in labels]
    return images[0], labels[0], images[1], labels[1]


def make_strategy(wanted: int | None) -> Any:
    """The strategy for this machine, or for the machines in TF_CONFIG.

    Comes before TensorFlow's first operation, which fixes the devices for good.
    """
    gpus, cluster = tf.config.list_physical_devices("GPU"), os.environ.get("TF_CONFIG")
    here = len(gpus) or (1 if cluster else wanted or 2)
    if wanted and wanted > here:
        fail(f"--devices {wanted}, but TensorFlow can use {here} here.")
    gpus = gpus[:wanted]
    tf.config.set_visible_devices(gpus, "GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if cluster:
        try:
            told = json.loads(cluster)
            known = told["task"]["index"] in range(len(told["cluster"]["worker"]))
            known = known and told["task"]["type"] == "worker"
        except (ValueError, KeyError, TypeError):
            known = False
        if not known:
            fail("TF_CONFIG must be JSON: the workers of the cluster, type and index of this one.")
        try:
            return tf.distribute.MultiWorkerMirroredStrategy()
        except tf.errors.UnknownError as error:
            fail(f"{error.message}. Is the port in TF_CONFIG taken, by a worker of yesterday?")
    if not gpus:
        simulated = [tf.config.LogicalDeviceConfiguration() for _ in range(here)]
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, simulated)
    devices = tf.config.list_logical_devices("GPU" if gpus else "CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def make_net(strategy: Any, inputs: int, chosen: argparse.Namespace) -> tuple[Any, Any]:
    """Network and optimizer, every variable once on each device of the strategy."""
    keras = tf.keras
    start = [keras.initializers.GlorotUniform(chosen.seed + layer) for layer in range(2)]
    with strategy.scope():
        hidden = keras.layers.Dense(128, activation="relu", kernel_initializer=start[0])
        output = keras.layers.Dense(10, kernel_initializer=start[1])
        net = keras.Sequential([keras.Input((inputs,)), hidden, output])
        optimizer = keras.optimizers.SGD(chosen.lr, momentum=0.9)
        optimizer.build(net.trainable_variables)
    return net, optimizer


def batches(strategy: Any, rows: int, *arrays: np.ndarray) -> Any:
    """Global batches of so many rows, in order; each device gets its share of each."""
    dataset = tf.data.Dataset.from_tensor_slices(arrays).batch(rows)
    share = tf.data.Options()  # each worker takes its own rows of a batch
    share.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return strategy.experimental_distribute_dataset(dataset.with_options(share))


def make_steps(strategy: Any, net: Any, optimizer: Any) -> tuple[Any, Any]:
    """Two compiled functions: a training step on a global batch of ``rows`` rows, which returns
    its mean loss; and the count of right answers, beside that of the rows."""
    cross_entropy = tf.keras.losses.sparse_categorical_crossentropy

    def train_share(x, y, rows):
        with tf.GradientTape() as tape:
            losses = cross_entropy(y, net(x, training=True), from_logits=True)
            loss = tf.reduce_sum(losses) / rows
        optimizer.apply(tape.gradient(loss, net.trainable_variables), net.trainable_variables)
        return loss

    def count_share(x, y):
        right = tf.argmax(net(x, training=False), axis=1) == y
        return tf.stack([tf.math.count_nonzero(right), tf.size(y, tf.int64)])

    def summed(work, *arguments):
        return strategy.reduce("SUM", strategy.run(work, args=arguments), axis=None)

    return tf.function(partial(summed, train_share)), tf.function(partial(summed, count_share))


def state(net: Any, optimizer: Any) -> dict[str, Any]:
    """Every variable that the training goes on from, by name."""
    kinds = {"weights": net.weights, "optimizer": optimizer.variables}
    return {f"{kind}/{i}": each for kind, many in kinds.items() for i, each in enumerate(many)}


def save(path: Path, variables: dict[str, Any], epochs: int) -> None:
    """Write the file whole or not at all: a kill leaves the old one as it was."""
    beside = path.with_name(path.name + ".part")
    with open(beside, "wb") as file:
        np.savez(file, epochs=epochs, **{name: each.numpy() for name, each in variables.items()})
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def load(path: Path, variables: dict[str, Any]) -> int:
    """Fill the variables from the file; return the number of epochs that it holds."""
    if not path.is_file():
        fail(f"There is no checkpoint {path}. Look at its name, or leave --resume out.")
    try:
        with np.load(path) as stored:
            found = {name: stored[name] for name in stored.files}
        epochs = int(found.pop("epochs"))
    except Exception:  # a damaged file can raise anything
        fail(f"The checkpoint {path} is damaged or of another kind. Take the one before it.")
    here, there = ([(n, *v.shape) for n, v in side.items()] for side in (variables, found))
    if here != there:
        fail(f"The checkpoint {path} is of another network. It holds {there}, wanted are {here}.")
    for name, variable in variables.items():
        variable.assign(found[name])
    return epochs


def main(chosen: argparse.Namespace) -> None:
    """Train, save after each epoch, then print what came out."""
    images, labels, *test = load_images(chosen.data)
    strategy = make_strategy(chosen.devices)
    replicas, cluster = strategy.num_replicas_in_sync, strategy.cluster_resolver
    if chosen.batch < replicas:
        fail(f"A global batch of {chosen.batch} cannot be split over {replicas} devices.")
    first_worker = cluster is None or cluster.task_id == 0  # it alone prints and writes files
    say = partial(print, flush=True) if first_worker else str
    mine = [name.split("device:")[-1] for name in strategy.extended.worker_devices]
    simulated = " (simulated)" * mine[0].startswith("CPU")
    say(f"devices in all: {replicas}; here: {', '.join(mine)}{simulated}")
    if replicas == 1:
        say("One device only: nothing is split.")

    net, optimizer = make_net(strategy, images.shape[1], chosen)
    train_step, count_right = make_steps(strategy, net, optimizer)
    done = load(chosen.checkpoint, state(net, optimizer)) if chosen.resume else 0
    if done >= chosen.epochs:
        fail(f"{chosen.checkpoint} holds {done} epochs already. Ask for more with --epochs.")
    optimizer.learning_rate = chosen.lr  # not that of the file

    losses, shows_bar = [], first_worker and not chosen.quiet and sys.stdout.isatty()
    for epoch in range(done, chosen.epochs):
        order = np.random.default_rng([chosen.seed, epoch]).permutation(len(images))
        starts = range(0, len(order), chosen.batch)
        bar = tf.keras.utils.Progbar(len(starts), verbose=int(shows_bar))
        data = batches(strategy, chosen.batch, images[order], labels[order])
        now, begin = [], time.perf_counter()
        for step, (start, (x, y)) in enumerate(zip(starts, data, strict=True), 1):
            rows = min(chosen.batch, len(order) - start)  # the last batch may have fewer
            now.append(train_step(x, y, tf.constant(rows, tf.float32)))
            bar.update(step)
            if len(losses) + step == chosen.steps:
                break
        now = [float(loss) for loss in now]  # waits for the devices
        rate, losses = (start + rows) / (time.perf_counter() - begin), losses + now
        if not chosen.quiet:
            say(f"epoch {epoch + 1} of {chosen.epochs}: loss {np.mean(now):.3f}")
        if first_worker and chosen.checkpoint and len(now) == len(starts):
            save(chosen.checkpoint, state(net, optimizer), epoch + 1)
        if len(losses) == chosen.steps:
            break
    right, counted = sum(count_right(*share) for share in batches(strategy, chosen.batch, *test))
    say(f"global batch {chosen.batch}, {len(losses)} steps, last loss {losses[-1]:.3f}")
    say(f"test accuracy {right / counted:.3f} over {counted} images")
    say(f"{rate:,.0f} images per second in the last epoch")
    if first_worker and chosen.losses:
        chosen.losses.write_text(json.dumps(losses))


if __name__ == "__main__":
    given = options()
    try:
        import tensorflow as tf  # after the options: it takes seconds
    except ImportError as error:
        fail(f"TensorFlow cannot be used here: {error}")
    try:
        main(given)
    except tf.errors.UnavailableError as error:
        print(error.message, file=sys.stderr)
        print("Another worker is gone. Start all of them again, with --resume.", file=sys.stderr)
        raise SystemExit(1) from None
