"""The script of the notebook *PyTorch, further*, from a terminal in a folder of its own: one
process and two give the same training, each mistake one sentence, a killed run goes on."""

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from chapter_kernel import ChapterKernel
from needs import skip_without, skip_without_two_hosts
from processes import processes_with

from helpers import hosts

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "notebooks" / "scripts" / "train_pytorch.py"
IMAGES = ROOT / "helpers" / "data" / "fashion_mnist.npz"
SOURCE = SCRIPT.read_text(encoding="utf-8")
MARK = "TEST_FURTHER_PYTORCH"  # all processes of these tests carry it
PYTHON = [sys.executable]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
TWO = [*TORCHRUN, "--nproc-per-node", "2"]
SECONDS = 200

# 4,096 rows in batches of 99: shares of 50 and 49, in the last batch of 37 of 19 and 18.
OPTIONS = ["--batch", "99", "--epochs", "3"]

# One process, once, stops in the middle of the second epoch, with steps 1 to 42 saved.
STOP = """
    steps = train_step.steps = getattr(train_step, "steps", 0) + 1
    if RANK == {rank} and steps == 60 and not Path("{stopped}").exists():
        Path("{stopped}").touch()
        {how}
"""


def environment() -> dict[str, str]:
    settings = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", MARK: str(os.getpid())}
    return os.environ | settings


def run(folder: Path, *commands: list[str]) -> list[subprocess.CompletedProcess]:
    """Run these commands side by side in the folder; whatever happens, none outlives the call."""
    folder.mkdir(exist_ok=True)
    place = {"cwd": folder, "env": environment(), "text": True}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    started = [subprocess.Popen(command, **place, **pipes) for command in commands]
    try:
        outputs = [process.communicate(timeout=SECONDS) for process in started]
    finally:
        left = processes_with(MARK, str(os.getpid()))
        for process in left:
            process.kill()
    assert left == []
    return [
        subprocess.CompletedProcess(process.args, process.returncode, *output)
        for process, output in zip(started, outputs, strict=True)
    ]


def script(folder: Path, name: str, *options: str, source: str = SOURCE) -> list[str]:
    """A copy of the script in this folder; losses and checkpoint get this name."""
    folder.mkdir(exist_ok=True)
    copy = folder / f"{name}.py"
    copy.write_text(source, encoding="utf-8")
    files = ["--losses", f"{name}.json", "--checkpoint", f"{name}.pt"]
    return [str(copy), *OPTIONS, *files, *options]


def changed(old: str, new: str) -> str:
    assert SOURCE.count(old) == 1
    return SOURCE.replace(old, new)


def stopping(rank: int, stopped: Path, how: str) -> str:
    line = "    optimizer.step()\n"
    return changed(line, line + STOP.format(rank=rank, stopped=stopped, how=how))


def losses(folder: Path, name: str) -> np.ndarray:
    return np.array(json.loads((folder / f"{name}.json").read_text()))


def end(folder: Path, name: str) -> np.ndarray:
    """All numbers of a checkpoint, which is a zip file: weights and momenta."""
    with zipfile.ZipFile(folder / f"{name}.pt") as file:
        names = sorted(name for name in file.namelist() if "/data/" in name)
        return np.frombuffer(b"".join(map(file.read, names)), np.float32)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the unbroken training on one device."""
    skip_without("pytorch")
    folder = tmp_path_factory.mktemp("one")
    (ran,) = run(folder, [*PYTHON, *script(folder, "one")])
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "one only, CPU; for two: torchrun --nproc-per-node 2" in ran.stdout
    assert len(losses(folder, "one")) == 3 * 42
    return folder


def gaps(one: Path, folder: Path, name: str) -> tuple[float, float]:
    """The largest difference to the unbroken training: of the losses that both have, at the end."""
    mine, all_losses = losses(folder, name), losses(one, "one")
    gap = abs(mine - all_losses[-len(mine) :]).max()
    return gap, abs(end(folder, name) - end(one, "one")).max()


def test_two_devices_give_the_same_training(one, tmp_path):
    (ran,) = run(tmp_path, [*TWO, *script(tmp_path, "two", "--quiet")])
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("devices            2 x CPU, simulated") and "gloo" in ran.stdout
    assert "of 1,000 rows" in ran.stdout and ran.stdout.count("\n") == 5
    assert len(losses(tmp_path, "two")) == len(losses(one, "one"))
    assert max(gaps(one, tmp_path, "two")) < 1e-6


def test_a_mean_of_means_is_noticed(one, tmp_path):
    means = changed("    loss = loss / len(rows)\n", "    loss = loss / len(mine) / WORLD_SIZE\n")
    (ran,) = run(tmp_path, [*TWO, *script(tmp_path, "means", source=means)])
    assert ran.returncode == 0, ran.stderr
    assert min(gaps(one, tmp_path, "means")) > 1e-5


# Runs the script and says which threads of gloo are left when it has ended the group.
THREADS = r"""
import os, runpy, sys
del sys.argv[0]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    tasks = os.scandir("/proc/self/task")
    names = [open(os.path.join(task, "comm")).read().strip() for task in tasks]
    left = sorted(name for name in names if "gloo" in name)
    print(f"left: {left}\n", end="", flush=True)  # in one piece: two processes share the pipe
    os._exit(end.code)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the threads in /proc")
def test_no_thread_of_gloo_outlives_the_group(one, tmp_path):
    """Else it may abort the process: *terminate called without an active exception*."""
    line = "import torch.distributed.nn.functional\n"
    threads = tmp_path / "threads.py"
    threads.write_text(THREADS, encoding="utf-8")
    for name, source in (("right", SOURCE), ("without", changed(line, ""))):
        copy = script(tmp_path, name, "--steps", "1", "--quiet", source=source)
        (ran,) = run(tmp_path, [*TWO, str(threads), *copy])
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.count("left: ") == 2
        assert ran.stdout.count("left: []") == (2 if name == "right" else 0)


def test_killed_in_the_middle_it_goes_on_as_if_unbroken(one, tmp_path):
    asleep = stopping(0, tmp_path / "asleep", 'print("asleep", flush=True) or time.sleep(100)')
    command = [*PYTHON, *script(tmp_path, "killed", source=asleep)]
    place = {"cwd": tmp_path, "env": environment(), "text": True}
    with subprocess.Popen(command, stdout=subprocess.PIPE, **place) as process:
        assert "asleep\n" in process.stdout
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    (ran,) = run(tmp_path, [*PYTHON, *script(tmp_path, "killed", "--resume")])
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("going on after epoch 1\n")
    assert len(losses(tmp_path, "killed")) == 2 * 42
    assert gaps(one, tmp_path, "killed") == (0, 0)


def node(number: int, two: tuple[hosts.Host, hosts.Host]) -> list[str]:
    """What the notebook runs on one of two hosts, with one restart."""
    host, first = two[number], two[0]
    variables = [f"GLOO_SOCKET_IFNAME={host.interface}", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"]
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{first.address}:29400"]
    meeting += ["--local-addr", host.address, "--rdzv-conf", f"is_host={number == 0}"]
    size = ["--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "1"]
    return [*host.prefix, "env", *variables, *TORCHRUN, *size, *meeting]


def test_rank_0_of_two_hosts_is_killed_and_both_go_on(one, tmp_path):
    """Each host has a folder of its own: the second one never sees the checkpoint."""
    skip_without_two_hosts()
    killed = stopping(0, tmp_path / "killed", "os.kill(os.getpid(), 9)")
    folders = tmp_path / "first", tmp_path / "second"
    with hosts.two_hosts() as two:
        commands = []
        for number, folder in enumerate(folders):
            own = script(folder, "run", "--resume-if-there", source=killed)
            own = [option if "." not in option else str(folder / option) for option in own]
            commands.append([*node(number, two), *own])
        first, second = run(tmp_path, *commands)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    # The other worker fails at the broken connection, or torchrun ends it before.
    ended = ("by peer", "Broken pipe", "closing signal SIGTERM")
    assert "exitcode: -9" in first.stderr and any(how in second.stderr for how in ended)
    assert "going on after epoch 1\n" in first.stdout and second.stdout == ""
    assert [path.name for path in folders[1].iterdir()] == ["run.py"]
    assert max(gaps(one, folders[0], "run")) < 1e-6


# Runs scripts one after the other in one process, as the import of PyTorch takes seconds.
SEVERAL = """
import contextlib, io, json, runpy, sys
for sys.argv in json.loads(sys.argv[1]):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit as end:
            status = end.code
    print(json.dumps([status, said.getvalue()]))
"""

DAMAGED = "is damaged, or not a checkpoint of this script."
MISTAKES = {
    "--batch 0": "--batch must be above 0.",
    "--lr nan": "--lr must be above 0.",
    "--steps -1": "--steps must be above 0.",
    "--resume": "Which checkpoint? Give --checkpoint FILE as well.",
    "--checkpoint .": ". is a folder: name a file in it.",
    "--checkpoint no/run.pt": "The folder of no/run.pt is not there.",
    "--steps 1": "The package helpers is not here: give --data FILE.npz.",
    "--data no.npz": "no.npz is not there: check --data.",
    "--data text.npz": "text.npz does not hold images of 28 x 28 and their labels.",
    "--data small.npz": "small.npz does not hold images of 28 x 28 and their labels.",
    "--data images.npz --resume --checkpoint no.pt": "no.pt is not there: check --checkpoint, or "
    "begin without --resume.",
    "--data images.npz --resume --checkpoint text.npz": f"text.npz {DAMAGED}",
    "--data images.npz --resume --checkpoint cut.pt": f"cut.pt {DAMAGED}",
    "--data images.npz --resume --checkpoint bit.pt": f"bit.pt {DAMAGED}",
    "--data images.npz --resume --checkpoint other.pt": "other.pt is of another network.",
    "--data images.npz --resume --checkpoint good.pt": "good.pt was begun with --batch 99: go on "
    "with that.",
}
BEGIN = "--data images.npz --batch 4096 --epochs 1 --resume-if-there --checkpoint new.pt"
NOTHING_TO_DO = "--data images.npz --batch 99 --epochs 3 --resume --checkpoint good.pt"
FIVE_STEPS = "--data images.npz --batch 99 --steps 5 --losses five.json --checkpoint never.pt"


@pytest.fixture(scope="module")
def home(one: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the reader has it at home: the script and the images, without helpers."""
    folder = tmp_path_factory.mktemp("home")
    shutil.copy(IMAGES, folder / "images.npz")
    (folder / "helpers.py").write_text("raise ImportError")
    (folder / "text.npz").write_text("Dear diary")
    with np.load(IMAGES) as stored:
        np.savez(folder / "small.npz", **{name: stored[name][..., :9] for name in stored})
    good = (one / "one.pt").read_bytes()
    (folder / "good.pt").write_bytes(good)
    (folder / "cut.pt").write_bytes(good[:-1000])
    (folder / "bit.pt").write_bytes(good[:200_000] + bytes([good[200_000] ^ 1]) + good[200_001:])
    return folder


@pytest.fixture(scope="module")
def answers(home: Path) -> dict[str, tuple[int, str]]:
    """Exit status and words of the script after each of the options above."""
    (home / "train_pytorch.py").write_text(SOURCE, encoding="utf-8")
    narrow = changed("nn.Linear(784, 128), nn.ReLU(), nn.Linear(128,", "nn.Linear(784,")
    (home / "narrow.py").write_text(narrow, encoding="utf-8")
    first = BEGIN.replace("new.pt", "other.pt")
    options = [*MISTAKES, BEGIN, NOTHING_TO_DO, FIVE_STEPS, "--help"]
    calls = [["narrow.py", *first.split()]]
    calls += [["train_pytorch.py", *these.split()] for these in options]
    (ran,) = run(home, [*PYTHON, "-c", SEVERAL, json.dumps(calls)])
    assert ran.returncode == 0, ran.stderr
    (first_status, _), *others = map(json.loads, ran.stdout.splitlines())
    assert first_status == 0
    return dict(zip(options, others, strict=True))


@pytest.mark.parametrize("options", MISTAKES)
def test_a_mistake_is_told_in_one_sentence(options, answers):
    assert answers[options] == [2, f"train_pytorch.py: {MISTAKES[options]}\n"]


def test_at_home_without_the_package(one, home, answers):
    status, words = answers[FIVE_STEPS]
    assert status == 0 and words.startswith("devices ") and "epoch" not in words
    assert (losses(home, "five") == losses(one, "one")[:5]).all()
    assert not (home / "never.pt").exists()  # no epoch was whole


def test_begin_where_there_is_no_checkpoint_yet(home, answers):
    status, words = answers[BEGIN]
    assert status == 0 and words.startswith("epoch 1 of 1: loss ") and (home / "new.pt").exists()
    assert not (home / "new.pt.new").exists()


def test_nothing_left_to_do(answers):
    status, words = answers[NOTHING_TO_DO]
    assert status == 0 and "epoch 3 is done already\n" in words and "nothing was trained" in words


def test_help_tells_defaults_and_two_examples(answers):
    status, words = answers["--help"]
    assert status == 0 and "rows of the GLOBAL batch (128)" in words
    assert words.count("  torchrun --nproc-per-node 2 train_pytorch.py") == 2


def test_the_traps_of_the_notebook(tmp_path):
    """A mistake under torchrun; a meeting place that no host opens (one second, not sixty)."""
    skip_without("pytorch")
    copy = script(tmp_path, "train", "--batch", "1")
    nobody = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:1"]
    alone = [*TORCHRUN, *nobody, "--rdzv-conf", "is_host=false,read_timeout=1", *copy]
    small, unmet = run(tmp_path, [*TWO, *copy, "--batch", "1"], alone)
    assert (small.returncode, unmet.returncode) == (1, 1)
    sentence = "train.py: --batch 1 is too small: 2 devices need a row each.\n"
    assert 0 <= small.stderr.find(sentence) < small.stderr.find("ChildFailedError")
    assert "Error: The connection to the C10d store has failed" in unmet.stderr


def test_run_of_the_notebook_leaves_no_process_behind(monkeypatch):
    monkeypatch.setenv(MARK, "kernel")
    child = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; "
    child += "time.sleep(600)']); time.sleep(600)"
    with ChapterKernel("03_pytorch_further") as kernel:
        kernel.execute("from helpers import devices\nclass pair: simulated = True")
        kernel.execute("from pathlib import Path; source = ''")
        kernel.run("s10-folder", "s10-end-define", "s10-output-define", "s10-run-define")
        told = kernel.execute(f"print(run([sys.executable, '-c', {child!r}], limit=3))")
        assert told == "([-9], [''])\n"
        assert len(processes_with(MARK, "kernel")) == 1  # the kernel
