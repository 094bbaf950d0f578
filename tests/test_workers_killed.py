"""Starts of the workers, each with a kill at a random moment: nothing is left behind.

Each takes some seconds, so only a few run each time. More:
``RANDOM_KILLS=20 make test ARGS=tests/test_workers_killed.py``
"""

import contextlib
import os
import random
import time

import psutil
import pytest
from processes import processes_with
from worker_kernel import MARK, START


@pytest.mark.parametrize("seed", range(int(os.environ.get("RANDOM_KILLS", "2"))))
def test_nothing_is_left_after_a_random_kill(notebook, seed):
    chance = random.Random(seed)
    notebook.run("from helpers import devices, workers")
    notebook.send(START)
    time.sleep(chance.uniform(0, 8))  # a start takes about five seconds
    running = sorted(processes_with(MARK, notebook.mark), key=lambda process: process.pid)
    victim = chance.choice(running)
    with contextlib.suppress(psutil.NoSuchProcess):
        victim.kill()
    if victim.pid == notebook.pid:
        assert notebook.left_in_the_end() == []
        return
    # Whatever was hit, the reader gets on: the kernel answers, the next start works.
    assert "worker 1 of 2" in notebook.run(START, seconds=300)
    notebook.run("workers.stop()")
    assert notebook.left_in_the_end() == []
