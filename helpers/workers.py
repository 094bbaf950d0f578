"""Two worker processes, one per device, driven from the notebook by ``%%px`` (ipyparallel).

    pair = devices.pair("pytorch")
    workers.start(pair)
    %%px
    ...runs on both workers...
    workers.stop()

Every process of the workers carries one mark in its environment. A small watcher process waits
until the notebook's kernel is done with them, however that comes about (``stop``, an error, a
restart, a kill), and ends each process that carries the mark. So nothing is ever left behind.
"""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psutil

from helpers.devices import DeviceError, Pair, visible
from helpers.hosts import LOOPBACK, free_port

_MARK = "HELPERS_WORKERS_MARK"
_SECONDS_FOR_A_STEP = 60  # of the start: a busy machine needs ten for the slowest one
START_AGAIN = "Run the cell with workers.start(...) again, then the cells after it."

_running: "Workers | None" = None


class _Watcher:
    """A small process that ends the workers once this kernel is done with them, or is gone."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(16)
        self.folder = tempfile.mkdtemp(prefix="workers-")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "helpers.workers", self.mark, self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # an interrupt of the kernel must not reach it
        )
        if self.process.stdout.readline() != b"ready\n":
            raise DeviceError("their watcher did not start")

    def end(self) -> None:
        """Have everything ended, and wait for it; where the watcher was killed, do its work."""
        self.process.stdin.close()
        if self.process.wait(timeout=30) != 0:
            _end_all(self.mark)
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class Workers:
    """Two running workers: ``client`` is the ipyparallel client, ``table`` says who works where.

    ``team["name"]`` fetches the variable ``name`` of both workers, as a list ordered by rank.
    """

    client: Any
    watcher: _Watcher
    processes: list[psutil.Process]
    table: str

    def __getitem__(self, name: str) -> list[Any]:
        _need_both()
        values = self.client[:].pull(name, block=True)
        self.client.purge_local_results("all")  # else the client keeps a second copy for good
        return values

    def __repr__(self) -> str:
        return self.table


def start(pair: Pair) -> Workers:
    """Start two worker processes, one per device of ``pair``, and route ``%%px`` to them.

    Set in each worker before it imports any framework: RANK, LOCAL_RANK and WORLD_SIZE (the names
    torchrun uses), INIT_METHOD, where PyTorch's processes meet, OMP_NUM_THREADS=1,
    CUDA_VISIBLE_DEVICES, so that it sees its own device only, and the loopback interface for gloo
    and NCCL. Workers that are already running are replaced. Raises DeviceError when they do not
    come up; nothing is left then.
    """
    global _running
    import ipyparallel
    from traitlets.config import Config

    if not isinstance(pair, Pair):
        raise TypeError(f"workers.start takes what devices.pair returns, not {pair!r}.")
    stop()
    watcher = None
    try:
        watcher = _Watcher()
        config = Config()
        # The seconds in which it must be registered; 5 are short on a busy machine.
        config.EngineLauncher.engine_args = [f"--IPEngine.timeout={_SECONDS_FOR_A_STEP}"]
        config.BaseLauncher.environment = {_MARK: watcher.mark, "OMP_NUM_THREADS": "1"}
        cluster = ipyparallel.Cluster(
            n=2,
            controller_ip="127.0.0.1",
            # Without nodb it keeps a copy of everything that is fetched; it takes 18 ports.
            controller_args=["--nodb", f"--ports={','.join(str(free_port()) for _ in range(18))}"],
            profile_dir=watcher.folder,
            load_profile=False,
            config=config,
            delay=0,
            shutdown_atexit=False,  # the watcher does it, also after a kill
            log_level=50,
        )
        cluster.start_cluster_sync()
        client = cluster.connect_client_sync(timeout=_SECONDS_FOR_A_STEP)
        _wait_until(lambda: len(client.ids) == 2, cluster)
        cards = enumerate(visible(pair))
        settings = [_settings(rank, card, watcher.folder) for rank, card in cards]
        adopted = [client[rank].apply_async(_adopt, own) for rank, own in enumerate(settings)]
        _wait_until(lambda: all(answer.ready() for answer in adopted), cluster)
        processes = [psutil.Process(answer.get()) for answer in adopted]
    except BaseException as error:
        if watcher is not None:
            watcher.end()
        if isinstance(error, Exception):
            told = f"The two workers did not start: {error}. Run this cell again."
            raise DeviceError(told) from error
        raise
    places = (
        pair.devices
        if not pair.simulated
        else ("CPU, simulated device 0", "CPU, simulated device 1")
    )
    table = "\n".join(f"worker {rank} of 2: {place}" for rank, place in enumerate(places))
    _running = Workers(client, watcher, processes, table)
    _route_px(client)
    return _running


def stop() -> None:
    """End the workers, if there are any, and wait until every process of theirs is gone."""
    global _running
    if _running is not None:
        workers, _running = _running, None
        workers.client.close()
        workers.watcher.end()


def alive() -> int:
    """How many workers are running."""
    return len(_running.client.ids) if _running is not None else 0


def interrupted() -> DeviceError:
    """End the workers after an interrupt: one of them may be waiting for ever for the other.

    Returns the error to raise.
    """
    stop()
    return DeviceError(f"Interrupted, so both workers were ended. {START_AGAIN}")


def _need_both() -> None:
    """Raise DeviceError unless both workers are there; a single one is of no use and is ended."""
    if _running is None:
        raise DeviceError(f"The two workers are not running. {START_AGAIN}")
    if alive() != 2:
        stop()
        raise DeviceError(f"A worker has died, so both were ended. {START_AGAIN}")


@contextlib.contextmanager
def _together() -> Iterator[None]:
    """While a cell runs: when one worker dies, give the other five seconds, then end it too.

    It may be waiting for a message that never comes, and the notebook would wait for it.
    """
    over, processes = threading.Event(), _running.processes

    def watch() -> None:
        while not over.wait(0.5):
            if not all(process.is_running() for process in processes) and not over.wait(5):
                for process in processes:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
                return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


def _wait_until(ready: Callable[[], bool], cluster: Any) -> None:
    """Wait for a step of the start, at most a minute. Raises DeviceError as soon as the controller
    or a worker has ended: ipyparallel would wait on."""
    deadline = time.monotonic() + _SECONDS_FOR_A_STEP
    while not ready():
        (workers,) = (engines.launchers.values() for engines in cluster.engines.values())
        if not cluster.controller.process.is_running():
            raise DeviceError("their controller, a process that passes messages, has ended")
        if sum(worker.process.is_running() for worker in workers) < 2:
            raise DeviceError("a worker has ended")
        if time.monotonic() > deadline:
            raise DeviceError(f"no answer within {_SECONDS_FOR_A_STEP} seconds")
        time.sleep(0.05)


def _settings(rank: int, visible_device: str, folder: str) -> dict[str, str]:
    loopback = LOOPBACK[0].interface
    if not loopback:
        raise DeviceError("This machine has no loopback network interface: workers cannot talk.")
    return {
        "RANK": str(rank),
        "LOCAL_RANK": "0",  # each worker sees one device, and that one is number 0
        "WORLD_SIZE": "2",
        # A file that only this user can open. The usual port would be open to the whole network
        # (PyTorch's TCPStore listens on all interfaces), and might be taken.
        "INIT_METHOD": f"file://{folder}/meeting",
        "GLOO_SOCKET_IFNAME": loopback,
        "NCCL_SOCKET_IFNAME": loopback,
        "CUDA_VISIBLE_DEVICES": visible_device,
    }


def _adopt(settings: dict[str, str]) -> int:
    """Run in a worker: take over its settings, before any cell of its own; return its process."""
    os.environ.update(settings)
    return os.getpid()


def _route_px(client: Any) -> None:
    """Make ``%%px`` of the running notebook reach the workers; outside a notebook do nothing."""
    from ipyparallel.client.magics import ParallelMagics
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        return
    view = client[:]
    view.block = True
    magics = ParallelMagics(shell, view)
    magics.stream_output = False  # output comes after the run, ordered by rank
    magics.progress_after_seconds = -1  # no progress bar
    magics.signal_on_interrupt = None  # px, below, deals with an interrupt
    shell.register_magics(magics)
    run_on_both = shell.find_cell_magic("px")

    def px(line: str, cell: str) -> Any:
        _need_both()
        try:
            with _together():
                return run_on_both(line, cell)
        except BaseException as error:
            # ipyparallel may hide the interrupt behind an error of its own, as that error's context
            if KeyboardInterrupt in (type(error), type(error.__context__)):
                raise interrupted() from None
            if alive() == 2:
                raise
        _need_both()

    shell.register_magic_function(px, "cell", "px")


def _watch(mark: str, folder: str) -> None:
    """Wait until standard input ends (stop() or the kernel's death), then end all workers."""
    for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, signal.SIG_IGN)
    ended, parent = threading.Event(), os.getppid()
    threading.Thread(target=lambda: (os.read(0, 1), ended.set()), daemon=True).start()
    print("ready", flush=True)
    # The pipe alone would not do: a process that the kernel has forked can hold it open.
    while not ended.wait(0.5) and os.getppid() == parent:
        pass
    _end_all(mark)
    shutil.rmtree(folder, ignore_errors=True)


def _end_all(mark: str) -> None:
    """End every process that carries ``mark``."""
    quiet_rounds = 0
    while quiet_rounds < 2:  # a second look catches a process born during the first
        marked = [process for process in psutil.process_iter() if _carries(process, mark)]
        for process in marked:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(marked, timeout=1)
        quiet_rounds = 0 if marked else quiet_rounds + 1
        time.sleep(0.05)


def _carries(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(_MARK) == mark
    except (psutil.Error, OSError):  # gone meanwhile, a zombie, or another user's
        return False


if __name__ == "__main__":
    _watch(sys.argv[1], sys.argv[2])
