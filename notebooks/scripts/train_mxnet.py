"""Train the network 784-128-10 on all devices of one machine, or on several machines.

One machine: its GPUs; without a GPU two simulated devices, CPU contexts that MXNet keeps apart.
Several machines: the key-value store dist_sync, where DMLC_ROLE is set. The script then runs once
as scheduler, once as server, and as a worker on each machine:

    export DMLC_PS_ROOT_URI=10.0.0.1 DMLC_PS_ROOT_PORT=9091 DMLC_NUM_SERVER=1 DMLC_NUM_WORKER=2
    DMLC_ROLE=scheduler python train_mxnet.py      (on 10.0.0.1)
    DMLC_ROLE=server python train_mxnet.py
    DMLC_ROLE=worker python train_mxnet.py         (with all other options)

The same options make the same training on one device, on two, and on two machines.
"""

import argparse
import itertools
import json
import math
import os
import pickle
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

try:
    from tqdm import tqdm
except ImportError:  # then there is no progress bar
    tqdm = None

EXAMPLES = """examples:
  python train_mxnet.py --epochs 5 --batch 256
  python train_mxnet.py --epochs 20 --checkpoint last.npz --resume
"""
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
CLUSTER = ("DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_SERVER", "DMLC_NUM_WORKER")
KEYS = itertools.count(100)  # in the key-value store; those from 0 on are the trainer's

Arrays = dict[str, np.ndarray]


class Mistake(Exception):
    """Something that the user can repair. The message is one sentence."""


def last_line(error: Exception) -> str:
    """MXNet's messages begin with a list of C++ functions; what is wrong stands at the end."""
    return str(error).strip().splitlines()[-1].strip()


def settings() -> argparse.Namespace:
    """The command line. Raises Mistake where a value makes no sense."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=layout, allow_abbrev=False
    )
    add = parser.add_argument
    add("--epochs", type=int, default=5, help="passes over the rows, in all (default: 5)")
    add("--batch", type=int, default=128, help="rows of the GLOBAL batch (default: 128)")
    add("--lr", type=float, default=0.05, help="learning rate (default: 0.05)")
    add("--seed", type=int, default=0, help="of weights and order of the rows (default: 0)")
    add("--devices", type=int, metavar="N", help="so many (default: all GPUs, or two simulated)")
    add("--steps", type=int, metavar="N", help="stop after so many steps (default: go on)")
    add("--checkpoint", type=Path, metavar="FILE", help="save here after each epoch, as .npz")
    add("--resume", action="store_true", help="go on from the file of --checkpoint")
    add("--losses", type=Path, metavar="FILE", help="write the loss of each step, as JSON")
    add("--data", type=Path, metavar="FILE", help=f".npz with {', '.join(ARRAYS)}; pixels 0 to "
        "255 (default: the images in the package helpers, where it is installed)")  # fmt: skip
    add("--quiet", action="store_true", help="print no progress")
    chosen = parser.parse_args()
    for name in ("epochs", "batch", "lr", "devices", "steps"):
        value = getattr(chosen, name)
        if value is not None and not 0 < value < math.inf:
            raise Mistake(f"--{name} must be above 0, not {value}.")
    if chosen.seed < 0:
        raise Mistake(f"--seed must not be below 0, but is {chosen.seed}.")
    if chosen.resume and not chosen.checkpoint:
        raise Mistake("--resume needs --checkpoint FILE, the file to go on from.")
    for path in filter(None, (chosen.checkpoint, chosen.losses)):
        if path.is_dir():
            raise Mistake(f"{path} is a folder: name a file in it.")
        if not path.absolute().parent.is_dir():
            raise Mistake(f"There is no folder for {path}: make it first.")
    return chosen


def import_mxnet() -> Any:
    """MXNet. A scheduler or a server does all its work in this import, and ends in it."""
    missing = [name for name in CLUSTER if name not in os.environ]
    if "DMLC_ROLE" in os.environ and missing:
        raise Mistake(f"DMLC_ROLE is set, but not {', '.join(missing)}.")
    if os.environ.get("DMLC_ROLE", "worker") not in ("scheduler", "server", "worker"):
        raise Mistake("DMLC_ROLE must be scheduler, server or worker.")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # else each simulated device takes all cores
    if "bool" not in np.__dict__:
        np.bool = bool  # MXNet 1.9.1 asks for it, NumPy 1.24 has dropped it
    warnings.filterwarnings("ignore", module="mxnet")  # of old names; nobody mends them any more
    try:
        import mxnet
    except Exception as error:  # a build that does not fit this machine can raise anything
        raise Mistake(f"MXNet cannot start: {last_line(error)}.") from None
    return mxnet


def contexts_of(wanted: int | None) -> list[Any]:
    """All GPUs, or ``wanted`` of them; without a GPU simulated devices."""
    gpus = [mx.gpu(number) for number in range(mx.context.num_gpus())]
    if gpus and wanted and wanted > len(gpus):
        raise Mistake(f"--devices {wanted}, but MXNet sees {len(gpus)} here.")
    for gpu in gpus[:wanted]:
        try:
            mx.nd.ones(1, ctx=gpu).wait_to_read()
        except mx.MXNetError as error:  # a card that is newer than this build
            raise Mistake(f"{gpu} cannot be used ({last_line(error)}): hide it with "
                "CUDA_VISIBLE_DEVICES.") from None  # fmt: skip
    return gpus[:wanted] or [mx.cpu(number) for number in range(wanted or 2)]


def read(path: Path) -> Arrays:
    """The arrays of an .npz file by name."""
    if not path.is_file():
        raise Mistake(f"{path} is not there: look at its name.")
    try:
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)
    except Exception:  # a damaged file can raise anything
        raise Mistake(f"{path} is damaged, or a file of another kind.") from None


def load_images(path: Path | None) -> list[np.ndarray]:
    """Images (rows, 784) float32 in 0..1 and labels (rows,): for training, then for the test."""
    if path is None:
        try:
            from helpers import datasets
        except ImportError:
            raise Mistake("No images: name a file with --data (helpers is not here).") from None
        return list(datasets.fashion_mnist())
    found = read(path)
    try:
        arrays = [found[name] for name in ARRAYS]
        for place in (0, 2):
            pixels = arrays[place].reshape(len(arrays[place + 1]), 784)
            arrays[place] = pixels.astype(np.float32) / np.float32(255)
    except (KeyError, ValueError):
        raise Mistake(f"{path} does not hold {', '.join(ARRAYS)} of 28 x 28 pixels.") from None
    return arrays


def write_whole(path: Path, arrays: Arrays, rank: int) -> None:
    """Write the file whole or not at all: a kill leaves the old one as it was."""
    beside = path.with_name(f"{path.name}.part{rank}")  # workers may share this folder
    with open(beside, "wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def state(net: Any, trainer: Any) -> Arrays:
    """Weights and momenta by name. All devices hold the same, so the first one's will do."""
    with tempfile.TemporaryDirectory() as own:  # MXNet writes a pickle, which could hold any code
        trainer.save_states(f"{own}/states")
        momenta, _ = pickle.loads(Path(own, "states").read_bytes())
    arrays = {}
    for number, weight in enumerate(net.collect_params().values()):
        arrays[f"weight {number}"] = weight.list_data()[0].asnumpy()
        before_the_first_step = mx.nd.zeros(weight.shape)
        arrays[f"momentum {number}"] = momenta.get(number, before_the_first_step).asnumpy()
    return arrays


def set_state(net: Any, trainer: Any, arrays: Arrays) -> None:
    """The way back, to all devices."""
    weights, momenta = net.collect_params().values(), {}
    for number, weight in enumerate(weights):
        weight.set_data(mx.nd.array(arrays[f"weight {number}"]))
        momenta[number] = mx.nd.array(arrays[f"momentum {number}"])
    with tempfile.TemporaryDirectory() as own:
        Path(own, "states").write_bytes(pickle.dumps(momenta))
        trainer.load_states(f"{own}/states")


def checked(path: Path, fresh: Arrays) -> Arrays:
    """The checkpoint in a file. Raises Mistake where a training like ``fresh`` cannot go on."""
    found = read(path)
    if {n: a.shape for n, a in found.items()} != {n: np.shape(a) for n, a in fresh.items()}:
        raise Mistake(f"{path} is of another network, or no checkpoint of this script.")
    for name in ("batch", "lr", "seed"):
        if found[name] != fresh[name]:
            raise Mistake(f"{path} was trained with --{name} {found[name]}, not {fresh[name]}.")
    return found


def resume(path: Path, net: Any, trainer: Any, store: Any, fresh: Arrays) -> int:
    """Go on from a checkpoint; returns the epochs that it holds.

    The first worker reads it and all get it, so that none goes on from another file.
    """
    arrays, problem = fresh, None
    if store.rank == 0:
        try:
            arrays = checked(path, fresh)
        except Mistake as mistake:
            problem = mistake
    if summed(store, [problem is not None])[0]:  # told to all, else they would wait for ever
        raise problem or Mistake("The first worker cannot go on from its checkpoint.")
    first = store.rank == 0
    arrays = {name: summed(store, first * np.atleast_1d(each)) for name, each in arrays.items()}
    set_state(net, trainer, arrays)
    return int(arrays["epochs"][0])


def summed(store: Any, array: Any) -> np.ndarray:
    """The sum of an array over all workers. Each has to call this, as often as the others."""
    if store.num_workers == 1:
        return np.asarray(array)
    value, key = mx.nd.array(array), next(KEYS)
    store.init(key, mx.nd.zeros_like(value))
    store.pushpull(key, value, out=value)
    return value.asnumpy()


def split(rows: np.ndarray, store: Any, contexts: list[Any], *arrays: np.ndarray) -> list[Any]:
    """This worker's share of the rows, for each of its contexts: of each array, and which count.

    MXNet cannot compute without rows: who would have none gets a row that does not count.
    """
    mine = np.array_split(rows, store.num_workers)[store.rank]
    idle = max(len(contexts) - len(mine), 0)
    counts = np.arange(len(mine) + idle) < len(mine)
    mine = np.append(mine, rows[:1].repeat(idle))
    parts = [mx.nd.array(array) for array in (*(array[mine] for array in arrays), counts)]
    split_and_load = mx.gluon.utils.split_and_load
    parts = [split_and_load(part, contexts, even_split=False) for part in parts]
    return list(zip(*parts, strict=True))


def train_step(net: Any, trainer: Any, shares: list[Any], rows: int) -> float:
    """One step with ``rows`` rows in all; this worker's part of their mean loss."""
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    with mx.autograd.record():
        losses = [loss(net(x), y) * counts for x, y, counts in shares]
    mx.autograd.backward(losses)
    trainer.step(rows)
    return sum(part.sum().asscalar() for part in losses) / rows


def count_right(net: Any, shares: list[Any]) -> float:
    """How many of this worker's rows are right."""
    return sum(((net(x).argmax(1) == y) * counts).sum().asscalar() for x, y, counts in shares)


def main(chosen: argparse.Namespace) -> None:
    """Train, and print the result. Raises Mistake."""
    images, labels, test_images, test_labels = load_images(chosen.data)
    contexts = contexts_of(chosen.devices)
    store = mx.kv.create("dist_sync" if "DMLC_ROLE" in os.environ else "device")
    devices = store.num_workers * len(contexts)
    if chosen.batch < devices:
        raise Mistake(f"--batch {chosen.batch} is too small: {devices} devices need a row each.")
    mx.random.seed(chosen.seed)
    net = mx.gluon.nn.Sequential()
    net.add(mx.gluon.nn.Dense(128, "relu", in_units=784), mx.gluon.nn.Dense(10, in_units=128))
    net.initialize(mx.init.Xavier(), ctx=contexts)
    trainer = mx.gluon.Trainer(
        list(net.collect_params().values()),
        "sgd",
        {"learning_rate": chosen.lr, "momentum": 0.9},
        kvstore=store,
        update_on_kvstore=False,  # the store adds up, each worker steps and so has the momenta
    )

    def progress() -> Arrays:
        """What a checkpoint holds."""
        kept = {name: np.array(getattr(chosen, name)) for name in ("batch", "lr", "seed")}
        return state(net, trainer) | kept | {"epochs": np.array([done])}

    done, losses, seconds, seen = 0, [], 0.0, 0
    fresh = progress()  # here the trainer hands the first worker's weights to all
    mx.nd.waitall()  # else dist_sync may let the first gradients overtake them
    if chosen.resume:
        done = resume(chosen.checkpoint, net, trainer, store, fresh)
    if done >= chosen.epochs:
        raise Mistake(f"{chosen.checkpoint} holds {done} epochs: ask for more with --epochs.")
    talks = store.rank == 0 and not chosen.quiet
    while done < chosen.epochs and len(losses) != chosen.steps:
        order = np.random.default_rng([chosen.seed, done]).permutation(len(images))
        batches = np.split(order, range(chosen.batch, len(order), chosen.batch))
        batches = batches[: chosen.steps and chosen.steps - len(losses)]
        start, own = time.perf_counter(), []
        for rows in tqdm(batches, leave=False, disable=None) if talks and tqdm else batches:
            shares = split(rows, store, contexts, images, labels)
            own.append(train_step(net, trainer, shares, len(rows)))
        losses += summed(store, own).tolist()
        mx.nd.waitall()  # MXNet returns before the work is done
        seconds += time.perf_counter() - start
        seen += sum(map(len, batches))
        loss = np.mean(losses[-len(batches) :])
        if sum(map(len, batches)) == len(images):
            done += 1
            if talks:
                print(f"epoch {done}: loss {loss:.3f}", flush=True)
            if chosen.checkpoint:  # each worker, as another may be the first one next time
                write_whole(chosen.checkpoint, progress(), store.rank)

    rows = np.arange(len(test_images))
    shares = split(rows, store, contexts, test_images, test_labels)
    right = summed(store, [count_right(net, shares)])[0]
    if store.rank:
        return
    if chosen.losses:
        chosen.losses.write_text(json.dumps(losses))
    workers = f", in each of {store.num_workers} workers" if store.num_workers > 1 else ""
    kind = "simulated: MXNet sees no GPU" if contexts[0].device_type == "cpu" else "real"
    print(f"devices        {', '.join(map(str, contexts))}{workers} ({kind})")
    print(f"global batch   {chosen.batch} rows")
    print(f"final loss     {loss:.3f}, mean of the last epoch")
    print(f"test accuracy  {right / len(rows):.3f}, {len(rows)} images, each counted once")
    print(f"speed          {seen / seconds:,.0f} images per second")


if __name__ == "__main__":
    try:
        options = settings()
        mx = import_mxnet()
        main(options)
    except Mistake as mistake:
        print(f"{Path(__file__).name}: {mistake}", file=sys.stderr)
        sys.exit(2)
