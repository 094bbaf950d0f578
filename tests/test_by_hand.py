"""The functions of §4 and §5, in the kernel of each chapter.

Mutation test: break each line of the hand-made all-reduces and of the row weighting in turn, and
the chapter's own checks go red; without --thorough every fifth line. And rows that do not divide:
101 rows in batches of 10, 3 and 1 rows in batches of 4, trained and evaluated on two devices, each
row once.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from chapter_kernel import ChapterKernel
from uneven_rows import SOURCES

# The cells that check §4, in the order of the chapter: toys, messages, parity, uneven batches. The
# cells under test are among them.
CHECKS = {
    "02_tensorflow": [
        "s4-obvious-define",
        "s4-obvious-toy",
        "s4-ring-define",
        "s4-ring-toy",
        "s4-messages",
        "s4-bytes",
        "s4-step-define",
        "s4-train-define",
        "s5-hand-check",
        "s5-uneven-hand",
    ],
    "03_pytorch": [
        "s4-obvious-define",
        "s4-obvious-toy",
        "s4-obvious-check",
        "s4-ring-define",
        "s4-ring-toy",
        "s4-messages-run",
        "s4-messages-picture",
        "s4-bytes-count",
        "s4-step-define",
        "s4-train-define",
        "s5-hand-run",
        "s5-hand-check",
        "s5-uneven-run",
        "s5-uneven-hand",
    ],
    "04_mxnet": [
        "s4-obvious-define",
        "s4-obvious-toy",
        "s4-ring-define",
        "s4-ring-toy",
        "s4-ring-many",
        "s4-messages",
        "s4-bytes-count",
        "s4-step-define",
        "s4-train-define",
        "s5-hand-check",
        "s5-uneven-hand",
    ],
}

# For each cell under test its lines, from the top, with what is broken in each: (the start of the
# line, the start of the broken line).
TENSORFLOW = {
    "s4-obvious-define": [
        ("n, total = len(tensors), tensors[0]", "n, total = len(tensors), tensors[-1]"),
        ("for device in range(1, n):", "for device in []:"),
        ("received = send(tensors[device]", "received = send(tensors[0]"),
        ("with on(0):", "with on(1):"),
        ("total += received", "total = received"),
        ("for device in range(1, n):", "for device in []:"),
        ("tensors[device] = send(", "send("),
        ("tensors[0] = total", "pass"),
    ],
    "s4-ring-define": [
        ("n = len(tensors)", "n = 1"),
        ("chunks = at_once(lambda mine: cut(", "chunks = at_once(lambda mine: cut(2 * "),
        ("for round in range(2 * (n - 1)):", "for round in range(n - 1):"),
        ("for device in range(n):", "for device in range(1):"),
        ("chunk, receiver = (device - round) % n", "chunk, receiver = device"),
        ("received = send(chunks[device][chunk]", "received = send(chunks[device][0]"),
        ("if round < n - 1:", "if round <= n - 1:"),
        ("with on(receiver):", "with on(device):"),
        ("received += chunks[receiver][chunk]", "pass"),
        ("chunks[receiver][chunk] = received", "pass"),
        ("tensors[:] = at_once", "tensors = at_once"),
    ],
    "s4-step-define": [
        ("return batch", "return mine"),
        ("return batch", "return mine * 2"),
        ("return [each / divisor(len(mine), len(inputs)) for each in sums]", "return sums"),
        ("held = reduce_all(held, all_reduce)", "pass"),
    ],
}
PYTORCH = {
    "s4-obvious-define": [
        ("if rank > 0:", "if rank < 0:"),
        ('send(tensor, "all"', 'send(2 * tensor, "all"'),
        ("tensor.copy_(receive(tensor, sender=0))", "receive(tensor, sender=0)"),
        ("for other in range(1, world_size):", "for other in []:"),
        ("tensor += receive", "tensor = tensor + receive"),
        ("for other in range(1, world_size):", "for other in []:"),
        ('send(tensor, "sum"', 'send(tensor / 2, "sum"'),
    ],
    "s4-ring-define": [
        ("n = world_size", "n = 1"),
        ("chunks = tensor.view", "chunks = tensor.clone().view"),
        ("for round in range(2 * (n - 1)):", "for round in range(n - 1):"),
        ("mine, like = chunks[(rank - round) % n]", "mine, like = chunks[(rank - round) % n] / 2"),
        ("theirs = exchange(mine,", "theirs = exchange(torch.zeros_like(mine),"),
        ("if round < n - 1:", "if round <= n - 1:"),
        ("like += theirs", "like = like + theirs"),
        ("like.copy_(theirs)", "pass"),
    ],
    "s4-step-define": [
        ("return batch", "return mine"),
        ("return batch", "return mine * world_size"),
        ("tensor /= divisor(len(my_inputs), len(inputs))", "pass"),
        ("all_reduce(tensor)", "pass"),
    ],
}
MXNET = {
    "s4-obvious-define": [
        ("n, total = len(tensors), tensors[0]", "n, total = len(tensors), tensors[0].copy()"),
        ("for device in range(1, n):", "for device in []:"),
        ("total += send(", "total = total + send("),
        ("for device in range(1, n):", "for device in []:"),
        ("tensors[device][:] = send(", "send("),
    ],
    "s4-ring-define": [
        ("n = len(tensors)", "n = 1"),
        ("chunks = [cut(tensor.reshape(-1), n)", "chunks = [cut(tensor.copy().reshape(-1), n)"),
        ("for round in range(2 * (n - 1)):", "for round in range(n - 1):"),
        ("for sender in range(n):", "for sender in range(1):"),
        ("receiver, chunk = (sender + 1) % n, (sender - round)", "receiver, chunk = 0, sender"),
        ("here, there = chunks[sender][chunk]", "here, there = chunks[sender][0]"),
        ("if here.size:", "if not here.size:"),
        ("received = send(here,", "received = send(here / 2,"),
        ("there[:] = there + received if round < n - 1 else received", "there[:] = received"),
    ],
    "s4-step-define": [
        ("return batch", "return mine"),
        ("return batch", "return mine * 2"),
        ("divide(tensors, [divisor(len(mine), len(data)) for mine in inputs])", "pass"),
        ("all_reduce(tensors)", "pass"),
    ],
}
ALL = {"02_tensorflow": TENSORFLOW, "03_pytorch": PYTORCH, "04_mxnet": MXNET}
# Cells on which no check depends, and those that need not run again: left out, as they take long.
ASIDE = "s[35]-ex|s5-(batchnorm|dropout|order)"
NEEDLESS = (
    "s2-(train|accuracy)|s3-(train|result|ex)|s4-(alias|train-(run|pic))"
    "|s5-(negative|ex|broken-(two|run|check|pic))"
)
EVERY_LINE = ("s4-obvious-define", "s4-ring-define")


class Mutant(NamedTuple):
    """In this cell the ``place``-th line that begins with ``whole`` begins with ``broken``."""

    chapter: str
    cell: str
    whole: str
    broken: str
    place: int

    def __str__(self) -> str:
        return f"{self.chapter}, {self.cell}, line {self.place}: {self.broken}"

    def source(self, source: str) -> str:
        """The cell with its line broken."""
        lines, seen = source.splitlines(), -1
        for number, line in enumerate(lines):
            seen += line.strip().startswith(self.whole)
            if seen == self.place:
                lines[number] = line.replace(self.whole, self.broken, 1)
                return "\n".join(lines)
        raise AssertionError(f"{self.cell} has no such line: {self.whole}")


def mutants(chapter: str) -> list[Mutant]:
    found = []
    for cell, lines in ALL[chapter].items():
        for number, (whole, broken) in enumerate(lines):
            place = [earlier for earlier, _ in lines[:number]].count(whole)
            if cell not in EVERY_LINE:  # there a line may be broken in several ways
                place = 0
            found.append(Mutant(chapter, cell, whole, broken, place))
    return found


@pytest.fixture(scope="module")
def chapter(request: pytest.FixtureRequest) -> Iterator[ChapterKernel]:
    """The kernel of this chapter, run up to where §5 evaluates."""
    with ChapterKernel(request.param) as kernel:
        if "s3-join" in kernel.sources:  # a broken exchange lets a worker wait: not for long
            waits = kernel.sources["s3-join"]
            assert "seconds=30" in waits
            kernel.sources["s3-join"] = waits.replace("seconds=30", "seconds=5")
        kernel.run_up_to("s5-evaluate-check", without=ASIDE)
        yield kernel


# pytest runs the tests of one chapter together, because its kernel is a fixture of the module.
@pytest.mark.parametrize("chapter", ALL, indirect=True, scope="module")
@pytest.mark.parametrize(("rows", "batch"), [(101, 10), (3, 4), (1, 4)])
def test_each_row_counts_once(chapter: ChapterKernel, rows: int, batch: int) -> None:
    told = ""
    for source in SOURCES[chapter.stem]:
        told = chapter.execute(source.replace("ROWS", str(rows)).replace("BATCH", str(batch)))
    found = json.loads(told)
    assert len(found["one"]) == math.ceil(rows / batch)
    assert all(math.isfinite(loss) for loss in found["one"])
    for losses in found["two"].values():
        assert losses == pytest.approx(found["one"], abs=1e-5, rel=0)
    assert found["score"][0] == rows
    for counted, loss, right in found["scores"].values():
        assert (counted, right) == (rows, found["score"][2])
        assert loss == pytest.approx(found["score"][1], abs=1e-5, rel=0)


@pytest.mark.parametrize(
    ("chapter", "mutant"),
    [
        pytest.param(
            name, mutant, id=str(mutant), marks=[pytest.mark.thorough] if number % 5 else []
        )
        for name in ALL
        for number, mutant in enumerate(mutants(name))
    ],
    indirect=["chapter"],
    scope="module",
)
def test_a_broken_line_turns_the_checks_red(chapter: ChapterKernel, mutant: Mutant) -> None:
    sources = {name: chapter.sources[name] for name in CHECKS[mutant.chapter]}
    broken = {**sources, mutant.cell: mutant.source(sources[mutant.cell])}
    red = chapter.first_failure(*broken.values())
    assert red is not None
    repaired = list(sources.values())[: red + 1]
    if chapter.fails(*repaired):  # workers may still wait for a message that was lost
        chapter.run_up_to(CHECKS[mutant.chapter][-1], without=NEEDLESS)


@pytest.mark.parametrize("cell", EVERY_LINE)
@pytest.mark.parametrize("chapter_name", ALL)
def test_every_line_is_broken_once(chapter_name: str, cell: str) -> None:
    source = re.sub(r'""".*?"""', "", ChapterKernel(chapter_name).sources[cell])
    lines = [line.strip() for line in source.splitlines()]
    lines = [
        line for line in lines if line and not re.match(r"#|%%|def |else:|from |import ", line)
    ]
    whole = [start for start, _ in ALL[chapter_name][cell]]
    assert len(lines) == len(whole)
    assert all(line.startswith(start) for line, start in zip(lines, whole, strict=True))
