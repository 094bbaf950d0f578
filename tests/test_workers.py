"""The two worker processes: what each is told, and what an error or an interrupt does."""

import time

import pytest
from worker_kernel import HANG, START

from helpers import workers


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


def test_only_a_pair_can_be_started():
    with pytest.raises(TypeError, match=r"what devices\.pair returns"):
        workers.start(("cuda:0", "cuda:1"))


def test_failed_start_leaves_nothing_and_says_what_to_do(notebook):
    broken = START.replace("workers.start", "workers._settings = None\nworkers.start")
    assert "did not start" in notebook.run(broken)
    assert notebook.left_in_the_end() == []
