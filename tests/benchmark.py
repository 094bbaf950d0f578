"""``make benchmark``: what takes how long on this machine, as ratios within one run. Not a test.

Prints a table; with ``--json`` the same as JSON. Times are medians of three runs in seconds.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from helpers import driver, survey
from helpers.frameworks import MODULES, NAMES


def median(action: Callable[[], object], repeats: int = 3) -> float:
    """Median wall time of ``action`` in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def import_alone(framework: str) -> None:
    command = [sys.executable, "-m", "helpers.frameworks", framework]
    subprocess.run(command, capture_output=True, check=True)


def benchmark() -> dict[str, float]:
    """The survey against its parts."""
    survey.survey()  # warm-up: the first import of a framework reads its files from disk
    figures = {
        f"{NAMES[name]} asked alone": median(lambda n=name: import_alone(n)) for name in MODULES
    }
    slowest = max(figures.values())
    figures["driver alone"] = median(lambda: driver.hear(driver.ask()))
    figures["whole survey"] = median(survey.survey)
    figures["whole survey / slowest framework"] = figures["whole survey"] / slowest
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make benchmark", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    arguments = parser.parse_args()
    figures = benchmark()
    if arguments.json:
        print(json.dumps(figures, indent=2))
    else:
        print("\n".join(f"{name:40} {value:6.2f}" for name, value in figures.items()))
