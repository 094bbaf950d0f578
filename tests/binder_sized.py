"""``python -m tests.binder_sized``: all chapters on a machine as small as Binder's. Not a test.

One core; 2 GiB for all processes together, JupyterLab's own among them; the settings of
binder/start. Prints a line for each notebook and goes on after a failure; exit status 1 when one
has failed. For Linux, with the Python of an environment made from binder/requirements.txt. Some
notebooks alone: name their files.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent / "browser"))  # so that lab is found

from lab import NOTEBOOKS, Lab
from processes import memory_of, processes_with

START = Path(__file__).parents[1] / "binder/start"
LIMIT = 2048  # MiB, of mybinder.org
SECONDS = 1800  # for one notebook, on a busy machine too
MARK = f"BINDER_SIZED_{os.getpid()}"  # every process of this run has it; the value is a notebook


@dataclass(frozen=True)
class Run:
    """How one notebook went: its time in seconds, and the peak memory (PSS, MiB) of all processes,
    JupyterLab's server among them; ``problem`` is empty where all cells ran."""

    name: str
    seconds: float
    peak: float
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.name:26} {self.seconds:5.0f} s {self.peak:6.0f} MiB  {self.problem or 'ok'}"


def end(name: str) -> None:
    """End every process of this notebook."""
    while processes := processes_with(MARK, name):
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=1)


def run(notebook: Path, limit: float) -> Run:
    """Run all cells; end them at once when all processes together hold more than ``limit`` MiB."""
    name, problem, peak, start = notebook.stem, "", 0.0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
        output = f"--output={folder}/run.ipynb"
        command = [str(START), sys.executable, "-m", "jupyter", "execute", output, str(notebook)]
        environment = os.environ | {MARK: name}
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        while process.poll() is None:
            peak = max(peak, memory_of(MARK))
            if peak > limit:
                problem = f"ended at {peak:.0f} MiB: the limit is {limit:.0f} MiB"
            elif time.monotonic() - start > SECONDS:
                problem = f"ended after {SECONDS} s"
            if problem:
                end(name)
            time.sleep(0.3)
        log.seek(0)
        said = log.read().strip()
    if process.returncode and not problem:
        problem = why(process.returncode, said)
    end(name)
    return Run(name, time.monotonic() - start, peak, problem)


def why(status: int, said: str) -> str:
    """The reason in a few words, from the exit status of the run and what it printed."""
    if status < 0 or "DeadKernelError" in said:
        return "its kernel was killed: usually no memory was left"
    return said.splitlines()[-1] if said else f"exit status {status}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.binder_sized", description=__doc__)
    parser.add_argument("notebooks", nargs="*", type=Path, help="else all chapters")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="MiB")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    os.environ[MARK] = "JupyterLab"  # the server, which runs all the time
    start, failed = time.monotonic(), False
    with Lab():
        print(Run("JupyterLab, ready after", time.monotonic() - start, memory_of(MARK)), flush=True)
        for notebook in arguments.notebooks or sorted(NOTEBOOKS.glob("*.ipynb")):
            done = run(notebook, arguments.limit)
            print(done, flush=True)
            failed |= bool(done.problem)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
