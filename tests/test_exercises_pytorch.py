"""The exercises of chapter 3: right answers, each usual wrong one with its own hint, nonsense."""

from collections.abc import Iterator

import pytest
from chapter_kernel import ChapterKernel
from exercise_answers import NONSENSE, said_by

from helpers import workers
from helpers.exercises import pytorch
from helpers.exercises.exercise import verdict

MAIN = ChapterKernel("03_pytorch").sources
PRACTICE = ChapterKernel("03_pytorch_in_practice").sources
IMPORT = "from helpers import exercises\n"
# What the exercise of §3 needs: the workers, their group, the network, DDP.
BEFORE = ["require", "devices-of-this-run", "s3-start-run", "s3-two-memories", "s3-join"]
BEFORE += ["s3-model", "s3-weights", "s3-rows-load", "s3-wrap-one-step"]
SET_UP = ["setup-imports", "setup-join", "setup-here", "setup-net-define", "setup-data"]

WORKED = MAIN["s3-ex-two-devices-worked"].split("\n\n\n")[0].replace("worked_", "my_")
SHARE = ".tensor_split(2)[rank]"
WRAP = "DistributedDataParallel(start(SimpleNet()).to(device))"
# The worked answer with one thing wrong: what is there, and what stands there instead.
WRONG = {
    "one worker does nothing": (SHARE, "[: 128 * (1 - rank)]"),
    "all rows on both": (SHARE, ""),
    "the same half on both": (SHARE, ".tensor_split(2)[0]"),
    "a row is lost": (SHARE, ".tensor_split(2)[rank][rank:]"),
    "a step too many": ("range(3)", "range(4)"),
    "no all-reduce": (WRAP, "start(SimpleNet()).to(device)"),
    "the sum": ("loss.backward()", "(2 * loss).backward()"),
    "divided twice": ("loss.backward()", "(loss / 2).backward()"),
    "shares of two sizes": (SHARE, ".tensor_split([100])[rank]"),
    "another network": ("return net", "return nn.Linear(2, 1)"),
    "a name of the notebook": ("range(3)", "range(STEPS)"),
    "too few arguments": ("(inputs, labels):", "(inputs):"),
    "raises": ("    for _", '    raise ValueError("no such device")\n    for _'),
}
BY_HAND = (
    "        optimizer.step()",
    "        for weight in net.parameters():\n"
    "            dist.all_reduce(weight.grad)\n"
    "            weight.grad /= 2\n"
    "        optimizer.step()",
)


@pytest.fixture(scope="module")
def chapter() -> Iterator[ChapterKernel]:
    """The kernel of the chapter with its two workers, as far as the exercises need them."""
    with ChapterKernel("03_pytorch") as kernel:
        waits = kernel.sources["s3-join"]
        assert "seconds=30" in waits
        kernel.sources["s3-join"] = waits.replace("seconds=30", "seconds=5")
        kernel.run(*BEFORE)
        kernel.execute(IMPORT)
        yield kernel
        kernel.run("stop")


def judged(chapter: ChapterKernel, source: str, name: str = "my_training") -> str:
    """What the check says about the function of this name, after this source has run."""
    return chapter.execute(f'{source}\nexercises.check("pytorch/two-devices", ({name}, team))')


def test_one_training_on_two_workers(chapter):
    told = chapter.run(*(f"s3-ex-two-devices-{part}" for part in ("answer", "check", "worked")))
    not_yet, right = told.splitlines()
    assert not_yet.startswith("Not answered yet") and right.startswith("Right. ")
    assert judged(chapter, WORKED.replace(SHARE, "[rank::2]")).startswith("Right. ")
    by_hand = WORKED.replace(WRAP, "start(SimpleNet()).to(device)").replace(*BY_HAND)
    assert judged(chapter, by_hand).startswith("Right. ")


def test_each_wrong_training_has_its_own_hint(chapter):
    said = {}
    for name, (whole, broken) in WRONG.items():
        assert WORKED.count(whole) == 1, name
        said[name] = judged(chapter, WORKED.replace(whole, broken))
    assert all(hint.startswith("Not yet. ") for hint in said.values()), said
    assert len(set(said.values())) == len(said), said
    assert "line 7 of my_training: raise ValueError" in said["raises"]
    assert pytorch.UNKNOWN_NAME in said["a name of the notebook"]
    assert pytorch.ALL_ROWS in said["all rows on both"]
    assert pytorch.COPIES_DIFFER in said["no all-reduce"]
    assert pytorch.MOVED[2] in said["the sum"] and pytorch.MOVED[0.5] in said["divided twice"]


@pytest.mark.parametrize("answer", ["None", "''", "-1", "[]", "object()", "print", "lambda *_: 3"])
def test_no_training(chapter, answer):
    assert judged(chapter, "", answer).startswith("Not yet. ")


def test_the_idle_worker_is_idle_and_the_repair_is_one(chapter):
    for name in SET_UP:
        chapter.execute(PRACTICE[name])
    told = [
        chapter.execute(PRACTICE[f"s8-ex-idle-device-{part}"])
        for part in ("define", "run", "answer", "check", "worked")
    ]
    assert "computed: 4096" in told[1] and "computed: 0" in told[1]
    assert told[3].startswith("Not answered yet")
    assert told[4].startswith("Right. ") and "[2048, 2048]" in told[4]


def test_a_worker_that_waits_in_vain(chapter):
    """After it the group of the workers is lost, so it comes last."""
    waits = "    return [torch.distributed.barrier() for _ in range(rank)]"
    said = judged(chapter, WORKED.replace("    return net", waits))
    assert said == f"Not yet. {pytorch.IN_VAIN} {workers.START_AGAIN}\n"
    chapter.run("stop")
    assert "are not running. Run the cell with workers.start" in judged(chapter, WORKED)


def test_an_error_and_a_worker_that_waits_for_it():
    errors = ["line 1 of report: ...\nline 3 of mine: boom()\nValueError: no", "Timed out"]
    said = pytorch.failed(errors, "mine")
    assert said.startswith("A worker failed: line 3 of mine: boom(); ValueError: no. ")
    assert pytorch.IN_VAIN in said and pytorch.UNKNOWN_NAME not in said


@pytest.mark.parametrize("answer", [*NONSENSE, (), (1, 2), (len, None)])
def test_a_training_without_its_workers(answer):
    said = verdict("pytorch/two-devices", answer)
    assert said.startswith("Not yet. The answer should be a function and the two workers")


def test_the_worked_split_is_right():
    not_yet, right = said_by("03_pytorch_in_practice", "s8-ex-pick-a-split")
    assert not_yet.startswith("Not answered yet") and right.startswith("Right. ")


def test_each_innocent_line_has_its_own_hint():
    lines = [line for line in PRACTICE["s8-ex-idle-device-define"].splitlines() if "  # " in line]
    numbers = list(range(1, len(lines) + 1))
    assert [int(line.rsplit("# ", 1)[1]) for line in lines] == numbers
    assert sorted([pytorch.IDLE_LINE, *pytorch.INNOCENT]) == numbers
    said = {number: verdict("pytorch/idle-device", number) for number in numbers}
    assert said.pop(pytorch.IDLE_LINE).startswith("Right. ")
    assert all(hint.startswith(f"Not yet. Line {number}: ") for number, hint in said.items())
    assert len({hint.partition(": ")[2] for hint in said.values()}) == len(said)


@pytest.mark.parametrize("answer", [*NONSENSE, 0, 11, 2.5, True])
def test_no_line(answer):
    said = verdict("pytorch/idle-device", answer)
    assert said.startswith("Not yet. The answer should be the number of a line")


def test_three_dots():
    for name, answer in (
        ("two-devices", (..., None)),
        ("wrong-mean", lambda losses, rows: ...),
        ("idle-device", ...),
        ("pick-a-split", [..., ..., ..., ...]),
    ):
        assert verdict(f"pytorch/{name}", answer).startswith("Not answered yet")
