"""The ring: its sums, its bytes and its order of chunks, which is that of the chapters."""

import json
import re
from pathlib import Path

import pytest

from helpers import explore
from helpers.explore.all_reduce import Move, all_rounds, draw, ring

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
DEVICES = range(2, 9)


def test_three_devices_by_hand():
    # Each set is written as the digits of its devices; a line is a device, a column a chunk.
    after = [
        ["0 0 0", "1 1 1", "2 2 2"],
        ["0 0 02", "01 1 1", "2 12 2"],
        ["0 012 02", "01 1 012", "012 12 2"],
        ["012 012 02", "01 012 012", "012 12 012"],
        ["012 012 012", "012 012 012", "012 012 012"],
    ]
    for rounds, wanted in enumerate(after):
        held = ring(3, rounds).held
        told = [" ".join("".join(map(str, sorted(cell))) for cell in row) for row in held]
        assert told == wanted
    assert ring(3, 1).last == [Move(0, 0, 1), Move(1, 1, 2), Move(2, 2, 0)]
    assert ring(3, 0).last == [] and ring(3, 0).sent == [0, 0, 0]


@pytest.mark.parametrize("devices", DEVICES)
def test_all_rounds_and_not_one_fewer_give_the_sum(devices):
    everyone = [[frozenset(range(devices))] * devices] * devices
    assert ring(devices, all_rounds(devices)).held == everyone
    assert ring(devices, all_rounds(devices) - 1).held != everyone


@pytest.mark.parametrize("devices", DEVICES)
def test_the_sets_are_those_of_real_sums(devices):
    """Powers of two in place of the gradients: a number that is added twice would show."""
    held = [[2**device] * devices for device in range(devices)]
    for rounds in range(1, all_rounds(devices) + 1):
        before = [list(row) for row in held]
        for chunk, sender, receiver in ring(devices, rounds).last:
            mine = before[receiver][chunk] if rounds < devices else 0
            held[receiver][chunk] = before[sender][chunk] + mine
        sets = ring(devices, rounds).held
        assert held == [[sum(2**device for device in cell) for cell in row] for row in sets]


@pytest.mark.parametrize("devices", DEVICES)
def test_the_bytes_that_each_device_sends(devices):
    sent = ring(devices, all_rounds(devices), 100).sent
    assert sent == pytest.approx([2 * (devices - 1) / devices * 100] * devices)
    assert ring(devices, 1, 100).sent == pytest.approx([100 / devices] * devices)


@pytest.mark.parametrize("devices", DEVICES)
def test_in_each_round_everyone_sends_one_chunk_to_the_next(devices):
    for rounds in range(1, all_rounds(devices) + 1):
        moves = ring(devices, rounds).last
        assert [move.sender for move in moves] == list(range(devices))
        assert all(move.receiver == (move.sender + 1) % devices for move in moves)
        assert sorted(move.chunk for move in moves) == list(range(devices))


@pytest.mark.parametrize("chapter", ["02_tensorflow", "03_pytorch", "04_mxnet"])
def test_the_order_of_chunks_is_that_of_the_chapters(chapter):
    stored = (NOTEBOOKS / f"{chapter}.ipynb").read_text(encoding="utf-8")
    told = re.findall(r"the ring: (round 1 [^.]*)\.", json.dumps(json.loads(stored)))
    pattern = r"round (\d) device (\d) sends chunk (\d) \([\d,]+ bytes\) to device (\d)"
    assert told
    found = [tuple(map(int, each)) for each in re.findall(pattern, told[0])]
    ours = [
        (rounds, move.sender, move.chunk, move.receiver)
        for rounds in (1, 2)
        for move in ring(2, rounds).last
    ]
    assert found == ours


@pytest.mark.parametrize(("devices", "rounds"), [(1, 0), (0, 0), (4, 7), (4, -1)])
def test_what_cannot_be_is_refused(devices, rounds):
    with pytest.raises(ValueError, match=r"at least 2 devices|0 to 6 rounds, not"):
        ring(devices, rounds)


def test_the_text_says_what_the_picture_says():
    assert "holds its own gradient of 100.0 MB, in 4 chunks" in draw(4, 0, 100).text
    text = draw(4, 3, 100).text
    assert "Round 3 of 6, reduce-scatter: each device has sent 75.0 MB of 150.0 MB." in text
    assert "adds it to its own: chunk 2 from device 0, 3 from 1, 0 from 2, 1 from 3." in text
    assert "4 of 16 chunks hold the sum over all devices." in text
    text = draw(4, 4, 100).text
    assert "Round 4 of 6, all-gather" in text and "replaces its own by it" in text
    assert "16 of 16 chunks" in draw(4, 6, 100).text


@pytest.mark.parametrize("devices", [2, 5, 8])
def test_all_pictures_are_small_and_of_one_size(devices):
    wanted = draw(4, 0, 100).png[16:24]  # width and height, as a PNG says them
    for rounds in (0, 1, devices - 1, all_rounds(devices)):
        picture = draw(devices, rounds, 10_000)
        assert picture.png[16:24] == wanted
        assert len(picture.png) < 20_000


def test_the_rounds_follow_the_devices():
    devices, rounds, _ = explore.all_reduce().controls.values()
    devices.value = 8
    rounds.value = 14
    devices.value = 3
    assert (rounds.max, rounds.value) == (4, 4)
