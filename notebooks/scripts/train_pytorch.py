"""Train a network, 784-128-10, on Fashion-MNIST: on one device, on two, or on several hosts.

torchrun starts one process per device and tells each its place by environment variables. Where a
host has a card for each of its processes, each takes one; else each is a simulated device on the
CPU. Without torchrun it is one device. Exit status 2: something that you can repair was wrong.
"""

import argparse
import json
import math
import os
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

# DistributedDataParallel imports this, and imported only then it would keep the group, in default
# arguments: after destroy_process_group a thread of gloo would still run, and could abort the end.
import torch.distributed.nn.functional
from torch import nn
from torch.nn.parallel import DistributedDataParallel

try:
    from tqdm import tqdm
except ImportError:  # then there is no progress bar
    tqdm = None

EXAMPLES = """examples:
  torchrun --nproc-per-node 2 train_pytorch.py --checkpoint run.pt
  torchrun --nproc-per-node 2 train_pytorch.py --checkpoint run.pt --resume --epochs 9
"""
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
SAME = ("batch", "lr", "seed")  # options that a resumed run must not change

# From torchrun: which process this is, of how many; then the same among those of this host.
RANK, WORLD_SIZE = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", 0))
LOCAL_WORLD_SIZE = int(os.environ.get("LOCAL_WORLD_SIZE", 1))


class Mistake(Exception):
    """Something that the user can repair. The message is one sentence."""


def settings() -> argparse.Namespace:
    """The options. Raises Mistake where they make no sense."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=layout)
    add = parser.add_argument
    add("--epochs", type=int, default=5, help="passes over the training rows (%(default)s)")
    add("--batch", type=int, default=128, help="rows of the GLOBAL batch (%(default)s)")
    add("--lr", type=float, default=0.05, help="learning rate of SGD (%(default)s)")
    add("--seed", type=int, default=0, help="of the weights and the order of rows (%(default)s)")
    add("--steps", type=int, help="stop after so many steps (after the last epoch)")
    add("--data", type=Path, help=f"FILE.npz with {', '.join(ARRAYS)} (the package helpers)")
    add("--checkpoint", type=Path, help="file to write after each epoch (none)")
    add("--resume", action="store_true", help="go on from the checkpoint")
    add("--resume-if-there", action="store_true", help="the same, but begin where there is none")
    add("--losses", type=Path, help="FILE.json to write the loss of each step to (none)")
    add("--quiet", action="store_true", help="print the result only")
    args = parser.parse_args()

    for name in ("epochs", "batch", "lr", "steps"):
        value = getattr(args, name)
        if value is not None and not 0 < value < math.inf:
            raise Mistake(f"--{name} must be above 0.")
    if args.batch < WORLD_SIZE:
        raise Mistake(f"--batch {args.batch} is too small: {WORLD_SIZE} devices need a row each.")
    if (args.resume or args.resume_if_there) and not args.checkpoint:
        raise Mistake("Which checkpoint? Give --checkpoint FILE as well.")
    for path in filter(None, (args.checkpoint, args.losses)):
        if path.is_dir():
            raise Mistake(f"{path} is a folder: name a file in it.")
        if not path.absolute().parent.is_dir():
            raise Mistake(f"The folder of {path} is not there.")
    return args


def load(path: Path | None) -> list[torch.Tensor]:
    """Images (rows, 784) float32 in 0..1 and labels (rows,) int64: to train with, then to test."""
    if path is None:
        try:
            from helpers import datasets
        except ImportError:
            raise Mistake("The package helpers is not here: give --data FILE.npz.") from None
        return [torch.from_numpy(array) for array in datasets.fashion_mnist()]
    if not path.is_file():
        raise Mistake(f"{path} is not there: check --data.")
    try:
        with np.load(path) as stored:
            images, labels, test, truth = (torch.from_numpy(stored[name]) for name in ARRAYS)
        images, test = (pixels.flatten(1).float() / 255 for pixels in (images, test))
        assert images.shape == (len(labels), 784) and test.shape == (len(truth), 784)
    except Exception:  # what a damaged file leads to cannot be foreseen
        raise Mistake(f"{path} does not hold images of 28 x 28 and their labels.") from None
    return [images, labels.long(), test, truth.long()]


def join() -> tuple[torch.device, str]:
    """Take a device, and meet the other processes; the device, and all devices in words."""
    cards = torch.cuda.device_count()
    if cards >= LOCAL_WORLD_SIZE:
        device, backend = torch.device("cuda", LOCAL_RANK), "nccl"
        torch.cuda.set_device(device)
        kind = torch.cuda.get_device_name()
    else:
        device, backend, kind = torch.device("cpu"), "gloo", "CPU"
    if WORLD_SIZE == 1:
        return device, f"one only, {kind}; for two: torchrun --nproc-per-node 2"
    dist.init_process_group(backend)
    simulated = f", simulated by processes, as a host has {cards} cards" if kind == "CPU" else ""
    return device, f"{WORLD_SIZE} x {kind}{simulated}; joined by {backend}"


def summed(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of a tensor over all processes."""
    if WORLD_SIZE > 1:
        dist.all_reduce(tensor)
    return tensor


def from_rank_0(make: Callable[[], dict]) -> dict:
    """What ``make`` returns on rank 0, as another host has another disk. A Mistake there is raised
    in every process: else the others would wait for ever."""
    made = [None]
    if RANK == 0:
        try:
            made = [make()]
        except Mistake as mistake:
            made = [mistake]
    if WORLD_SIZE > 1:
        dist.broadcast_object_list(made)
    if isinstance(made[0], Mistake):
        raise made[0]
    return made[0]


def write(state: dict, path: Path) -> None:
    """Write a checkpoint whole or not at all: a kill leaves the one before."""
    beside = f"{path}.new"
    with open(beside, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def read(args: argparse.Namespace, net: nn.Module) -> dict:
    """The checkpoint, or {} where none is needed. Raises Mistake if it is not of this training."""
    path = args.checkpoint
    if not path.is_file():
        if args.resume_if_there:
            return {}
        raise Mistake(f"{path} is not there: check --checkpoint, or begin without --resume.")
    try:
        with zipfile.ZipFile(path) as file:
            assert file.testzip() is None  # torch.load does not compare the checksums
        state = torch.load(path, weights_only=True, map_location="cpu")
        there = {name: weight.shape for name, weight in state["net"].items()}
        before = {name: state[name] for name in SAME}
    except Exception:  # what a damaged file leads to cannot be foreseen
        raise Mistake(f"{path} is damaged, or not a checkpoint of this script.") from None
    if there != {name: weight.shape for name, weight in net.state_dict().items()}:
        raise Mistake(f"{path} is of another network.")
    for name, value in before.items():
        if value != getattr(args, name):
            raise Mistake(f"{path} was begun with --{name} {value}: go on with that.")
    return state


def train_step(net, optimizer, images, labels, rows) -> torch.Tensor:
    """One step with a global batch, given by its row numbers: this process's part of the loss."""
    mine = rows.tensor_split(WORLD_SIZE)[RANK]
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(images[mine]), labels[mine], reduction="sum")
    loss = loss / len(rows)
    # The wrapper takes the mean over the processes; these parts have to be added up.
    (loss * WORLD_SIZE).backward()
    optimizer.step()
    return loss.detach()


def train_epoch(net, optimizer, images, labels, batches, bar: str | None) -> list[float]:
    """A step with each of these global batches; their losses. ``bar`` names the progress bar."""
    if tqdm and bar:
        batches = tqdm(batches, bar, leave=False, disable=None)  # None: not outside a terminal
    parts = [train_step(net, optimizer, images, labels, rows) for rows in batches]
    return summed(torch.stack(parts)).tolist()


def accuracy(net, images, labels) -> float:
    """The share of rows that are right; each process looks at its own, so each row counts once."""
    mine = torch.arange(len(labels)).tensor_split(WORLD_SIZE)[RANK]
    with torch.no_grad():
        right = (net(images[mine]).argmax(1) == labels[mine]).sum()
    return summed(right).item() / len(labels)


def run(args: argparse.Namespace, device: torch.device, devices: str) -> None:
    """Train, save after each epoch, and print the result; rank 0 speaks for all."""
    comments = RANK == 0 and not args.quiet
    images, labels, *test = (tensor.to(device) for tensor in load(args.data))
    torch.manual_seed(args.seed)
    plain = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
    net = DistributedDataParallel(plain) if WORLD_SIZE > 1 else plain
    optimizer = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)

    done, rows, losses, seconds, loss = 0, 0, [], 0.0, math.nan
    resume = args.resume or args.resume_if_there
    if resume and (state := from_rank_0(lambda: read(args, plain))):
        plain.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["epoch"]
        if comments:
            print(f"going on after epoch {done}")

    steps = args.steps or sys.maxsize
    while done < args.epochs and len(losses) < steps:
        order = torch.Generator().manual_seed(args.seed + done)  # the same in each process
        epoch = torch.randperm(len(labels), generator=order).split(args.batch)
        batches = epoch[: steps - len(losses)]
        start = time.perf_counter()
        bar = f"epoch {done + 1}" if comments else None
        new = train_epoch(net, optimizer, images, labels, batches, bar)
        seconds += time.perf_counter() - start
        sizes = [len(batch) for batch in batches]
        rows, losses, loss = rows + sum(sizes), losses + new, np.average(new, weights=sizes)
        if len(batches) < len(epoch):
            break
        done += 1
        if comments:
            print(f"epoch {done} of {args.epochs}: loss {loss:.4f}", flush=True)
        if args.checkpoint and RANK == 0:
            state = {"net": plain.state_dict(), "optimizer": optimizer.state_dict(), "epoch": done}
            write(state | {name: getattr(args, name) for name in SAME}, args.checkpoint)

    share = accuracy(plain, *test)
    if RANK == 0:
        print(f"devices            {devices}")
        print(f"global batch       {args.batch} rows")
        print(f"final loss         {loss:.4f}" if losses else f"epoch {done} is done already")
        print(f"test accuracy      {share:.1%} of {len(test[1]):,} rows")
        print(f"images per second  {rows / seconds:,.0f}" if losses else "nothing was trained")
        if args.losses:
            args.losses.write_text(json.dumps(losses))


def main() -> int:
    """The exit status: 2 after a Mistake."""
    status = 0
    try:
        args = settings()
        run(args, *join())
    except Mistake as mistake:
        # Each process says it: torchrun ends the others as soon as one has failed.
        print(f"{Path(__file__).name}: {mistake}", file=sys.stderr)
        status = 2
    if dist.is_initialized():
        dist.destroy_process_group()
    return status


if __name__ == "__main__":
    sys.exit(main())
