"""What the NVIDIA driver shows, from two witnesses: NVML, its library, and nvidia-smi, its tool.

Also which of the cards a CUDA program may see, by the documented rules of CUDA_VISIBLE_DEVICES.
Nothing here raises, whatever the machine answers: what is unknown is None or an empty text.
"""

import contextlib
import json
import platform
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

SECONDS = 5  # a healthy driver answers within one
_COLUMNS = "index,uuid,memory.total,memory.free,utilization.gpu,driver_version,name"


@dataclass(frozen=True)
class Card:
    """One physical card. ``number`` counts along the PCI bus, as nvidia-smi does; memory in MiB,
    load in percent, ``capability`` like "8.6"; ``link`` is the way to the card before it."""

    number: int
    name: str
    uuid: str = ""
    total: int | None = None
    free: int | None = None
    load: int | None = None
    driver: str = ""
    capability: str = ""
    link: str = ""
    mig: bool = False


@dataclass(frozen=True)
class Gap:
    """Why somebody sees less than there is: the cause, what shows it, and what to do."""

    who: str
    cause: str
    evidence: str
    repair: str

    def __str__(self) -> str:
        evidence = f" ({self.evidence})" if self.evidence else ""
        return f"{self.who}: {self.cause}{evidence}. {self.repair}"


class Question:
    """A program, asked in a process of its own with a time limit, while others are asked."""

    def __init__(self, command: Sequence[str]) -> None:
        self.started = time.monotonic()
        self.problem = ""
        try:
            self.process: subprocess.Popen[bytes] | None = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            self.process = None
            self.problem = f"{type(error).__name__}: {error.strerror}"

    def answer(self, seconds: float) -> tuple[str, str]:
        """Wait until ``seconds`` after the start; return (output, problem with its exit code)."""
        if self.process is None:
            return "", self.problem
        # While another one was waited for, this one may have answered: a moment to read that.
        left = max(1.0, self.started + seconds - time.monotonic())
        try:
            output = self.process.communicate(timeout=left)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            with contextlib.suppress(psutil.NoSuchProcess):  # it may end at this very moment
                for child in psutil.Process(self.process.pid).children(recursive=True):
                    child.kill()
            self.process.kill()
            # Who hangs inside a broken driver cannot even be killed: not waited for either.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.communicate(timeout=1)
            self.process.stdout.close()
            return "", f"no answer within {seconds:g} seconds"
        code = self.process.returncode
        first = next((line.strip() for line in output.splitlines() if line.strip()), "no output")
        return output, f'exit code {code}, "{first[:200]}"' if code else ""


def ask() -> tuple[Question, Question]:
    """Ask both witnesses at the same time; ``hear`` waits for them."""
    tool = Question(["nvidia-smi", f"--query-gpu={_COLUMNS}", "--format=csv,noheader,nounits"])
    return Question([sys.executable, "-m", "helpers.driver"]), tool


def hear(questions: tuple[Question, Question]) -> tuple[list[Card], list[Gap]]:
    """The cards, and why there are not more. NVML is believed first, the tool where NVML fails."""
    library, tool = questions
    cards, library_problem = _from_library(*library.answer(SECONDS))
    tool_cards, tool_problem = _from_tool(*tool.answer(SECONDS))
    if cards and not tool_problem and [c.uuid for c in cards] != [c.uuid for c in tool_cards]:
        evidence = f"NVML shows {len(cards)} cards, nvidia-smi {len(tool_cards)}"
        repair = "Reboot; one of the two is left over from another driver version."
        return cards, [Gap("NVIDIA driver", "its two witnesses disagree", evidence, repair)]
    if cards or tool_cards:
        return cards or tool_cards, []
    if not library_problem:
        return [], [_no_card("the driver runs and shows no card")]
    if "FileNotFoundError" in tool.problem and "not found" in library_problem.lower():
        return [], [_no_card("no NVIDIA driver: neither its library nor nvidia-smi is here")]
    return [], [_failing_driver(library_problem, tool_problem)]


def _from_library(output: str, problem: str) -> tuple[list[Card], str]:
    try:
        told = last_json(output)
        return [Card(**card) for card in told["cards"]], told["problem"]
    except (ValueError, TypeError, KeyError):
        return [], problem or "an answer that cannot be read"


def last_json(output: str) -> dict[str, Any]:
    """The last line that is a JSON object, whatever was printed around it; else ValueError."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return json.loads(lines[-1] if lines else "")


def _from_tool(output: str, problem: str) -> tuple[list[Card], str]:
    if problem:
        return [], problem
    rows = [line for line in output.splitlines() if line.strip()]
    cards = [card for row in rows if (card := _card(row))]
    if len(cards) < len(rows):
        odd = next(row for row in rows if not _card(row)).strip()
        return cards, f'exit code 0, "{odd[:200]}"'
    return cards, "" if rows else "exit code 0, no output"


def _card(row: str) -> Card | None:
    """One row of the tool's table, or None where it is something else, such as a message."""
    fields = [field.strip() for field in row.split(",", 6)]
    if len(fields) != 7 or _number(fields[0]) is None or not fields[6]:
        return None
    number, uuid, total, free, load, driver, name = fields
    return Card(int(number), name, uuid, _number(total), _number(free), _number(load), driver)


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _failing_driver(library_problem: str, tool_problem: str) -> Gap:
    evidence = f"nvidia-smi: {tool_problem}; NVML: {library_problem}"
    if "mismatch" in evidence.lower():
        cause = "driver and library are out of step, as after an update"
    elif "no answer" in evidence:
        cause = "the driver hangs"
    else:
        cause = "the driver answers with an error"
    repair = "Reboot, or unload and load the driver's kernel modules; then run nvidia-smi again."
    return Gap("NVIDIA driver", cause, evidence, repair)


def _no_card(cause: str) -> Gap:
    evidence, repair = surroundings()
    return Gap("NVIDIA driver", cause, evidence, repair)


def surroundings(root: Path = Path("/")) -> tuple[str, str]:
    """What the machine is, where the driver shows nothing: (evidence, repair)."""
    kernel = _read(root / "proc/version").lower()
    displays = {
        _read(device / "vendor").strip()
        for device in (root / "sys/bus/pci/devices").glob("*")
        if _read(device / "class").startswith("0x03")
    }
    if platform.system() == "Darwin":
        return "this is a Mac", "Its GPU works through Metal, which this collection does not use."
    if "microsoft" in kernel:
        repair = "Install NVIDIA's driver in Windows, not in Linux, then run: wsl --update"
        return "this is WSL", repair
    if any((root / mark).exists() for mark in (".dockerenv", "run/.containerenv")):
        repair = "If the host has cards, start the container with --gpus all."
        return "this is a container", repair
    if "0x10de" in displays:
        return "an NVIDIA card is on the PCI bus", "Install NVIDIA's driver and reboot."
    if "0x1002" in displays:
        return "an AMD card is on the PCI bus", "It is not used: these builds are for NVIDIA cards."
    return "no NVIDIA card on the PCI bus", "The chapters use two simulated devices."


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def visible(cards: Sequence[Card], environment: Mapping[str, str]) -> tuple[list[Card], list[Gap]]:
    """The cards that a CUDA program with this environment sees, in its own order, and why not all.

    Rules: CUDA Programming Guide, "CUDA Environment Variables". Unset shows all, empty none; a
    list of numbers or unique beginnings of UUIDs shows these in that order, up to the first entry
    that is invalid. A card named twice hides all (from PyTorch's source). Numbers count along the
    PCI bus if CUDA_DEVICE_ORDER says so, else the fastest first: then ours are a guess for unlike
    cards.
    """
    gaps = []
    fastest_first = environment.get("CUDA_DEVICE_ORDER", "FASTEST_FIRST") != "PCI_BUS_ID"
    if fastest_first and len({card.name for card in cards}) > 1:
        cause = "unlike cards, and CUDA counts the fastest first"
        repair = "Set CUDA_DEVICE_ORDER=PCI_BUS_ID, and the numbers are those of nvidia-smi."
        gaps.append(Gap("Numbering", cause, "CUDA_DEVICE_ORDER is not PCI_BUS_ID", repair))
    value = environment.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return list(cards), gaps
    chosen: list[Card] = []
    invalid = ""
    for entry in value.split(","):
        card = _named(entry.strip(), cards)
        if card is None:
            invalid = entry.strip()
            break
        chosen.append(card)
    evidence = f"CUDA_VISIBLE_DEVICES={value!r}"
    repair = "Unset it, or list the numbers of nvidia-smi, before Python starts."
    if len(set(chosen)) < len(chosen):
        gaps.append(Gap("Visibility", "a card is listed twice, which hides all", evidence, repair))
        return [], gaps
    if not value.strip():
        gaps.append(Gap("Visibility", "the list is empty, which hides all", evidence, repair))
    elif invalid.startswith("MIG-"):
        cause = "a MIG slice is chosen, and a program sees one slice only"
        gaps.append(Gap("Visibility", cause, evidence, repair))
    elif invalid or value.strip().endswith(","):
        cause = f"no card is called {invalid!r}: it and everything after it is hidden"
        gaps.append(Gap("Visibility", cause, evidence, repair))
    elif len(chosen) < len(cards):
        hidden = ", ".join(str(card.number) for card in cards if card not in chosen)
        gaps.append(Gap("Visibility", f"hidden on request: {hidden}", evidence, repair))
    return chosen, gaps


def _named(entry: str, cards: Sequence[Card]) -> Card | None:
    if re.fullmatch(r"[0-9]{1,9}", entry):
        return next((card for card in cards if card.number == int(entry)), None)
    if entry.startswith("GPU-"):
        found = [card for card in cards if card.uuid.startswith(entry)]
        return found[0] if len(found) == 1 else None
    return None


def _library_cards() -> list[Card]:
    """Ask NVML; raises whatever it raises. Runs in a process of its own, below."""
    import pynvml

    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    return [_library_card(number, handles) for number in range(len(handles))]


def _library_card(number: int, handles: list) -> Card:
    import pynvml

    def ask_for(function: str, *arguments: object) -> object:
        """A card that cannot tell one thing (many cannot) still tells the others."""
        try:
            return getattr(pynvml, function)(*arguments)
        except (pynvml.NVMLError, AttributeError, UnicodeDecodeError):
            return None

    handle = handles[number]
    memory = ask_for("nvmlDeviceGetMemoryInfo", handle)
    rates = ask_for("nvmlDeviceGetUtilizationRates", handle)
    capability = ask_for("nvmlDeviceGetCudaComputeCapability", handle)
    mode = ask_for("nvmlDeviceGetMigMode", handle)
    link = ""
    if number:
        pair = handles[number - 1], handle
        if ask_for("nvmlDeviceGetP2PStatus", *pair, pynvml.NVML_P2P_CAPS_INDEX_NVLINK) == 0:
            link = "NVLink"
        else:
            link = _ROADS.get(ask_for("nvmlDeviceGetTopologyCommonAncestor", *pair), "")
    return Card(
        number=number,
        name=ask_for("nvmlDeviceGetName", handle) or "a card without a name",
        uuid=ask_for("nvmlDeviceGetUUID", handle) or "",
        total=memory.total >> 20 if memory else None,
        free=memory.free >> 20 if memory else None,
        load=rates.gpu if rates else None,
        driver=ask_for("nvmlSystemGetDriverVersion") or "",
        capability=".".join(map(str, capability)) if capability else "",
        link=link,
        mig=bool(mode and mode[0]),
    )


# NVML's levels of the way between two cards, from near to far (nvmlGpuTopologyLevel_t).
_ROADS = {
    0: "same board",
    10: "PCIe, one switch",
    20: "PCIe, several switches",
    30: "PCIe, host bridge",
    40: "PCIe, same CPU",
    50: "PCIe, between CPUs",
}


if __name__ == "__main__":
    cards, problem = [], ""
    try:
        cards = _library_cards()
    except Exception as error:  # NVML raises a class per cause; the sentence is what helps
        problem = f"{type(error).__name__}: {error}"
    print(json.dumps({"cards": [asdict(card) for card in cards], "problem": problem}))
