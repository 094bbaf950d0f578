"""What the driver shows: stand-ins for its library and its tool, good, broken and absurd."""

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import driver
from helpers.driver import Card, visible

FAKES = Path(__file__).parent / "fakes"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.1"
ROWS = (
    "0, GPU-1111aaaa, 6144, 3072, 7, 550.1, Card S\n1, GPU-2222bbbb, 24576, 12288, 7, 550.1, Card L"
)
S, L = Card(0, "Card S", "GPU-1111aaaa"), Card(1, "Card L", "GPU-2222bbbb")
PCI = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put an nvidia-smi first on the path that prints a text and exits with a code."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def make(prints: str | bytes, code: int = 0, before: str = "") -> Path:
        answer = folder / "answer"
        answer.write_bytes(prints if isinstance(prints, bytes) else prints.encode())
        script = folder / "nvidia-smi"
        script.write_text(f'#!/bin/sh\n{before}\ncat "{answer}"\nexit {code}\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return script

    return make


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a library that answers as NVML does."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler, so no stand-in for NVML")
    folder = tmp_path_factory.mktemp("nvml")
    target = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", target, FAKES / "nvml.c"], check=True)
    return folder


@pytest.fixture
def nvml(library: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Choose how the library answers."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    return lambda mode: monkeypatch.setenv("FAKE_NVML", mode)


def hear() -> tuple[list[Card], str]:
    cards, gaps = driver.hear(driver.ask())
    return cards, " | ".join(map(str, gaps))


# The tool, while NVML is missing: whatever it prints, cards or a reason with its own words.


@pytest.mark.parametrize("code", [18, 0])
def test_an_error_of_the_tool_is_quoted_with_its_exit_code_and_a_hint(tool, code):
    tool(MISMATCH, code)
    cards, told = hear()
    assert cards == []
    assert MISMATCH.splitlines()[0] in told and f"exit code {code}" in told
    assert "out of step" in told and "Reboot, or unload and load" in told


def test_an_empty_answer_of_the_tool_is_no_card(tool):
    tool("")
    assert hear()[0] == []
    assert "exit code 0, no output" in hear()[1]


def test_a_tool_that_may_not_be_run_is_said(tool):
    tool(ROWS).chmod(0o644)
    cards, told = hear()
    assert cards == [] and "nvidia-smi: PermissionError: Permission denied" in told


def test_no_tool_and_no_library_is_no_driver(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    cards, told = hear()
    assert cards == []
    assert "no NVIDIA driver: neither its library nor nvidia-smi is here" in told


def test_a_tool_that_hangs_is_left_alone(tool, monkeypatch):
    monkeypatch.setattr(driver, "SECONDS", 1)
    tool(ROWS, before="sleep 60")
    cards, told = hear()
    assert cards == [] and "hangs" in told and "no answer within 1 seconds" in told


def test_a_good_answer_of_the_tool(tool):
    tool(ROWS)
    cards, told = hear()
    assert told == ""
    assert cards == [
        Card(0, "Card S", "GPU-1111aaaa", 6144, 3072, 7, "550.1"),
        Card(1, "Card L", "GPU-2222bbbb", 24576, 12288, 7, "550.1"),
    ]


@pytest.mark.parametrize(
    ("row", "card"),
    [
        (
            "0, GPU-1, [N/A], [N/A], [Not Supported], 550.1, A, B",
            Card(0, "A, B", "GPU-1", driver="550.1"),
        ),
        ("0,GPU-1,1,1,1,550,Kärte 卡", Card(0, "Kärte 卡", "GPU-1", 1, 1, 1, "550")),
        ("0, GPU-1, 6144", None),
        ("x, GPU-1, 1, 1, 1, 550, A", None),
        ("-1, GPU-1, 1, 1, 1, 550, A", None),
        ("0, GPU-1, 1, 1, 1, 550,", None),
        ("No devices were found", None),
    ],
)
def test_a_row_is_a_card_or_nothing(row, card):
    assert driver._card(row) == card


@settings(max_examples=1000)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)), st.data())
def test_mangled_output_never_raises_and_never_invents_a_card(noise, data):
    good = ROWS.encode()
    cut, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(good))] * 2)))
    output = (good[:cut] + noise + good[stop:]).decode(errors="replace")
    cards, problem = driver._from_tool(output, "")
    rows = [line for line in output.splitlines() if line.strip()]
    assert len(cards) == len(rows) or problem
    assert all(isinstance(card.number, int) and card.name for card in cards)
    driver._from_library(output, "")


# NVML, a real library loaded by nvidia-ml-py.


def test_nvml_tells_everything(nvml):
    nvml("nvlink")
    cards, told = hear()
    assert told == ""
    assert cards == [
        Card(0, "Card S", "GPU-1111aaaa", 6144, 3072, 7, "550.1", "8.6"),
        Card(1, "Card L", "GPU-2222bbbb", 24576, 12288, 7, "550.1", "8.6", "NVLink"),
    ]


def test_the_way_between_cards_without_nvlink(nvml):
    nvml("pcie")
    assert hear()[0][1].link == "PCIe, host bridge"


def test_a_card_that_tells_little_is_still_a_card(nvml):
    nvml("tells little")
    cards, told = hear()
    assert cards == [Card(0, "a card without a name"), Card(1, "a card without a name")]
    assert told == ""


def test_mig_is_noticed(nvml):
    nvml("mig")
    assert all(card.mig for card in hear()[0])


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("mismatch", "out of step"),
        ("no driver", "answers with an error"),
        ("lost card", "answers with an error"),
        ("crashes", "exit code -6"),
        ("no card", "the driver runs and shows no card"),
    ],
)
def test_a_failing_library_is_a_reason(nvml, tool, mode, words):
    nvml(mode)
    tool("" if mode != "no card" else "No devices were found", 0)
    cards, told = hear()
    assert cards == [] and words in told


def test_a_hanging_library_is_left_alone(nvml, tool, monkeypatch):
    monkeypatch.setattr(driver, "SECONDS", 3)
    nvml("hangs")
    tool(ROWS)
    assert [card.name for card in hear()[0]] == ["Card S", "Card L"], (
        "the tool is the second witness"
    )


def test_a_library_that_fails_is_replaced_by_the_tool(nvml, tool):
    nvml("mismatch")
    tool(ROWS)
    assert [card.name for card in hear()[0]] == ["Card S", "Card L"]


def test_witnesses_that_disagree_are_said(nvml, tool):
    nvml("pcie")
    tool(ROWS.splitlines()[0])
    cards, told = hear()
    assert len(cards) == 2 and "disagree (NVML shows 2 cards, nvidia-smi 1)" in told


def test_an_odd_name_does_no_harm(nvml):
    nvml("odd name")
    assert len(hear()[0]) == 2


# Where the driver shows nothing: what the machine is.


@pytest.mark.parametrize(
    ("files", "evidence", "repair"),
    [
        ({"proc/version": "Linux 5.15-microsoft-standard-WSL2"}, "this is WSL", "wsl --update"),
        ({".dockerenv": ""}, "this is a container", "--gpus all"),
        (
            {
                "sys/bus/pci/devices/1/vendor": "0x10de\n",
                "sys/bus/pci/devices/1/class": "0x030000\n",
            },
            "an NVIDIA card is on the PCI bus",
            "Install NVIDIA's driver",
        ),
        (
            {
                "sys/bus/pci/devices/1/vendor": "0x1002\n",
                "sys/bus/pci/devices/1/class": "0x030000\n",
            },
            "an AMD card is on the PCI bus",
            "not used",
        ),
        (
            {
                "sys/bus/pci/devices/1/vendor": "0x10de\n",
                "sys/bus/pci/devices/1/class": "0x040300\n",
            },
            "no NVIDIA card on the PCI bus",
            "simulated",
        ),
        ({}, "no NVIDIA card on the PCI bus", "simulated"),
    ],
)
def test_surroundings(tmp_path, monkeypatch, files, evidence, repair):
    monkeypatch.setattr(driver.platform, "system", lambda: "Linux")
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    told = driver.surroundings(tmp_path)
    assert told[0] == evidence and repair in told[1]


def test_a_mac_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(driver.platform, "system", lambda: "Darwin")
    assert driver.surroundings(tmp_path)[0] == "this is a Mac"


# The visibility variable.


@pytest.mark.parametrize(
    ("value", "expected", "reason"),
    [
        (None, [S, L], ""),
        ("", [], "the list is empty"),
        ("-1", [], "no card is called '-1'"),
        ("1", [L], "hidden on request: 0"),
        ("1,0", [L, S], ""),
        ("0,-1,1", [S], "no card is called '-1'"),
        ("0,0", [], "listed twice"),
        (" 0 , 1 ", [S, L], ""),
        ("abc", [], "no card is called 'abc'"),
        ("GPU-2222", [L], "hidden on request: 0"),
        ("GPU-2222bbbb,GPU-1111aaaa", [L, S], ""),
        ("GPU-", [], "no card is called 'GPU-'"),
        ("0,2", [S], "no card is called '2'"),
        ("0,", [S], "no card is called ''"),
        ("MIG-1111", [], "a MIG slice"),
    ],
)
def test_forms_of_the_visibility_variable(value, expected, reason):
    environment = PCI | ({} if value is None else {"CUDA_VISIBLE_DEVICES": value})
    cards, gaps = visible([S, L], environment)
    assert cards == expected
    assert bool(gaps) == bool(reason)
    assert reason in " ".join(map(str, gaps))


@pytest.mark.parametrize("order", [None, "FASTEST_FIRST", "nonsense"])
def test_unlike_cards_get_a_note_unless_they_are_counted_along_the_bus(order):
    environment = {} if order is None else {"CUDA_DEVICE_ORDER": order}
    assert "fastest first" in str(visible([S, L], environment)[1][0])
    assert visible([S, Card(1, "Card S", "GPU-3")], environment)[1] == []
    assert visible([S, L], PCI)[1] == []


def by_the_documented_rules(value: str) -> list[Card]:
    """The same rules once more, written from the documentation as a table of allowed entries."""
    names = {"0": S, "1": L}
    for card in (S, L):
        names |= {card.uuid[:length]: card for length in range(5, len(card.uuid) + 1)}
    chosen = []
    for entry in value.split(","):
        entry = entry.strip()
        if (
            entry.isascii()
            and entry.isdigit()
            and entry.lstrip("0") in ("", "1")
            and len(entry) < 10
        ):
            entry = entry.lstrip("0") or "0"
        if entry not in names:
            break
        chosen.append(names[entry])
    return [] if len(chosen) > len(set(chosen)) else chosen


ENTRIES = st.one_of(
    st.sampled_from(
        [
            "0",
            "1",
            "-1",
            "2",
            " 0",
            "1 ",
            "",
            "GPU-1",
            "GPU-2222bbbb",
            "GPU-",
            "gpu-1",
            "MIG-1",
            "01",
        ]
    ),
    st.text(max_size=6),
)


@settings(max_examples=1000)
@given(st.lists(ENTRIES, max_size=5).map(",".join))
def test_any_string_follows_the_documented_rules(value):
    cards, gaps = visible([S, L], PCI | {"CUDA_VISIBLE_DEVICES": value})
    assert cards == by_the_documented_rules(value)
    assert gaps or len(cards) == 2
