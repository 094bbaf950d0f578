"""Times: what is timed and what is not, in which order, and what median, spread and ratio are."""

import os
import queue
import threading
import time

import pytest

from helpers import timing
from helpers.timing import Times


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when a step says so; returns the function that moves it."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def takes(seconds):
        now[0] += seconds

    return takes


def test_the_wait_is_timed_and_what_comes_before_is_not(clock):
    times = timing.measure(lambda: clock(1), wait=lambda: clock(2), before=lambda: clock(100))
    assert times.values == (3.0,) * 7


def test_without_the_wait_the_time_is_too_small(clock):
    owed = []
    late = {"step": lambda: owed.append(5), "wait": lambda: clock(sum(owed)) or owed.clear()}
    assert timing.measure(late["step"], late["wait"]).median == 5
    assert timing.measure(late["step"]).median == 0


def test_warm_up_is_left_out(clock):
    lengths = iter([50, 40, 1, 1, 1])
    assert timing.measure(lambda: clock(next(lengths)), repeats=3).values == (1.0, 1.0, 1.0)


def test_what_is_compared_runs_in_turn(clock):
    order = []
    steps = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    timing.compare(steps, repeats=2, warm_up=1)
    assert order == ["a", "b"] * 3


def test_a_drift_of_the_machine_leaves_the_ratio_alone(clock):
    slower = iter(range(1, 100))
    now = {"factor": 1}

    def one():
        now["factor"] = next(slower)
        clock(2 * now["factor"])

    times = timing.compare({"one": one, "two": lambda: clock(now["factor"])})
    assert timing.ratio(times["one"], times["two"]).spread == (2.0, 2.0)
    assert times["one"].spread != (times["one"].median,) * 2


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="only Linux keeps threads to cores"
)
def test_a_step_on_one_core_has_one_in_all_threads_and_gives_the_others_back():
    allowed, seen = os.sched_getaffinity(0), {}
    asked, told = queue.Queue(), queue.Queue()

    def other_thread():
        while asked.get():
            told.put(timing.cores())

    def note(name):
        asked.put(True)
        seen[name] = timing.cores(), told.get()

    thread = threading.Thread(target=other_thread)
    thread.start()
    steps = {"one": lambda: note("one"), "all": lambda: note("all")}
    timing.compare(steps, repeats=1, on_one_core=["one"])
    with pytest.raises(ZeroDivisionError):
        timing.compare({"one": lambda: 1 / 0}, on_one_core=["one"])
    note("after")
    asked.put(False)
    thread.join()
    assert seen == {"one": (1, 1), "all": (len(allowed),) * 2, "after": (len(allowed),) * 2}


def test_median_and_spread():
    assert Times((1.0, 2.0, 3.0, 4.0, 100.0)).median == 3
    assert Times((1.0, 2.0, 3.0, 4.0, 100.0)).spread == (2.0, 4.0)
    assert Times((7.0,)).spread == (7.0, 7.0)


def test_bad_input():
    with pytest.raises(ValueError, match="at least one repeat, not 0"):
        timing.measure(print, repeats=0)
    with pytest.raises(ValueError, match="zip"):
        timing.ratio(Times((1.0,)), Times((1.0, 2.0)))


def test_cores_are_those_this_process_may_use(monkeypatch):
    if hasattr(os, "sched_getaffinity"):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3})
        assert timing.cores() == 1
        monkeypatch.delattr(os, "sched_getaffinity")
    assert timing.cores() == os.cpu_count()
