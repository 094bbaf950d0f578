"""The survey: every card, what each framework sees of it, and a reason for every gap."""

import functools
import html
import os
import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from helpers import driver
from helpers.driver import Card, Gap
from helpers.frameworks import MODULES, NAMES, Seen, Sight, check_known

_SECONDS = 180  # on a slow disk, or beside other programs, a first import takes a minute
_GPU_BUILDS = {
    "tensorflow": "On Linux: make gpu-kernels, which installs tensorflow[and-cuda] apart.",
    "pytorch": "On Linux: make gpu-kernels, or plain pip install torch; else see pytorch.org.",
    "mxnet": "On Linux, for cards up to Ada: make gpu-kernels, which installs mxnet-cu117 apart.",
}


@dataclass(frozen=True, repr=False)
class Survey:
    """What ``survey`` found; a table in a notebook and in a terminal.

    ``visible`` are the cards that a CUDA program may see, in its order; ``gaps`` say why somebody
    sees less than there is.
    """

    cards: list[Card]
    visible: list[Card]
    sights: list[Sight]
    gaps: list[Gap]

    @property
    def ready(self) -> list[str]:
        """The frameworks that can use two GPUs."""
        return [sight.framework for sight in self.sights if len(sight.usable) >= 2]

    def as_dict(self) -> dict[str, Any]:
        """Everything, as plain lists and dictionaries, for JSON."""
        return asdict(self) | {"ready": self.ready}

    def rows(self) -> list[tuple[str, ...]]:
        """The table: a heading, then one row per card."""
        names = [_title(sight) for sight in self.sights]
        heading = ("GPU", "name", "free / total MiB", "load", "driver", "UUID", "link", *names)
        return [heading, *(self._row(card) for card in self.cards)]

    def _row(self, card: Card) -> tuple[str, ...]:
        load = "unknown" if card.load is None else f"{card.load} %"
        memory = f"{_or_unknown(card.free)} / {_or_unknown(card.total)}"
        own = (str(card.number), card.name, memory, load, _or_unknown(card.driver))
        seen = (_name_of(card, sight, self.visible) for sight in self.sights)
        return (*own, _or_unknown(card.uuid), card.link or "-", *seen)

    def summary(self) -> str:
        """One sentence: can two GPUs be used?"""
        if self.ready:
            who = ", ".join(NAMES[name] for name in self.ready)
            return f"Two GPUs can be used by: {who}."
        return "No framework can use two GPUs here: the chapters use two simulated devices."

    def __repr__(self) -> str:
        rows = self.rows() if self.cards else [self.rows()[0][7:]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, "", *map(str, self.gaps), self.summary()])

    def _repr_html_(self) -> str:
        def row(tag: str, texts: Sequence[str]) -> str:
            cells = (f'<{tag} style="text-align: left">{html.escape(t)}</{tag}>' for t in texts)
            return f"<tr>{''.join(cells)}</tr>"

        heading, *body = self.rows() if self.cards else [self.rows()[0][7:]]
        table = row("th", heading) + "".join(row("td", texts) for texts in body)
        gaps = "".join(
            f"<li><b>{html.escape(gap.who)}</b>: {html.escape(str(gap).split(': ', 1)[1])}</li>"
            for gap in self.gaps
        )
        return f"<table>{table}</table><ul>{gaps}</ul><p><b>{html.escape(self.summary())}</b></p>"


def survey() -> Survey:
    """Ask the driver's two witnesses and each framework, all at once, each in its own process.

    Whatever crashes, hangs, is missing or answers nonsense becomes a line with the reason; never
    an exception. The environment is that of this process, so hidden cards are explained too.
    """
    questions = {name: _ask(name) for name in MODULES}
    cards, gaps = driver.hear(driver.ask())
    visible, hidden = driver.visible(cards, os.environ)
    gaps += hidden
    gaps += [_mig_gap(card) for card in cards if card.mig]
    sights = []
    for name, question in questions.items():
        sight, problem = _read(name, *question.answer(_SECONDS))
        sights.append(sight)
        gap = _silent_gap(name, problem) if problem else _framework_gap(sight, visible)
        gaps += [gap] if gap else []
    return Survey(cards, visible, sights, gaps + _late_gaps())


def sight_apart(framework: str) -> Sight:
    """The answer of one framework, asked in a process of its own: this one does not import it.

    Raises ValueError for an unknown framework; where its import fails, the answer has an error.
    """
    check_known(framework)
    environment = tuple(os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "PYTHONPATH"))
    return _sight_apart(framework, environment)


@functools.cache  # an import takes seconds, and its answer depends on nothing else
def _sight_apart(framework: str, environment: tuple[str | None, ...]) -> Sight:
    return _read(framework, *_ask(framework).answer(_SECONDS))[0]


def _ask(framework: str) -> driver.Question:
    return driver.Question([sys.executable, "-m", "helpers.frameworks", framework])


def why_none(sight: Sight) -> str:
    """Why ``sight`` shows no GPU that can be used, in a few words."""
    cards, gaps = driver.hear(driver.ask())
    visible, hidden = driver.visible(cards, os.environ)
    gap = _framework_gap(sight, visible)
    reasons = [gap] if gap else gaps + hidden
    return reasons[0].cause if reasons else "none is there"


def _read(framework: str, output: str, problem: str) -> tuple[Sight, str]:
    """The answer of a framework's process: a line of JSON, whatever was printed around it."""
    try:
        told = driver.last_json(output)
        told["gpus"] = [Seen(**gpu) for gpu in told["gpus"]]
        return Sight(**told), ""
    except (ValueError, TypeError, KeyError):
        problem = problem or "exit code 0, but not with an answer that can be read"
        return Sight(framework, error=problem), problem


def _framework_gap(sight: Sight, visible: Sequence[Card]) -> Gap | None:
    """Why a framework that answered can use fewer GPUs than CUDA shows; None if it can use all."""
    who, there = NAMES[sight.framework], f"driver {len(visible)}, {NAMES[sight.framework]}"
    if sight.error:
        return import_gap(sight.framework, sight.error)
    if not sight.cuda:
        evidence = f"version {sight.version}; {there} 0"
        return Gap(who, "a build for CPUs only", evidence, _GPU_BUILDS[sight.framework])
    unusable = [gpu for gpu in sight.gpus if gpu.problem]
    if unusable:
        capability = ", ".join(sorted({card.capability for card in visible if card.capability}))
        evidence = f"{unusable[0].device}: {unusable[0].problem}"
        evidence += f"; compute capability {capability}" if capability else ""
        repair = "Take a build that has code for this card, or a newer card."
        return Gap(who, "a GPU is present, but this build cannot use it", evidence, repair)
    if len(sight.gpus) < len(visible):
        evidence = f"built for CUDA {sight.cuda}; {there} {len(sight.gpus)}"
        cause = "it does not find the CUDA libraries it was built for, or the driver is too old"
        return Gap(who, cause, evidence, _GPU_BUILDS[sight.framework])
    return None


def import_gap(framework: str, error: str) -> Gap:
    """Why the import of ``framework`` failed with ``error``, and what to do. ``error`` is the
    exception ("Class: message"), or how its process ended without one."""
    if error.startswith(("exit code", "no answer")):
        return _silent_gap(framework, error)
    who, install = NAMES[framework], "pip install -r requirements.txt"
    if error.startswith("ModuleNotFoundError") and f"'{MODULES[framework]}'" in error:
        if _has_no_build(framework):
            where = f"{platform.system()} {platform.machine()}"
            return Gap(who, "it has no build for this platform", where, "Use another framework.")
        return Gap(who, "not installed", error, f"Install it: {install}")
    if re.search(r"numpy|np\.|PZERO", error) and "Error: module" in error:
        repair = "It needs an older NumPy: pip install numpy==1.26.4, then restart the kernel."
        return Gap(who, "its import fails on this NumPy", error, repair)
    if re.search(r"lib(gomp|quadmath)", error):
        repair = "Debian, Ubuntu: apt install libgomp1 libquadmath0."
        return Gap(who, "a library of the system is missing", error, repair)
    if re.search(r"lib(cu|nv|nccl)", error):
        repair = "Install the CUDA libraries of this build, or its CPU build."
        return Gap(who, "a CUDA library is missing", error, repair)
    return Gap(who, "its import fails", error, f"Install it anew: {install}")


def _has_no_build(framework: str) -> bool:
    system, machine = platform.system(), platform.machine()
    if framework == "mxnet":
        return system == "Windows" or (system, machine) == ("Darwin", "arm64")
    return (system, machine) == ("Darwin", "x86_64")


def _silent_gap(framework: str, problem: str) -> Gap:
    module = MODULES[framework]
    repair = f'Try it alone in a terminal: python -c "import {module}"'
    return Gap(NAMES[framework], "its process gave no answer", problem, repair)


def _mig_gap(card: Card) -> Gap:
    repair = "Switch MIG off (nvidia-smi -mig 0, as administrator), or start one process per slice."
    cause = "MIG is on: a program sees one slice of it, never two"
    return Gap(f"GPU {card.number}", cause, card.name, repair)


def _late_gaps() -> list[Gap]:
    """Is CUDA_VISIBLE_DEVICES another one than when this process began, with a framework loaded?"""
    try:
        start = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:  # no such file outside Linux
        return []
    name = b"CUDA_VISIBLE_DEVICES="
    began = next((os.fsdecode(e[len(name) :]) for e in start if e.startswith(name)), None)
    now = os.environ.get("CUDA_VISIBLE_DEVICES")
    loaded = [NAMES[name] for name, module in MODULES.items() if module in sys.modules]
    if began == now or not loaded:
        return []
    evidence = f"{', '.join(loaded)} loaded; {began!r} at the start, {now!r} now"
    repair = "Restart the kernel and set it before the first import."
    return [Gap("This kernel", "CUDA_VISIBLE_DEVICES may have been set too late", evidence, repair)]


def _title(sight: Sight) -> str:
    """Heading of a framework's column: name, version and kind of build."""
    if not sight.version:
        return NAMES[sight.framework]
    build = f"CUDA {sight.cuda}" if sight.cuda else "CPU build"
    return f"{NAMES[sight.framework]} {sight.version} ({build})"


def _or_unknown(value: object) -> str:
    return "unknown" if value in (None, "") else str(value)


def _name_of(card: Card, sight: Sight, visible: Sequence[Card]) -> str:
    """What a framework calls ``card``: by UUID if it tells one, else by its place in the list."""
    for place, gpu in enumerate(sight.gpus):
        same = (
            gpu.uuid == card.uuid
            if gpu.uuid and card.uuid
            else visible[place : place + 1] == [card]
        )
        if same:
            return f"{gpu.device} (not usable)" if gpu.problem else gpu.device
    return "-"
