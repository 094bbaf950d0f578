"""The ring all-reduce, round by round: who sends what, and which sums each device then holds."""

from typing import NamedTuple

from helpers.explore.explorer import Explorer
from helpers.pictures import COLOURS, Picture, new_figure


class Move(NamedTuple):
    """One message: the number of the chunk, and the two devices."""

    chunk: int
    sender: int
    receiver: int


class Ring(NamedTuple):
    """What has happened after some rounds. ``held[device][chunk]`` is the set of the devices whose
    numbers are summed there, ``sent[device]`` what it has sent so far, in the unit of the gradient,
    and ``last`` the messages of the last round."""

    held: list[list[frozenset[int]]]
    sent: list[float]
    last: list[Move]


def all_rounds(devices: int) -> int:
    """Rounds of a whole ring all-reduce: n - 1 of reduce-scatter and n - 1 of all-gather. Raises
    ValueError for fewer than two devices."""
    if devices < 2:
        raise ValueError(f"A ring has at least 2 devices, not {devices}.")
    return 2 * (devices - 1)


def ring(devices: int, rounds: int, size: float = 1) -> Ring:
    """The state after so many rounds of the ring of §4 of the chapters, with its order of chunks.

    Each device has a gradient of this size, cut into as many equal chunks as there are devices. In
    a round each device sends one chunk to the next device, which adds it to its own
    (reduce-scatter) or puts it in the place of its own (all-gather). In all rounds together each
    device sends 2(n - 1)/n of the size (Patarasuk and Yuan, 2009). Raises ValueError for fewer than
    two devices and for rounds that there are not.
    """
    if not 0 <= rounds <= all_rounds(devices):
        raise ValueError(f"{devices} devices have 0 to {all_rounds(devices)} rounds, not {rounds}.")
    held = [[frozenset([device])] * devices for device in range(devices)]
    sent, last = [0.0] * devices, []
    for number in range(rounds):
        last = [Move((d - number) % devices, d, (d + 1) % devices) for d in range(devices)]
        for chunk, sender, receiver in last:  # no device sends on what it gets in the same round
            mine = held[receiver][chunk] if number < devices - 1 else frozenset()
            held[receiver][chunk] = held[sender][chunk] | mine
            sent[sender] += size / devices
    return Ring(held, sent, last)


def draw(devices: int, rounds: int, size: float) -> Picture:
    """Draw a grid of devices and chunks, what moved in the last round, and what was sent so far.
    The size is that of the gradient in MB."""
    state = ring(devices, rounds, size)
    figure = new_figure(8, 4)
    figure.set_layout_engine("none")  # the axes stay where they are
    ends = {"xlim": (-0.5, devices - 0.5), "ylim": (devices - 0.1, -0.9)}
    axes = figure.add_axes((0.1, 0.08, 0.88, 0.76), **ends)
    axes.axis("off")
    centred = {"ha": "center", "va": "center", "fontsize": 9}
    for device, row in enumerate(state.held):
        axes.text(-0.52, device, f"device {device}", ha="right", va="center", fontsize=9)
        figure.text(0.1 + 0.88 * (device + 0.5) / devices, 0.87, f"chunk {device}", **centred)
        new = {move.chunk for move in state.last if move.receiver == device}
        axes.broken_barh(
            [(chunk - 0.42, 0.84) for chunk in range(devices)],
            (device - 0.29, 0.58),
            facecolors=[ground(len(cell), devices) for cell in row],
            edgecolor="black",
            linewidth=[2.5 if chunk in new else 0.5 for chunk in range(devices)],
        )
        for chunk, cell in enumerate(row):
            axes.text(chunk, device, f"{len(cell)}/{devices}", **centred)
    arrow = {"arrowstyle": "-|>", "color": "black", "shrinkA": 0, "shrinkB": 0, "linewidth": 1.5}
    for chunk, sender, receiver in state.last:
        # From the last device back to the first: out at the bottom, and in at the top.
        gaps = [sender] if sender < receiver else [sender, receiver - 1]
        for gap in gaps:
            there, back = (chunk, gap + 0.7), (chunk, gap + 0.3)
            axes.annotate("", xy=there, xytext=back, arrowprops=arrow)
    figure.text(0.54, 0.95, _title(devices, rounds, state.sent[0]), ha="center", va="center")
    note = f"1/{devices}: summed over 1 of {devices} devices"
    if rounds:
        note += "; thick frame: just received; what leaves at the bottom comes in at the top"
    figure.text(0.54, 0.035, note, **centred)
    return Picture(figure, _told(devices, rounds, size, state))


def ground(count: int, devices: int) -> str:
    """The colour of a cell, the darker the more is summed in it; another when it is finished."""
    if count == devices:
        return COLOURS[2]
    full = (int(COLOURS[4][i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - part) * count / devices):02x}" for part in full)


def _title(devices: int, rounds: int, sent: float) -> str:
    if not rounds:
        return f"Before the first of {all_rounds(devices)} rounds"
    phase = "reduce-scatter" if rounds < devices else "all-gather"
    return f"Round {rounds} of {all_rounds(devices)}, {phase}: each device has sent {sent:,.1f} MB"


def _told(devices: int, rounds: int, size: float, state: Ring) -> str:
    total = f"{size * all_rounds(devices) / devices:,.1f} MB"
    finished = sum(len(cell) == devices for row in state.held for cell in row)
    told = _title(devices, rounds, state.sent[0])
    if not rounds:
        return (
            f"{told}: each of {devices} devices holds its own gradient of {size:,.1f} MB, in "
            f"{devices} chunks. In the end each will have sent {total}."
        )
    first, *others = state.last
    moves = [f"chunk {first.chunk} from device {first.sender}"]
    moves += [f"{move.chunk} from {move.sender}" for move in others]
    verb = "adds it to its own" if rounds < devices else "replaces its own by it"
    return (
        f"{told} of {total}. Each sends a chunk to the next, which {verb}: {', '.join(moves)}. "
        f"{finished} of {devices**2} chunks hold the sum over all devices."
    )


def all_reduce() -> Explorer:
    """Explore the ring all-reduce round by round."""
    from ipywidgets import FloatLogSlider, IntSlider

    devices = IntSlider(4, min=2, max=8, description="devices")
    rounds = IntSlider(1, min=0, max=all_rounds(devices.value), description="rounds done")
    # Before the picture is drawn: this observer comes first.
    devices.observe(lambda change: rounds.set_trait("max", all_rounds(change.new)), "value")
    size = FloatLogSlider(100, min=0, max=4, readout_format=",.1f", description="gradient, MB")
    return Explorer(draw, devices=devices, rounds=rounds, size=size)
