"""The exercises of chapter 4: the worked answers are right, each usual error has its own hint."""

import json
from collections.abc import Iterator

import pytest
from chapter_kernel import ChapterKernel

from helpers import exercises
from helpers.exercises import mxnet
from helpers.exercises.exercise import verdict

CHAPTER, PRACTICE = "04_mxnet", "04_mxnet_in_practice"
NEEDED = ["require", "devices-of-this-run", "s1-detect", "s1-empty"]
EXERCISE = ["s3-ex-two-devices-answer", "s3-ex-two-devices-check"]
NEEDED_IN_PRACTICE = ["setup-data", "setup-net-define", "setup-make-net-define"]
NEEDED_IN_PRACTICE += ["s8-wide-net-define", "s8-areas-define", "s8-ex-idle-device-script"]

WORKED = ChapterKernel(CHAPTER).sources["s3-ex-two-devices-worked"]
PRACTICE_CELLS = ChapterKernel(PRACTICE).sources
EACH = "for p in net.collect_params().values() for w, g in zip(p.list_data(), p.list_grad())"

# What is changed in the worked step, and the hint that says so.
WRONG_STEPS = {
    "cut, not sent": (
        {
            "split_and_load(data, contexts": "split_data(data, 2",
            "split_and_load(label, contexts": "split_data(label, 2",
        },
        mxnet.SHARES["idle"],
    ),
    "cut, not sent, silenced": (
        {
            "split_and_load(data, contexts": "split_data(data, 2",
            "split_and_load(label, contexts": "split_data(label, 2",
            "step(1)": "step(1, ignore_stale_grad=True)",
        },
        mxnet.SHARES["idle"],
    ),
    "all rows in each": (
        {
            "gluon.utils.split_and_load(data, contexts)": "[data.copyto(c) for c in contexts]",
            "gluon.utils.split_and_load(label, contexts)": "[label.copyto(c) for c in contexts]",
        },
        mxnet.SHARES["copied"],
    ),
    "rows left out": (
        {"(data, contexts": "(data[:64], contexts", "(label, contexts": "(label[:64], contexts"},
        mxnet.SHARES["not once"],
    ),
    "not computed": ({"xs = ": "return 2.3\n    xs = "}, mxnet.SHARES["unused"]),
    "one backward": ({"in losses:": "in losses[:1]:"}, mxnet.NO_GRADIENT),
    "no sum": ({"trainer.step(1)": f"[w.__isub__(0.1 * g) {EACH}]"}, mxnet.COPIES_DIFFER),
    "no step": ({"trainer.step(1)": ""}, mxnet.NOT_MOVED),
    "two means": ({".sum() / len(data)": ".mean()"}, mxnet.MOVED[2]),
    "divided twice": ({"step(1)": "step(2)"}, mxnet.MOVED[0.5]),
    "sum": ({".sum() / len(data)": ".sum()"}, "The weights move 128 times as far as on one device"),
    "other rows": ({"net(x)": "net(x / 2)"}, "The weights are not those of one device"),
    "loss of two means": (
        {"return sum": "return 2 * sum"},
        "The weights are right. The loss is twice too large",
    ),
    "loss of one half": (
        {"in losses)": "in losses[:1])"},
        "The weights are right. The loss is not the mean over the rows",
    ),
    "no number": ({"return sum": "return str"}, "The answer should be a function that returns one"),
}

NONSENSE = """
def raises(*_):
    raise ValueError("no such context")


nonsense = [None, "", "abc", -1, [], {}, float("nan"), True, lambda: 1, raises, object()]
"""
names: dict = {}
exec(NONSENSE, names)


def changed(replacements: dict[str, str]) -> str:
    """The definition in the worked cell, with these parts replaced."""
    source = WORKED.split("\n\n\n")[0]
    for old, new in replacements.items():
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


@pytest.fixture(scope="module")
def kernel() -> Iterator[ChapterKernel]:
    """Chapter 4 up to its first exercise, then the set-up of the notebook in practice."""
    with ChapterKernel(CHAPTER) as kernel:
        kernel.run(*NEEDED)
        kernel.execute("loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()")
        kernel.run(*EXERCISE)
        kernel.execute("import json\nfrom helpers.exercises.exercise import verdict")
        yield kernel


@pytest.fixture(scope="module")
def practice(kernel: ChapterKernel) -> ChapterKernel:
    for name in NEEDED_IN_PRACTICE:
        kernel.execute(PRACTICE_CELLS[name])
    return kernel


def test_two_devices_as_worked(kernel):
    assert kernel.run("s3-ex-two-devices-check").startswith("Not answered yet: ")
    for _ in range(2):
        assert kernel.run("s3-ex-two-devices-worked").startswith("Right. Both contexts compute")


def test_each_wrong_step_has_its_own_hint(kernel):
    sources = {name: changed(replaced) for name, (replaced, _) in WRONG_STEPS.items()}
    kernel.execute(f"sources, said = {sources!r}, {{}}")
    kernel.execute(
        "for name, source in sources.items():\n"
        "    exec(source)\n"
        "    said[name] = verdict('mxnet/two-devices', worked_step)\n"
    )
    said = json.loads(kernel.execute("print(json.dumps(said))"))
    for name, (_, hint) in WRONG_STEPS.items():
        assert said[name].startswith(f"Not yet. {hint}"), (name, said[name])
    assert len(set(said.values())) == len(said) - 1  # an idle context, with its message or without


@pytest.mark.parametrize(
    "replaced",
    [
        {".sum() / len(data)": ".mean()", "step(1)": "step(2)", "in losses)": "in losses) / 2"},
        {
            ".sum() / len(data)": "",
            "step(1)": "step(len(data))",
            "loss.asscalar()": "loss.sum().asscalar() / len(data)",
        },
    ],
    ids=["two means", "sums"],
)
def test_other_right_steps(kernel, replaced):
    kernel.execute(changed(replaced))
    said = kernel.execute("exercises.check('mxnet/two-devices', worked_step)")
    assert said.startswith("Right. ")


def test_one_device_is_not_two(kernel):
    said = kernel.execute("exercises.check('mxnet/two-devices', one_device_step)")
    assert said == f"Not yet. {mxnet.SHARES['idle']}\n"


def test_nonsense_is_no_step(kernel):
    kernel.execute(NONSENSE)
    said = kernel.execute("for one in nonsense: exercises.check('mxnet/two-devices', one)")
    assert len(said.splitlines()) == len(names["nonsense"])
    assert all(line.startswith("Not yet. ") for line in said.splitlines())


def test_the_faulty_line_is_the_one_that_only_cuts():
    lines = PRACTICE_CELLS["s8-ex-idle-device-script"].splitlines()
    assert [n for n, line in enumerate(lines, 1) if "split_data" in line] == [mxnet.IDLE_LINE]
    assert sorted([mxnet.IDLE_LINE, *mxnet.INNOCENT]) == list(range(1, len(lines) + 1))


def test_each_innocent_line_has_its_own_hint():
    said = {line: verdict("mxnet/idle-device", line) for line in mxnet.INNOCENT}
    assert said == {n: f"Not yet. Line {n}: {hint}" for n, hint in mxnet.INNOCENT.items()}
    assert len(set(mxnet.INNOCENT.values())) == len(mxnet.INNOCENT)
    assert verdict("mxnet/idle-device", mxnet.IDLE_LINE).startswith("Right. split_data cuts")
    for line in (0, 9, 2.5):
        assert verdict("mxnet/idle-device", line).endswith("the number of a line, from 1 to 8.")


def test_the_idle_device_as_worked(practice):
    evidence = practice.execute(PRACTICE_CELLS["s8-ex-idle-device-evidence"])
    assert evidence.endswith("rows on device 0 and on device 1: [128, 0]\n")
    for name in ("answer", "check"):
        said = practice.execute(PRACTICE_CELLS[f"s8-ex-idle-device-{name}"])
    assert said.startswith("Not answered yet")
    said = practice.execute(PRACTICE_CELLS["s8-ex-idle-device-worked"])
    assert said.startswith("Right. split_data cuts")
    assert said.endswith("rows on device 0 and on device 1: [64, 64]\n")


def test_the_idle_device_would_have_been_told(practice):
    silent = PRACTICE_CELLS["s8-ex-idle-device-script"]
    loud = silent.replace(", ignore_stale_grad=True", "").replace("suspect_step", "loud_step")
    assert practice.fails(loud, "rows_on_each(loud_step)")
    assert not practice.fails("rows_on_each(suspect_step)")


def test_pick_a_split_as_worked(capsys):
    scope = {"exercises": exercises}
    for name, said in {"answer": "", "check": "Not answered yet: ", "worked": "A: half"}.items():
        exec(PRACTICE_CELLS[f"s8-ex-pick-a-split-{name}"], scope)
        told = capsys.readouterr().out
        assert told.startswith(said)
    assert told.splitlines()[-1].startswith("Right. ")
