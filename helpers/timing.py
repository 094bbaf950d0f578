"""How long a step takes: warm-up, wait for the device, repeats, median and spread.

    times = timing.compare({"one device": step_on_one, "two devices": step_on_two}, wait)
    timing.ratio(times["one device"], times["two devices"])

Times on a machine that others use drift. So what is compared is run in turn within one
measurement, and the ratio is taken pair by pair.
"""

import os
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass

Action = Callable[[], object]


@dataclass(frozen=True)
class Times:
    """Repeated measurements of one thing, in seconds (of a ratio, without unit)."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle value: a single slow repeat does not move it."""
        return statistics.median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """The range of the middle half of the values (first and third quartile)."""
        if len(self.values) < 2:
            return self.median, self.median
        first, _, third = statistics.quantiles(self.values, n=4, method="inclusive")
        return first, third


def _nothing() -> None:
    pass


def _threads_to(cores: set[int]) -> None:
    """Let every thread of this process run on these cores only."""
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.sched_setaffinity(int(thread), cores)


@contextmanager
def _one_core() -> Iterator[None]:
    """Keep this process to one of its cores for a while."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    _threads_to({min(allowed)})
    try:
        yield
    finally:
        _threads_to(allowed)


def compare(
    steps: Mapping[str, Action],
    wait: Action = _nothing,
    before: Action = _nothing,
    repeats: int = 7,
    warm_up: int = 2,
    on_one_core: Collection[str] = (),
) -> dict[str, Times]:
    """Time each of ``steps``, in turn within each repeat, after ``warm_up`` untimed rounds.

    ``wait`` returns when the device has finished; it belongs to the time, because many calls
    return before their work is done. ``before`` is called before each step and is not timed: a
    barrier, for processes that shall begin together. The steps named in ``on_one_core`` may use
    one core of the CPU (on Linux; elsewhere this changes nothing). Raises ValueError for less than
    one repeat.
    """
    if repeats < 1:
        raise ValueError(f"A time needs at least one repeat, not {repeats}.")
    values: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(warm_up + repeats):
        for name, step in steps.items():
            wait()
            before()
            with _one_core() if name in on_one_core else nullcontext():
                start = time.perf_counter()
                step()
                wait()
                end = time.perf_counter()
            if number >= warm_up:
                values[name].append(end - start)
    return {name: Times(tuple(found)) for name, found in values.items()}


def measure(
    step: Action,
    wait: Action = _nothing,
    before: Action = _nothing,
    repeats: int = 7,
    warm_up: int = 2,
) -> Times:
    """Time one step; the arguments are those of ``compare``."""
    return compare({"step": step}, wait, before, repeats, warm_up)["step"]


def ratio(one: Times, two: Times) -> Times:
    """How many times longer ``one`` took than ``two``, pair by pair: with one device and two
    devices, the speed-up. Raises ValueError when the numbers of repeats differ."""
    pairs = zip(one.values, two.values, strict=True)
    return Times(tuple(a / b for a, b in pairs))


def cores() -> int:
    """The CPU cores that this process may use: with one, two simulated devices take turns."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
