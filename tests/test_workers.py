"""The two worker processes: what each is told, and that nothing of them is ever left behind."""

import os
import signal
import time
import uuid
from collections.abc import Iterator

import pytest
from jupyter_client.manager import start_new_kernel
from processes import processes_with

from helpers import workers

MARK = "TEST_WORKERS_MARK"  # each kernel has a value of its own, and all its processes inherit it

START = """
from helpers import devices, workers
workers.start(devices.Pair("pytorch", ("process 0", "process 1"), True, "simulated"))
"""
HANG = "%%px\nimport time\nprint('begun', flush=True)\ntime.sleep(600)"


class Notebook:
    """A kernel without a front end: runs cells, returns their text."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        self.manager, self.client = start_new_kernel(env=os.environ | {MARK: self.mark})

    @property
    def pid(self) -> int:
        return self.manager.provisioner.pid

    def run(self, code: str, seconds: float = 60) -> str:
        texts = []

        def collect(message: dict) -> None:
            content = message["content"]
            texts.append(content.get("text") or content.get("data", {}).get("text/plain") or "")
            if message["msg_type"] == "error":
                texts.append("\n".join(content["traceback"]))

        reply = self.client.execute_interactive(code, timeout=seconds, output_hook=collect)
        if reply["content"]["status"] == "aborted":
            # The cell came while an interrupted one was still ending, and was dropped.
            return self.run(code, seconds)
        return "".join(texts)

    def send(self, code: str) -> None:
        self.client.execute(code)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def left(self) -> list[str]:
        """Command lines of the processes that the kernel has started and that still run."""
        return [
            " ".join(process.cmdline()[:4])
            for process in processes_with(MARK, self.mark)
            if process.pid != self.pid
        ]

    def left_in_the_end(self, seconds: float = 10) -> list[str]:
        """What is still left after ``seconds``; the answer comes as soon as nothing is."""
        deadline = time.monotonic() + seconds
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.left()


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    notebook = Notebook()
    yield notebook
    notebook.close()
    assert notebook.left_in_the_end() == []


def test_each_worker_knows_its_place_and_stop_ends_both(notebook):
    assert "worker 1 of 2: CPU, simulated device 1" in notebook.run(START)
    told = notebook.run(
        "%%px\nimport os, sys\n"
        "names = 'RANK WORLD_SIZE MASTER_ADDR CUDA_VISIBLE_DEVICES OMP_NUM_THREADS'.split()\n"
        "print([os.environ[name] for name in names], 'torch' in sys.modules)"
    )
    assert "[stdout:0] \n['0', '2', '127.0.0.1', '', '1'] False" in told
    assert "[stdout:1] \n['1', '2', '127.0.0.1', '', '1'] False" in told
    ports = notebook.run("%%px\nprint(os.environ['MASTER_PORT'])").splitlines()
    assert ports[1] == ports[3]

    first = notebook.left()
    notebook.run(START)
    assert len(notebook.left()) == len(first), "the second start must replace the first pair"

    assert "ZeroDivisionError" in notebook.run("%%px\n1 / 0")
    assert "[stdout:1] \nalive" in notebook.run("%%px\nprint('alive')"), (
        "an error must not end them"
    )

    notebook.run("workers.stop()")
    assert notebook.left() == []
    assert "workers.start(...) again" in notebook.run("%%px\nprint('hello')")


def test_interrupt_ends_both_and_says_so(notebook):
    notebook.run(START)
    notebook.send(HANG)
    time.sleep(2)
    notebook.manager.interrupt_kernel()
    assert notebook.left_in_the_end() == []
    assert "workers.start(...) again" in notebook.run("%%px\nprint('hello')")
    assert "worker 0 of 2" in notebook.run(START)


@pytest.mark.parametrize("seconds", [0.5, 3])
def test_interrupt_of_the_start_leaves_nothing(notebook, seconds):
    notebook.run("from helpers import devices, workers")
    notebook.send(START)
    time.sleep(seconds)
    notebook.manager.interrupt_kernel()
    assert notebook.run("print(workers._running)") == "None\n"
    assert notebook.left_in_the_end() == []


def test_restart_of_the_kernel_leaves_nothing(notebook):
    notebook.run(START)
    assert notebook.left()
    notebook.manager.restart_kernel()
    assert notebook.left_in_the_end() == []


def test_killed_kernel_leaves_nothing(notebook):
    notebook.run(START)
    # A child that the kernel has forked keeps the kernel's open pipes open for a while.
    notebook.run("import os, time\nif os.fork() == 0:\n    time.sleep(20)\n    os._exit(0)")
    notebook.send(HANG)
    time.sleep(2)
    os.kill(notebook.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any("ipyparallel" in command for command in notebook.left()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    notebook.left_in_the_end(20)  # the forked child


def test_stop_does_the_work_of_a_killed_watcher(notebook):
    notebook.run(START)
    notebook.run("workers._running.watcher.process.kill()\nworkers.stop()")
    assert notebook.left_in_the_end() == []


def test_a_watcher_that_does_not_start_is_no_start(notebook):
    broken = START.replace("workers.start", "workers.sys.executable = '/bin/true'\nworkers.start")
    assert "did not start: their watcher did not start" in notebook.run(broken)
    assert notebook.left_in_the_end() == []


def test_a_dead_worker_ends_both_and_is_said(notebook):
    notebook.run(START)
    notebook.run("%%px --targets 0\nimport os\nos._exit(3)")
    assert "A worker has died, so both were ended" in notebook.run("workers._running['x']")
    assert notebook.left_in_the_end() == []


def test_only_a_pair_can_be_started():
    with pytest.raises(TypeError, match=r"what devices\.pair returns"):
        workers.start(("cuda:0", "cuda:1"))


def test_failed_start_leaves_nothing_and_says_what_to_do(notebook):
    broken = START.replace("workers.start", "workers._settings = None\nworkers.start")
    assert "did not start" in notebook.run(broken)
    assert notebook.left_in_the_end() == []
