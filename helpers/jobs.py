"""Jobs in the two worker processes: where and when each ran, what it returned or how it failed.

    view = team.client.load_balanced_view()
    tasks = [view.apply_async(jobs.run, train, rate) for rate in rates]
    done = jobs.collect(tasks)

ipyparallel's scheduler gives each worker one job at a time, and a free worker the next one.
"""

import contextlib
import faulthandler
import linecache
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from helpers import workers
from helpers.timeline import Span

_GRACE = 5  # seconds that a job gets to end after its time is over, before its process is ended


class Done(NamedTuple):
    """One finished job: ``value`` is what it returned, None if it failed; ``error`` is how it
    failed, with its own traceback, "" if it did not; ``span`` where and when it ran."""

    value: Any
    error: str
    span: Span


class _Failed(NamedTuple):
    """What a worker tells of a failure: the kernel knows the source lines, the worker does not."""

    frames: list[tuple[str, int, str]]
    reason: str


def run(function: Callable[..., Any], *arguments: Any, limit: float | None = None) -> Done:
    """Run one job in a worker and note its device and time. What it raises becomes ``error``.

    After ``limit`` seconds it gets a TimeoutError; if that does not end it (it hangs in compiled
    code), its process is ended five seconds later. Windows has no such alarm: there the process is
    ended at once.
    """
    label = " ".join([function.__name__, *map(str, arguments)])
    value, error = None, ""
    start = time.perf_counter()
    try:
        with _ended_after(limit):
            value = function(*arguments)
    except Exception as problem:
        entries = traceback.extract_tb(problem.__traceback__)
        # Without the lines of this file: they are not the job's.
        frames = [(e.filename, e.lineno, e.name) for e in entries if e.filename != __file__]
        reason = "".join(traceback.format_exception_only(problem)).strip()
        error = _Failed(frames, reason)
    device = f"device {os.environ['RANK']}"
    return Done(value, error, Span(device, label, start, time.perf_counter()))


@contextlib.contextmanager
def _ended_after(limit: float | None) -> Iterator[None]:
    if limit is None:
        yield
        return

    def time_over(*_: Any) -> None:
        raise TimeoutError(f"the job was ended after its {limit:g} seconds")

    alarm = hasattr(signal, "SIGALRM")
    if alarm:
        before = signal.signal(signal.SIGALRM, time_over)
        signal.setitimer(signal.ITIMER_REAL, limit)
    # This one needs neither Python's lock nor a line of Python to be reached.
    last = limit + _GRACE if alarm else limit
    faulthandler.dump_traceback_later(last, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        if alarm:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def collect(tasks: Sequence[Any]) -> list[Done]:
    """Wait for all jobs and return them in the order of ``tasks``, whichever was ready first.

    A job whose worker died has that as its error, and so have jobs that found no worker any more.
    An interrupt ends the workers; after it, another ``collect`` returns what was ready.
    """
    try:
        while not all(task.ready() for task in tasks) and workers.alive():
            time.sleep(0.05)
    except KeyboardInterrupt:
        raise workers.interrupted() from None
    return [_done(task) for task in tasks]


def _done(task: Any) -> Done:
    import ipyparallel

    nowhere = Span("no device", "", 0.0, 0.0)
    if not task.ready():
        return Done(None, f"Not run to its end: no worker is left. {workers.START_AGAIN}", nowhere)
    try:
        done = task.get()
    except ipyparallel.RemoteError as error:  # not the job's own: that is in Done.error
        died = f"Its worker died, or hung and was ended. {workers.START_AGAIN}"
        told = died if error.ename == "EngineError" else f"{error.ename}: {error.evalue}"
        return Done(None, told, nowhere)
    return done._replace(error=_told(done.error)) if done.error else done


def _told(failed: _Failed) -> str:
    """The traceback, with the lines of the notebook's cells."""
    lines = []
    for filename, number, name in failed.frames:
        source = linecache.getline(filename, number).strip() or Path(filename).name
        lines.append(f"line {number} of {name}: {source}")
    return "\n".join([*lines, failed.reason])
