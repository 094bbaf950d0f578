"""The script of the notebook *TensorFlow, further*, from a terminal in a folder of its own: one
device, two, and two hosts give the same training, each mistake one sentence, a killed run goes on.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import numpy as np
import pytest
from needs import skip_without, skip_without_two_hosts
from processes import processes_with

from helpers import hosts

ROOT = Path(__file__).parents[1]
SOURCE = (ROOT / "notebooks" / "scripts" / "train_tensorflow.py").read_text(encoding="utf-8")
NOTEBOOK = ROOT / "notebooks" / "02_tensorflow_further.ipynb"
IMAGES = ROOT / "helpers" / "data" / "fashion_mnist.npz"
MARK = "TEST_FURTHER_TENSORFLOW"  # all processes of these tests carry it
SECONDS = 250

# 4,096 rows in batches of 1,365: shares of 683 and 682; in the last batch a single row, and none.
OPTIONS = ["--batch", "1365", "--epochs", "3", "--data", str(IMAGES)]
STEPS = 4  # an epoch

# A worker, once, ends itself in the middle of the second epoch.
KILL = """
            me = cluster.task_id if cluster else 0
            if me == {worker} and epoch == 1 and step == 2 and not Path("killed").exists():
                Path("killed").touch()
                os.kill(os.getpid(), 9)
"""


def changed(old: str, new: str) -> str:
    assert SOURCE.count(old) == 1
    return SOURCE.replace(old, new)


def killing(worker: int) -> str:
    line = "            bar.update(step)\n"
    return changed(line, KILL.format(worker=worker) + line)


def start(folder, *options, source=SOURCE, prefix=(), errors=subprocess.PIPE, **variables):
    """Start a copy of the script in this folder, which lies outside the repository."""
    number = len(list(folder.glob("*.py")))
    script = folder / f"script_{number}.py"
    script.write_text(source, encoding="utf-8")
    hidden = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", MARK: str(os.getpid())}
    return subprocess.Popen(
        [*prefix, sys.executable, script, *options],
        cwd=folder,
        env=os.environ | hidden | variables,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )


def finish(*processes: subprocess.Popen) -> list[tuple[int, str, str]]:
    """Wait for all: exit status, output and errors of each."""
    outputs = [process.communicate(timeout=SECONDS) for process in processes]
    return [(p.returncode, *output) for p, output in zip(processes, outputs, strict=True)]


@pytest.fixture(autouse=True)
def none_is_left() -> Iterator[None]:
    """Whatever happens, no process outlives its test; and no test needs that."""
    yield
    left = processes_with(MARK, str(os.getpid()))
    for process in left:
        process.kill()
    assert left == []


def files(name: str) -> list[str]:
    return [*OPTIONS, "--losses", f"{name}.json", "--checkpoint", f"{name}.npz"]


def losses(folder: Path, name: str) -> np.ndarray:
    return np.array(json.loads((folder / f"{name}.json").read_text()))


def end(folder: Path, name: str) -> dict[str, np.ndarray]:
    with np.load(folder / f"{name}.npz") as stored:
        return dict(stored)


def gap(folder: Path, one: str, two: str) -> float:
    """The largest difference of two runs, in the losses that both have and in the checkpoint."""
    mine, other = losses(folder, one), losses(folder, two)
    steps = min(len(mine), len(other))
    here, there = end(folder, one), end(folder, two)
    assert here.keys() == there.keys()
    pairs = [(mine[-steps:], other[-steps:]), *((here[name], there[name]) for name in here)]
    return max(np.abs(a - b).max() for a, b in pairs)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the unbroken training on one device and on two."""
    skip_without("tensorflow")
    folder = tmp_path_factory.mktemp("further")
    one = start(folder, *files("one"), "--devices", "1", "--quiet")
    two = start(folder, *files("two"))
    (status, told, errors), (other_status, other_told, other_errors) = finish(one, two)
    assert (status, other_status) == (0, 0), errors + other_errors
    assert told.startswith("devices in all: 1; here: CPU:0 (simulated)\nOne device only: nothing")
    assert "epoch" not in told.splitlines()[2] and len(told.splitlines()) == 5
    assert other_told.startswith("devices in all: 2; here: CPU:0, CPU:1 (simulated)\nepoch 1 of 3")
    assert "over 1000 images" in other_told and "images per second" in other_told
    return folder


def test_two_devices_give_the_training_of_one_with_an_uneven_last_batch(ran):
    assert len(losses(ran, "one")) == len(losses(ran, "two")) == 3 * STEPS
    assert gap(ran, "one", "two") < 1e-6


def test_a_mean_of_means_is_noticed_and_a_killed_run_goes_on_as_if_unbroken(ran):
    means = changed(
        "tf.reduce_sum(losses) / rows",
        "tf.math.divide_no_nan(tf.reduce_sum(losses), tf.cast(tf.size(y), tf.float32)) / 2",
    )
    broken = start(ran, *files("means"), source=means)
    killed = start(ran, *files("killed"), source=killing(0))
    (status, _, errors), (killed_status, *_) = finish(broken, killed)
    assert status == 0, errors
    gaps = abs(losses(ran, "means") - losses(ran, "one"))
    assert gaps[: STEPS - 1].max() < 1e-4 and gaps[STEPS - 1] > 0.1  # of an epoch only the last
    assert killed_status == -signal.SIGKILL and end(ran, "killed")["epochs"] == 1

    two = start(ran, *files("killed"), "--resume")
    full = start(ran, *files("one"), "--devices", "1", "--resume")
    epoch = start(ran, *files("epoch"), "--steps", str(STEPS))
    (status, _, errors), (full_status, _, full_errors), (whole, *_) = finish(two, full, epoch)
    assert status == 0, errors
    assert whole == 0 and len(losses(ran, "epoch")) == STEPS and end(ran, "epoch")["epochs"] == 1
    assert len(losses(ran, "killed")) == 2 * STEPS and gap(ran, "killed", "two") == 0
    assert full_status == 2 and "traceback" not in full_errors.lower()
    assert "one.npz holds 3 epochs already. Ask for more with --epochs." in full_errors


def test_on_two_hosts_a_killed_worker_ends_the_other_and_both_go_on_from_the_checkpoint(ran):
    skip_without_two_hosts()

    def workers(two, *options: str, source: str = SOURCE) -> list[subprocess.Popen]:
        cluster = {"worker": [f"{host.address}:12345" for host in two]}
        configs = [
            json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
            for index in range(2)
        ]
        return [
            start(ran, *options, source=source, prefix=host.prefix, TF_CONFIG=config)
            for host, config in zip(two, configs, strict=True)
        ]

    (ran / "killed").unlink(missing_ok=True)
    with hosts.two_hosts() as two:
        first, second = finish(*workers(two, *files("hosts"), source=killing(1)))
    assert (first[0], second[0]) == (1, -signal.SIGKILL)
    # Killed between two steps it is missed by its silence, within a step by its broken connection.
    silence = "The following tasks are unhealthy (stopped sending heartbeats)"
    assert silence in first[2] or "Collective ops is aborted by: " in first[2]
    assert first[2].splitlines()[-1] == (
        "Another worker is gone. Start all of them again, with --resume."
    )
    assert "Traceback" not in first[2] and end(ran, "hosts")["epochs"] == 1
    with hosts.two_hosts() as two:
        first, second = finish(*workers(two, *files("hosts"), "--resume"))
    assert (first[0], second[0]) == (0, 0), first[2] + second[2]
    assert first[1].startswith("devices in all: 2; here: CPU:0 (simulated)\nepoch 2 of 3")
    assert second[1] == "", "only the first worker prints"
    assert len(losses(ran, "hosts")) == 2 * STEPS and gap(ran, "hosts", "one") < 1e-6


FIT = """
import tensorflow as tf
from tensorflow import keras

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    net = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    net.compile("sgd", "mse")
net.fit(tf.ones([8, 3]), tf.ones([8, 2]), batch_size=4, shuffle=False, verbose=0)
"""


def test_a_worker_alone_waits_sigterm_does_not_end_it_and_fit_fails(tmp_path):
    """Three rows in the table of traps."""
    skip_without("tensorflow")
    addresses = [f"127.0.0.1:{hosts.free_port()}" for _ in range(2)]
    first, second = (
        {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": task})}
        for task in ({"type": "worker", "index": index} for index in range(2))
    )
    log = tmp_path / "log"
    with log.open("w") as errors:
        alone = start(tmp_path, source=FIT, errors=errors, TF_CPP_MIN_LOG_LEVEL="0", **first)
    wait_for("Waiting for 1/2 tasks to connect", log)
    alone.terminate()
    wait_for("SIGTERM caught", log)
    other = start(tmp_path, source=FIT, **second)
    (status, *_), (other_status, _, told) = finish(alone, other)
    assert (status, other_status) == (1, 1), "ended by themselves, with the error of fit"
    for errors in (log.read_text(), told):
        assert "ValueError: Attempt to convert a value (PerReplica:" in errors


def test_a_port_that_is_taken_is_told(tmp_path):
    skip_without("tensorflow")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        worker = f"127.0.0.1:{taken.getsockname()[1]}"
        cluster = {"cluster": {"worker": [worker]}, "task": {"type": "worker", "index": 0}}
        ((status, told, errors),) = finish(start(tmp_path, TF_CONFIG=json.dumps(cluster)))
    assert (status, told) == (2, "") and "Traceback" not in errors
    assert errors.splitlines()[-1] == (
        "script_0.py: Could not start gRPC server. Is the port in TF_CONFIG taken, by a worker of "
        "yesterday?"
    )


# Two commands of Slurm as far as the lines of the notebook need them: two hosts, a process on each.
SLURM = {
    "scontrol": "printf 'node1\\nnode2\\n'",
    "srun": 'shift; SLURM_PROCID=0 "$@"; SLURM_PROCID=1 "$@"',
    "python": 'echo "$TF_CONFIG" | tr -d "\\n"; echo',
}


def test_the_lines_for_slurm_tell_each_worker_its_place(tmp_path):
    cells = {cell.id: cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells}
    lines = cells["s10-slurm"].split("```sh\n")[1].split("```")[0]
    for name, does in SLURM.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ran = subprocess.run(["sh", "-c", lines], env=path, capture_output=True, text=True, check=True)
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [each["task"] for each in told] == [{"type": "worker", "index": i} for i in range(2)]
    assert all(each["cluster"] == {"worker": ["node1:12345", "node2:12345"]} for each in told)


def wait_for(words: str, log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while words not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def test_help_names_every_option_and_two_command_lines(tmp_path):
    ((status, told, errors),) = finish(start(tmp_path, "--help"))
    assert (status, errors) == (0, "")
    options = ["epochs", "batch", "lr", "seed", "devices", "steps", "checkpoint", "resume", "data"]
    assert all(f"--{option}" in told for option in options)
    assert told.count("python train_tensorflow.py") == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--epochs", "0"], "--epochs must be above 0, not 0."),
        (["--lr", "-1"], "--lr must be above 0, not -1.0."),
        (["--lr", "nan"], "--lr must be above 0, not nan."),
        (["--seed", "-1"], "--seed must not be below 0, but is -1."),
        (["--checkpoint", "."], ". is a folder: name a file in it."),
        (["--resume"], "--resume needs --checkpoint FILE, the file to go on from."),
        (["--losses", "none/a.json"], "There is no folder none to write a.json into."),
    ],
)
def test_a_wrong_option_gets_a_sentence(options, sentence, tmp_path):
    ((status, told, errors),) = finish(start(tmp_path, *options))
    assert (status, told) == (2, "") and errors == f"script_0.py: {sentence}\n"


# Each mistake that needs TensorFlow, in one process: an exit status and a sentence, one a line.
MISTAKES = """
import os, sys
import numpy as np
import tensorflow as tf
import script
script.tf = tf

def told(work, *arguments):
    try:
        work(*arguments)
    except SystemExit as ended:
        print(ended.code, file=sys.stderr)
    except RuntimeError as error:
        print("script.py:", error, file=sys.stderr)
    else:
        print("nothing", file=sys.stderr)

strategy, make_strategy = script.make_strategy(2), script.make_strategy
script.make_strategy = lambda wanted: strategy  # a process can have one
given = sys.argv[1:]
sys.argv[1:] = ["--batch", "1", "--data", given.pop(0)]
told(script.main, script.options())
variables = {"weights/0": tf.Variable(tf.ones([2, 3]))}
script.save(script.Path("good.npz"), variables, 4)
whole = open("good.npz", "rb").read()
middle = whole.index(np.ones(6, np.float32).tobytes())
open("byte.npz", "wb").write(whole[:middle] + b"x" + whole[middle + 1:])
open("cut.npz", "wb").write(whole[: len(whole) // 2])
open("empty.npz", "wb").close()
open("text.npz", "w").write("step 4")
script.save(script.Path("other.npz"), {"weights/0": tf.Variable(tf.ones([2, 4]))}, 4)
for name in given:
    told(script.load, script.Path(f"{name}.npz"), variables)
    assert (variables["weights/0"].numpy() == 1).all()
told(script.load_images, script.Path("good.npz"))
told(script.load_images, script.Path("missing.npz"))
open("helpers.py", "w").write("raise ImportError")
told(script.load_images, None)
task = '{"cluster": {"worker": ["127.0.0.1:1"]}, "task": {%s}}'
first = task % '"type": "worker", "index": 0'
for cluster in ("{", "{}", first.replace("0}", "1}"), task % '"index": 0'):
    os.environ["TF_CONFIG"] = cluster
    told(make_strategy, None)
told(make_strategy, 2)
os.environ["TF_CONFIG"] = first
told(make_strategy, None)  # an operation has run long ago: a row in the table of traps
"""


def test_each_bad_file_gets_a_sentence_and_changes_nothing(tmp_path):
    skip_without("tensorflow")
    (tmp_path / "script.py").write_text(SOURCE, encoding="utf-8")
    names = ["good", "missing", "byte", "cut", "empty", "text", "other"]
    ((status, _, errors),) = finish(start(tmp_path, str(IMAGES), *names, source=MISTAKES))
    assert status == 0, errors
    lines = [
        line for line in errors.splitlines() if "script.py:" in line or line in ("2", "nothing")
    ]
    damaged = "is damaged or of another kind. Take the one before it."
    no_data = "is no .npz file with train_images"
    no_cluster = "TF_CONFIG must be JSON: the workers of the cluster, type and index of this one."
    sentences = [
        "A global batch of 1 cannot be split over 2 devices.",
        "There is no checkpoint missing.npz. Look at its name, or leave --resume out.",
        *(f"The checkpoint {name}.npz {damaged}" for name in ["byte", "cut", "empty", "text"]),
        "The checkpoint other.npz is of another network.",
        *(f"--data {name}.npz {no_data}" for name in ["good", "missing"]),
        "No images: name a file with --data",
        *[no_cluster] * 4,
        "--devices 2, but TensorFlow can use 1 here.",
    ]
    wanted = [line for sentence in sentences for line in (f"script.py: {sentence}", "2")]
    wanted.insert(2, "nothing")  # the good checkpoint comes first of the files
    wanted.append("script.py: Collective ops must be configured at program startup")
    assert len(lines) == len(wanted), errors
    for line, beginning in zip(lines, wanted, strict=True):
        assert line.startswith(beginning)
