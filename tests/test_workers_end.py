"""Nothing of the two worker processes is left behind, however their end comes about."""

import os
import signal
import time

import pytest
from needs import skip_without
from worker_kernel import HANG, JOIN, START


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
    told = notebook.run(
        "import time\nteam = workers._running\nteam.processes[0].kill()\n"
        "while workers.alive() == 2: time.sleep(0.1)\nteam['x']"
    )
    assert "A worker has died, so both were ended" in told
    assert notebook.left_in_the_end() == []


@pytest.mark.parametrize(
    "endless",
    ["while True:\n    dist.all_reduce(toy)", "import time\ntime.sleep(600)"],
    ids=["in an all-reduce", "while the other waits for something else"],
)
def test_a_worker_killed_in_the_middle_of_a_cell_is_said(notebook, endless):
    skip_without("pytorch")
    notebook.run(START)
    notebook.run(JOIN)
    notebook.run(
        "import os, threading\n"
        "one = workers._running.processes[1].pid\n"
        "threading.Timer(1, os.kill, (one, 9)).start()"
    )
    # Told long before the group's own limit of 60 seconds, and before the 600 of the endless job.
    told = notebook.run(f"%%px\n{endless}", seconds=45)
    assert "A worker has died, so both were ended" in told
    assert notebook.left_in_the_end() == []
