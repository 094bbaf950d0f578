"""Jobs on two workers: in order, apart, each with its own error, ended when their time is over."""

import os
import time

import pytest
from worker_kernel import PAIR, START

from helpers import devices, jobs

JOBS = f"""
{START}
from helpers import jobs
view = workers._running.client.load_balanced_view()

def send(function, *arguments, limit=None):
    return [view.apply_async(jobs.run, function, one, limit=limit) for one in arguments]

def report(number):
    import os, sys, time
    time.sleep(3)
    if number < 0:
        raise ValueError(f"no job has the number {{number}}")
    known = [name for name in ("tensorflow", "torch", "mxnet") if name in sys.modules]
    return number, os.environ["CUDA_VISIBLE_DEVICES"], known

def sleep(seconds):
    import time
    time.sleep(seconds)
    return seconds

def hang(_):
    import itertools
    max(itertools.repeat(1))  # one call of compiled code: no signal handler of Python gets a turn

def leave(_):
    import os
    os._exit(3)
"""


def test_two_jobs_at_once_each_sees_its_own_device(notebook):
    assert "worker 1 of 2" in notebook.run(JOBS + "\nprint(workers._running)")
    told = notebook.run(
        "done = jobs.collect(send(report, 1, 2))\n"
        "print(max(job.span.start for job in done) < min(job.span.end for job in done))\n"
        "print([job.value[0] for job in done])\n"
        "print(sorted(job.value[1] for job in done), [job.value[2] for job in done])\n"
        "print(sorted(job.span.device for job in done), [job.span.label for job in done])"
    )
    assert told.splitlines() == [
        "True",
        "[1, 2]",
        f"{sorted(devices.visible(PAIR))} [[], []]",
        "['device 0', 'device 1'] ['report 1', 'report 2']",
    ]


def test_a_job_that_raises_keeps_its_traceback_and_the_others_their_results(notebook):
    notebook.run(JOBS)
    told = notebook.run(
        "done = jobs.collect(send(report, -1, 2))\nprint(done[0].error)\nprint(done[1].value[0])"
    )
    assert told.splitlines() == [
        'line 14 of report: raise ValueError(f"no job has the number {number}")',
        "ValueError: no job has the number -1",
        "2",
    ]


def test_five_jobs_never_two_on_one_device(notebook):
    notebook.run(JOBS)
    told = notebook.run(
        "done = jobs.collect(send(sleep, 3, 0.2, 0.2, 0.2, 0.2))\n"
        "print([job.value for job in done])\n"
        "for device in ('device 0', 'device 1'):\n"
        "    spans = sorted(job.span[2:] for job in done if job.span.device == device)\n"
        "    print(all(a[1] <= b[0] for a, b in zip(spans, spans[1:])), end=' ')\n"
        "print(sorted(sum(job.span.device == d for job in done) for d in ('device 0', 'device 1')))"
    )
    # The free device takes the next job: one gets the long job only, the other all short ones.
    assert told.splitlines() == ["[3, 0.2, 0.2, 0.2, 0.2]", "True True [1, 4]"]


def test_a_job_out_of_time_is_ended_also_in_compiled_code(notebook):
    notebook.run(JOBS)
    told = notebook.run(
        "done = jobs.collect(send(sleep, 600, 0.1, limit=1))\n"
        "print(done[0].error.splitlines()[-1], done[1].value, workers.alive())"
    )
    assert told == "TimeoutError: the job was ended after its 1 seconds 0.1 2\n"
    told = notebook.run(
        "tasks = send(hang, 0, limit=1) + send(sleep, 0.1, 0.2)\n"
        "done = jobs.collect(tasks)\n"
        "print(done[0].error, done[1].value, done[2].value, workers.alive())"
    )
    assert "Its worker died, or hung and was ended" in told and told.endswith(" 0.1 0.2 1\n")


def test_jobs_without_a_worker_are_said_not_waited_for(notebook):
    notebook.run(JOBS)
    told = notebook.run("for job in jobs.collect(send(leave, 0, 0, 0, 0)): print(job.error)")
    assert len(told.splitlines()) == 4
    assert all("workers.start(...) again" in line for line in told.splitlines())
    notebook.run("workers.stop()")
    assert notebook.left() == []


def test_an_interrupt_ends_all_and_keeps_what_was_ready(notebook):
    notebook.run(JOBS)
    notebook.run("tasks = send(sleep, 0.1, 600, 600)")
    notebook.run("tasks[0].wait(60)")
    notebook.send("jobs.collect(tasks)")
    time.sleep(2)
    notebook.manager.interrupt_kernel()
    assert notebook.left_in_the_end() == []
    told = notebook.run("for job in jobs.collect(tasks): print(job.value, job.error[:23])")
    assert told == "0.1 \nNone Not run to its end: no \nNone Not run to its end: no \n"


def test_run_notes_device_label_and_times(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    value, error, span = jobs.run(max, 2, 3)
    assert (value, error, span[:2]) == (3, "", ("device 1", "max 2 3"))
    assert span.start <= span.end <= time.perf_counter()


def test_run_hands_on_what_a_job_raises(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    done = jobs.run(os.listdir, 1.5)
    assert done.value is None and done.error.reason.startswith("TypeError")
    with pytest.raises(KeyboardInterrupt):  # the stop button is no error of the job
        jobs.run(_interrupt)


def _interrupt():
    raise KeyboardInterrupt
