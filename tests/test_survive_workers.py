"""A process that ends while the workers start: it is said at once, and the next start works."""

import threading
import time

import psutil
import pytest
from worker_kernel import PAIR

from helpers import workers
from helpers.devices import DeviceError


def kill_while_starting(program: str) -> threading.Thread:
    """Kill the process of this ipyparallel program a second after the first worker is there."""

    def started(name: str) -> list[psutil.Process]:
        return [p for p in psutil.Process().children() if name in p.cmdline()]

    def watch() -> None:
        while not started("ipyparallel.engine"):
            time.sleep(0.05)
        time.sleep(1)
        started(program)[0].kill()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("ipyparallel.controller", "their controller, a process that passes messages, has ended"),
        ("ipyparallel.engine", "a worker has ended"),
    ],
)
def test_it_is_said_at_once(program, told):
    """Without that the sentence would come after a minute, and be "no answer within 60 seconds"."""
    killing = kill_while_starting(program)
    with pytest.raises(DeviceError, match=rf"did not start: {told}\. Run this cell again\."):
        workers.start(PAIR)
    killing.join()
    assert psutil.wait_procs(psutil.Process().children(), timeout=30)[1] == []
    assert "worker 1 of 2" in repr(workers.start(PAIR))
    workers.stop()
    assert psutil.wait_procs(psutil.Process().children(), timeout=30)[1] == []
