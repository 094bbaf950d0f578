"""The MXNet script to take home, as in a terminal: one device and two, stop and go on, two hosts.

Each run has a folder of its own with a copy of the script; no process is left behind.
"""

import contextlib
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from needs import skip_without, skip_without_two_hosts
from processes import processes_with

from helpers import hosts

SCRIPT = Path(__file__).parents[1] / "notebooks" / "scripts" / "train_mxnet.py"
MARK = "TEST_FURTHER_MXNET"
LIMIT = 120  # seconds: a busy machine takes long for four imports of MXNet at the same time
KILL = """
    split.calls = getattr(split, "calls", 0) + 1
    if store.rank == store.num_workers - 1 and split.calls == 8 and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), 9)
"""
LINE = "    idle = max(len(contexts) - len(mine), 0)\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A scratch folder with the script and few images: 6 steps of 128 rows, the last one of 1."""
    skip_without("mxnet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(MARK, str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("PYTHONWARNINGS", "always::DeprecationWarning")  # MXNet gives dozens
    (tmp_path / "train_mxnet.py").write_bytes(SCRIPT.read_bytes())
    with np.load(Path(hosts.__file__).with_name("data") / "fashion_mnist.npz") as stored:
        few = {name: stored[name][:641] for name in stored.files}
    np.savez(tmp_path / "few.npz", **few)
    yield tmp_path
    _, left = psutil.wait_procs(processes_with(MARK, str(tmp_path)), timeout=10)
    for process in left:
        process.kill()
    assert left == []


def command(*options: str, file: str = "train_mxnet.py") -> list[str]:
    return [sys.executable, file, "--data", "few.npz", *options]


def run(command: list[str], **variables: str) -> tuple[int, str, str]:
    """Exit status, output, errors."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT, env=os.environ | variables
    )
    return done.returncode, done.stdout, done.stderr


ONE_AFTER_THE_OTHER = """
import contextlib, io, json, runpy, sys
told = []
for sys.argv in json.loads(sys.argv[1]):
    status, output, errors = 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit as end:
            status = end.code
    told.append([status, output.getvalue(), errors.getvalue()])
print(json.dumps(told))
"""


def run_each(*commands: list[str]) -> list[tuple[int, str, str]]:
    """The same for several runs in one process: the import of MXNet takes longer than they do."""
    lines = json.dumps([command[1:] for command in commands])
    status, printed, errors = run([sys.executable, "-c", ONE_AFTER_THE_OTHER, lines])
    assert (status, errors) == (0, "")
    return [tuple(told) for told in json.loads(printed)]


def files(name: str) -> list[str]:
    return ["--losses", f"{name}.json", "--checkpoint", f"{name}.npz"]


def train(*commands: list[str]) -> list[str]:
    """Outputs of runs that go well."""
    told = [run(*commands)] if len(commands) == 1 else run_each(*commands)
    assert [(status, errors) for status, _, errors in told] == [(0, "")] * len(commands)
    return [printed for _, printed, _ in told]


def gap(one: str, two: str) -> float:
    """The largest difference of two runs: losses of the steps that both have written, and all that
    is in the checkpoints."""
    first, second = (np.array(json.loads(Path(f"{n}.json").read_text())) for n in (one, two))
    steps = min(len(first), len(second))
    gaps = [abs(first[-steps:] - second[-steps:]).max()]
    with np.load(f"{one}.npz") as a, np.load(f"{two}.npz") as b:
        assert a.files == b.files
        gaps += [abs(a[name] - b[name]).max() for name in a.files]
    return max(gaps)


def broken(file: str, old: str, new: str) -> str:
    """Write a copy of the script in which one place is another; its name."""
    source = SCRIPT.read_text(encoding="utf-8")
    assert source.count(old) == 1
    Path(file).write_text(source.replace(old, new), encoding="utf-8")
    return file


# --- One machine ---


def test_help_tells_defaults_and_two_examples_without_mxnet(folder):
    (folder / "mxnet.py").write_text("raise SystemExit('imported')")
    status, printed, errors = run(command("--help"), PYTHONPATH=str(folder))
    assert (status, errors) == (0, "")
    assert printed.count("(default:") == 7
    assert printed.split("examples:")[1].count("python train_mxnet.py") == 2


def test_several_devices_equal_one_with_an_uneven_last_batch_and_the_check_can_fail():
    """The last batch of each epoch has one row, for two and three devices."""
    by_device = broken("by_device.py", "trainer.step(rows)", "trainer.step(rows / len(shares))")
    twice = broken("twice.py", "* counts for x", "for x")  # the row that fills up counts as well
    _, two, three, _, _ = train(
        command(*files("one"), "--epochs", "2", "--devices", "1"),
        command(*files("two"), "--epochs", "2"),
        command(*files("three"), "--epochs", "2", "--devices", "3"),
        command(*files("by-device"), "--epochs", "2", file=by_device),
        command(*files("twice"), "--epochs", "2", file=twice),
    )
    assert gap("one", "two") <= 1e-6 and gap("one", "three") <= 1e-6
    assert gap("one", "by-device") > 1e-3 and gap("one", "twice") > 1e-3
    assert len(json.loads(Path("two.json").read_text())) == 12
    assert "devices        cpu(0), cpu(1) (simulated: MXNet sees no GPU)" in two
    assert "devices        cpu(0), cpu(1), cpu(2) (simulated" in three
    assert "global batch   128 rows" in two and "641 images, each counted once" in two


def test_killed_in_the_middle_and_resumed_equals_unbroken_and_the_check_can_fail():
    killed = broken("killed.py", LINE, KILL + LINE)
    status, printed, _ = run(command(*files("resumed"), "--epochs", "3", file=killed))
    assert status == -9 and printed.startswith("epoch 1") and "epoch 2" not in printed
    no_momenta = broken("first.py", 'array(arrays[f"momentum {number}"])', "zeros(weight.shape)")
    told = train(
        command(*files("resumed"), "--epochs", "3", "--resume", "--devices", "1"),
        command(*files("unbroken"), "--epochs", "3"),
        command(*files("first"), "--epochs", "1"),
        command(*files("first"), "--epochs", "3", "--resume", file=no_momenta),
    )
    assert told[0].startswith("epoch 2")
    assert gap("unbroken", "resumed") <= 1e-6
    assert gap("unbroken", "first") > 1e-3


def test_a_kill_while_writing_leaves_the_checkpoint_before_it():
    line = "    os.replace(beside, path)\n"
    kill = '    if arrays["epochs"][0] == 2:\n        os.kill(os.getpid(), 9)\n'
    status, _, _ = run(command(*files("one"), file=broken("deadly.py", line, kill + line)))
    assert status == -9 and Path("one.npz.part0").exists()
    with np.load("one.npz") as stored:
        assert stored["epochs"] == [1]


def test_a_mistake_gets_one_sentence_and_status_2():
    train(command("--checkpoint", "one.npz", "--epochs", "1"))
    Path("cut.npz").write_bytes(Path("one.npz").read_bytes()[:1000])
    np.savez("empty.npz")
    names = "train_images, train_labels, test_images, test_labels"
    mistakes = {
        "--batch 1": "--batch 1 is too small: 2 devices need a row each.",
        "--lr 0": "--lr must be above 0, not 0.0.",
        "--lr inf": "--lr must be above 0, not inf.",
        "--seed -1": "--seed must not be below 0, but is -1.",
        "--checkpoint .": ". is a folder: name a file in it.",
        "--resume": "--resume needs --checkpoint FILE, the file to go on from.",
        "--checkpoint no/such.npz": "There is no folder for no/such.npz: make it first.",
        "--resume --checkpoint gone.npz": "gone.npz is not there: look at its name.",
        "--resume --checkpoint cut.npz": "cut.npz is damaged, or a file of another kind.",
        "--resume --checkpoint few.npz": (
            "few.npz is of another network, or no checkpoint of this script."
        ),
        "--resume --checkpoint one.npz --batch 64": (
            "one.npz was trained with --batch 128, not 64."
        ),
        "--resume --checkpoint one.npz --epochs 1": (
            "one.npz holds 1 epochs: ask for more with --epochs."
        ),
        "--data gone.npz": "gone.npz is not there: look at its name.",
        "--data empty.npz": f"empty.npz does not hold {names} of 28 x 28 pixels.",
    }
    told = run_each(*(command(*options.split()) for options in mistakes))
    assert told == [(2, "", f"train_mxnet.py: {sentence}\n") for sentence in mistakes.values()]


ROLE = dict.fromkeys(
    ("DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_SERVER", "DMLC_NUM_WORKER"), "1"
) | {"DMLC_ROLE": "Worker"}
FAKE_CARD = "import numpy; numpy.bool = bool; import mxnet; mxnet.context.num_gpus = lambda: 1"


@pytest.mark.parametrize(
    ("before", "sentence"),
    [
        ("sys.modules['helpers'] = None", "No images: name a file with --data (helpers is not"),
        ("sys.modules['mxnet'] = None", "MXNet cannot start: import of mxnet halted; None in sys"),
        (f"os.environ |= {ROLE}", "DMLC_ROLE must be scheduler, server or worker."),
        (FAKE_CARD, "gpu(0) cannot be used (MXNetError: Operator _ones is not implemented for GPU"),
    ],
    ids=["no images", "no MXNet", "an unknown role", "a card that this build cannot use"],
)
def test_what_is_missing_is_told(before, sentence):
    go = "sys.argv[1:] = []; runpy.run_path('train_mxnet.py', run_name='__main__')"
    status, printed, errors = run([sys.executable, "-c", f"import os, sys, runpy; {before}; {go}"])
    assert (status, printed) == (2, "")
    assert f"train_mxnet.py: {sentence}" in errors and "Traceback" not in errors


def test_a_terminal_gets_a_progress_bar():
    """Elsewhere there is none: all other tests look at what the script writes to stderr."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    told = b""
    with subprocess.Popen(command("--epochs", "1"), stdout=there, stderr=there):
        os.close(there)
        with contextlib.suppress(OSError):  # raised once the other end is closed
            while True:
                told += os.read(here, 4096)
    os.close(here)
    assert b"%|" in told and b" 0/6 " in told and b"epoch 1: loss" in told


# --- Several machines ---


def start_all(
    workers: tuple[hosts.Host, ...], *options: str, file: str = "train_mxnet.py"
) -> list[subprocess.Popen]:
    """A scheduler, a server, and a worker on each of these hosts."""
    shared = {
        "DMLC_PS_ROOT_URI": workers[0].address,
        "DMLC_PS_ROOT_PORT": str(hosts.free_port()),
        "DMLC_NUM_SERVER": "1",
        "DMLC_NUM_WORKER": str(len(workers)),
    }
    roles = [("scheduler", workers[0]), ("server", workers[0])]
    roles += [("worker", host) for host in workers]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return [
        subprocess.Popen(
            [*host.prefix, *command(*options, file=file)],
            env=os.environ | shared | {"DMLC_ROLE": role, "DMLC_NODE_HOST": host.address},
            **pipes,
        )
        for role, host in roles
    ]


def ended(processes: list[subprocess.Popen]) -> list[tuple[int, str, str]]:
    """Wait for all, and end what the limit leaves: exit status, output and errors of each."""
    deadline = time.monotonic() + LIMIT
    try:
        while any(process.poll() is None for process in processes):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, *process.communicate()) for process in processes]


def test_two_hosts_equal_one_device_and_the_check_can_fail():
    """Each worker has two devices: of the single row of the last batch, three get none."""
    skip_without_two_hosts()
    train(command(*files("one"), "--epochs", "2", "--devices", "1"))
    with hosts.two_hosts() as two:
        told = ended(start_all(two, *files("hosts"), "--epochs", "2"))
    assert [(status, errors) for status, _, errors in told] == [(0, "")] * 4
    printed = "".join(output for _, output, _ in told)
    assert printed.count("epoch 1: loss") == printed.count("test accuracy") == 1  # one talks
    assert "in each of 2 workers" in printed and "641 images, each counted once" in printed
    assert gap("one", "hosts") <= 1e-6
    file = broken("same_rows.py", "store.num_workers)[store.rank]", "store.num_workers)[0]")
    with hosts.two_hosts() as two:
        told = ended(start_all(two, *files("same"), "--epochs", "2", file=file))
    assert [status for status, _, _ in told] == [0] * 4
    assert gap("one", "same") > 1e-3


def test_the_others_wait_for_a_killed_worker_and_all_go_on_from_the_checkpoint():
    skip_without_two_hosts()
    train(command(*files("unbroken"), "--epochs", "3", "--devices", "1"))
    file = broken("killed.py", LINE, KILL + LINE)
    with hosts.two_hosts() as two:
        processes = start_all(two, *files("lost"), "--epochs", "3", file=file)
        try:
            deadline = time.monotonic() + LIMIT
            while all(process.poll() is None for process in processes):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            time.sleep(5)
            statuses = [process.poll() for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.communicate()
        assert statuses[:2] == [None, None]
        assert sorted(statuses[2:], key=str) == [-9, None]
        told = ended(start_all(two, *files("lost"), "--epochs", "3", "--resume"))
    assert [(status, errors) for status, _, errors in told] == [(0, "")] * 4
    assert gap("unbroken", "lost") <= 1e-6


def test_all_workers_hear_of_a_checkpoint_that_cannot_be_used():
    """On loopback, which is everywhere. As both workers end, scheduler and server do so, too."""
    told = ended(start_all(hosts.LOOPBACK, "--checkpoint", "gone.npz", "--resume"))
    assert [status for status, _, _ in told] == [0, 0, 2, 2]
    assert sorted(errors for _, _, errors in told[2:]) == [
        "train_mxnet.py: The first worker cannot go on from its checkpoint.\n",
        "train_mxnet.py: gone.npz is not there: look at its name.\n",
    ]


WEIGHTS_FIRST = """
import numpy as np
np.bool = bool
import mxnet as mx
store, wrong = mx.kv.create("dist_sync"), 0
for key in range(200):
    weight, gradient = mx.nd.full((128, 784), 7), mx.nd.full((128, 784), 1000)
    store.broadcast(key, weight, weight)
    mx.nd.waitall()
    store.pushpull(key, gradient, out=gradient)
    wrong += not ((weight == 7).min().asscalar() and (gradient == 2000).min().asscalar())
print("wrong:", wrong)
"""


def test_with_a_wait_no_gradient_overtakes_the_first_weights():
    """Why the script waits before its first step. Without the wait a part of the weights is wrong
    on a busy machine, and on an idle one perhaps none: so there is no control."""
    Path("weights_first.py").write_text(WEIGHTS_FIRST)
    told = ended(start_all(hosts.LOOPBACK, file="weights_first.py"))
    assert [status for status, _, _ in told] == [0] * 4
    assert [output for _, output, _ in told[2:]] == ["wrong: 0\n"] * 2
