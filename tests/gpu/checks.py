"""The chapters on real cards. ``python -m tests.gpu`` prints what is found here, test_on_cards.py
asserts it.

Nothing is written twice: the chapters' own cells are run, in the kernel that ``make gpu-kernels``
has built for the framework, else in that of this environment. Each added cell only reads out what
the chapter holds.
"""

import functools
import os
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from helpers import driver, timing
from helpers.devices import entry_of
from helpers.frameworks import NAMES, Seen, Sight
from tests.benchmark import ARTICLES, COMPUTE_BOUND, LAST, STEMS
from tests.outputs import outputs_of

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SECONDS_FOR_A_CELL = 120
TOLERANCE = 1e-6  # the chapters'
SIZES = {"article's network": ARTICLES, "compute-bound": COMPUTE_BOUND}


@dataclass(frozen=True)
class Result:
    """One line of the table. ``ok`` is None where a line only tells something."""

    framework: str
    cards: int
    what: str
    found: str
    ok: bool | None = None

    def __str__(self) -> str:
        verdict = {True: "ok", False: "FAILED", None: ""}[self.ok]
        return f"{NAMES[self.framework]:10}  {self.cards:5}  {verdict:6}  {self.what}: {self.found}"


class Stopped(Exception):
    """A run of a chapter that did not come to its end. The message says why."""


HEADING = f"{'framework':10}  {'cards':5}  {'':6}  what: found"


def status(results: list[Result]) -> int:
    """Exit status: 1 where a check failed, 0 where at least one was made, 2 where none was."""
    verdicts = {result.ok for result in results}
    return 1 if False in verdicts else 0 if True in verdicts else 2


@functools.cache
def no_cards() -> str:
    """Why no card can be seen, as a sentence; "" where one can. No framework is asked."""
    cards, gaps = driver.hear(driver.ask())
    visible, hidden = driver.visible(cards, os.environ)
    if visible:
        return ""
    return f"No card to check on ({(gaps or hidden)[-1].cause})."


def kernel_of(framework: str) -> str:
    """The name of the Jupyter kernel with this framework's GPU build."""
    own = f"two-gpus-{framework}"
    return own if own in KernelSpecManager().find_kernel_specs() else "python3"


def executed(sources: list[NotebookNode], kernel: str, **variables: str) -> list[NotebookNode]:
    """Run copies of these cells in one kernel of this name, with these environment variables added.

    A cell that raises does not end the run. Raises Stopped where the kernel dies or a cell takes
    longer than ``SECONDS_FOR_A_CELL``.
    """
    notebook = nbformat.v4.new_notebook(cells=deepcopy(sources))
    client = NotebookClient(
        notebook,
        kernel_name=kernel,
        timeout=SECONDS_FOR_A_CELL,
        iopub_timeout=SECONDS_FOR_A_CELL,  # else on a busy machine what a cell prints gets lost
        allow_errors=True,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": NOTEBOOKS}},
    )
    try:
        client.execute(env=os.environ | variables)
    except CellTimeoutError as error:
        raise Stopped(f"a cell took longer than {SECONDS_FOR_A_CELL} s") from error
    except DeadKernelError as error:
        raise Stopped("the kernel died") from error
    except AssertionError:  # nbclient has taken Ctrl-C, ended the kernel, and trips over that
        raise KeyboardInterrupt from None
    return notebook.cells


def code(source: str) -> NotebookNode:
    return nbformat.v4.new_code_cell(source)


def errors(cells: list[NotebookNode]) -> dict[str, str]:
    """What the cells that raised have raised, by cell id."""
    return {
        cell.id: f"{output.ename}: {output.evalue.splitlines()[0] if output.evalue else ''}"
        for cell in cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "error"
    }


def told(cell: NotebookNode) -> dict:
    """The JSON object that a cell printed. Raises ValueError where it printed none."""
    return driver.last_json("".join(output.get("text", "") for output in cell.outputs))


# --- what the framework sees ---

ASK = """
import json
from dataclasses import asdict
from helpers.survey import sight_apart, why_none

sight = sight_apart({framework!r})
why = sight.error or ("" if sight.usable else why_none(sight))
print(json.dumps({{"sight": asdict(sight), "why": why}}))
"""


def seen(framework: str, kernel: str) -> tuple[Sight, str]:
    """What the framework sees in this kernel, and why it can use no card, "" where it can."""
    (cell,) = executed([code(ASK.format(framework=framework))], kernel)
    answer = told(cell)
    gpus = [Seen(**gpu) for gpu in answer["sight"].pop("gpus")]
    return Sight(**answer["sight"], gpus=gpus), answer["why"]


# --- parity: the framework's chapter ---

MEASURE = """
import json
from helpers import parity

runs = two_devices if isinstance(two_devices, list) else [two_devices]
found = [parity.differences(one_device, run) for run in runs]
largest = {name: max(max(run[name]) for run in found) for name in parity.QUANTITIES}
print(json.dumps({"devices": pair.sentence, "largest": largest}))
"""


def shown(cells: list[NotebookNode]) -> dict[str, list[str]]:
    """What each checked cell shows, without what stands on stderr: the libraries for GPUs write
    notices there, which differ from card to card."""
    outputs = outputs_of({"cells": cells})
    return {name: [printed, *others] for name, (printed, _, *others) in outputs.items()}


def chapter(
    framework: str, kernel: str, cards: int, says: str, last: str | None = None, **variables: str
) -> Iterator[Result]:
    """Run the framework's chapter up to the cell ``last``, else the whole: do its assertions hold,
    does it show what is stored, which devices does it use (its sentence begins with ``says``), and
    how far are five steps on two devices from those on one?"""
    stored = nbformat.read(NOTEBOOKS / f"{STEMS[framework]}.ipynb", as_version=4).cells
    if last:
        stored = stored[: [cell.id for cell in stored].index(last) + 1]
    try:
        *cells, measured = executed([*stored, code(MEASURE)], kernel, **variables)
    except Stopped as error:
        yield Result(framework, cards, "the chapter", str(error), ok=False)
        return
    faults = errors(cells)
    before, after = shown(stored), shown(cells)
    other = [name for name in before if before[name] != after[name] and name not in faults]
    faults |= dict.fromkeys(other, "shows something else than is stored")
    found = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
    held = f"{sum(cell.cell_type == 'code' for cell in cells)} cells as stored"
    yield Result(framework, cards, "the chapter", found or held, ok=not faults)
    if broken := errors([measured]):
        yield Result(framework, cards, "one device against two", *broken.values(), ok=False)
        return
    answer = told(measured)
    right = answer["devices"].startswith(says)
    yield Result(framework, cards, "devices", answer["devices"], ok=right)
    for name, largest in answer["largest"].items():
        found = f"{largest:.1e}, allowed is {TOLERANCE:.0e}"
        what = f"one device against two, {name}"
        yield Result(framework, cards, what, found, ok=largest <= TOLERANCE)


# --- speed-up: what §8 measures with ---


TELL_TIMES = """
import json

one, two = zip(*(times.values() for times in {found}))
one, two = ([t for times in side for t in times.values] for side in (one, two))
print(json.dumps(dict(one=one, two=two)))
"""


def speed_up(framework: str, kernel: str, **variables: str) -> Iterator[Result]:
    """How many times faster two cards are than one, with the functions of §8: the median of the
    ratios, pair by pair, and the range of their middle half."""
    stem = f"{STEMS[framework]}_in_practice"
    stored = nbformat.read(NOTEBOOKS / f"{stem}.ipynb", as_version=4).cells
    until = [cell.id for cell in stored].index(LAST[framework]) + 1
    needed = [cell for cell in stored[:until] if not cell.id.startswith("s7")]
    workers = framework == "pytorch"
    for batch, width in SIZES.values():
        measure = f"found = [measure_size({batch}, {width}) for _ in range(3)]"
        needed.append(code("%%px\n" + measure if workers else measure))
        needed.append(code(TELL_TIMES.format(found="team['found'][0]" if workers else "found")))
    try:
        cells = executed(needed, kernel, **variables)
    except Stopped as error:
        yield Result(framework, 2, "speed-up", str(error), ok=False)
        return
    if broken := errors(cells):
        name, fault = next(iter(broken.items()))
        yield Result(framework, 2, "speed-up", f"{name}: {fault}", ok=False)
        return
    answers = [told(cell) for cell in cells[-2 * len(SIZES) :][1::2]]
    for (name, (batch, width)), times in zip(SIZES.items(), answers, strict=True):
        faster = timing.ratio(timing.Times(tuple(times["one"])), timing.Times(tuple(times["two"])))
        low, high = faster.spread
        found = f"{faster.median:.2f} times as fast (middle half {low:.2f} to {high:.2f})"
        yield Result(framework, 2, f"{name}, {batch} rows, width {width}", found)


# --- all of it ---


def two_cards(framework: str, kernel: str) -> Iterator[Result]:
    yield from chapter(framework, kernel, 2, says=f"Real: {NAMES[framework]} uses two GPUs")


def one_card(framework: str, kernel: str, device: str) -> Iterator[Result]:
    """The cards are made one, this one: the chapter has to say so, and to use two simulated
    devices."""
    says = f"Simulated: {NAMES[framework]} can use one GPU only"
    yield from chapter(
        framework, kernel, 1, says, last="s5-check", CUDA_VISIBLE_DEVICES=entry_of(device)
    )


def all_of(framework: str) -> Iterator[Result]:
    """Everything that can be checked with the cards that the framework can use here."""
    kernel = kernel_of(framework)
    try:
        sight, why = seen(framework, kernel)
    except (Stopped, ValueError) as error:
        yield Result(framework, 0, f"kernel {kernel}", f"it gave no answer: {error}", ok=False)
        return
    names = ", ".join(f"{gpu.device} ({gpu.name})" for gpu in sight.usable)
    count = len(sight.usable)
    yield Result(framework, count, f"cards it can use, kernel {kernel}", names or f"none: {why}")
    if count >= 2:
        yield from two_cards(framework, kernel)
        yield from speed_up(framework, kernel)
    elif count == 1:
        yield Result(framework, 2, "two cards", "not checked: it can use one card only")
    if count:
        yield from one_card(framework, kernel, sight.usable[0].device)
