"""Each mutant breaks one line of §7 or §9: the checks go red, and green again when repaired.

Without --thorough it is every fifth mutant.
"""

import pytest
from chapter_kernel import ChapterKernel

# (cell with the line, the line's part, what it becomes, cells that then must not all pass)
Mutant = tuple[str, str, str, list[str]]

MUTANTS: dict[str, list[Mutant]] = {
    "02_tensorflow_in_practice": [
        ("s7-two-define", "return one.device", "return True or one.device", ["s7-alone-run"]),
        ("s7-never-two-run", "a.end <= b.start", "True", []),
        ("s7-never-two-run", "a.device != b.device or ", "", []),
        ("s7-queue-define", "free.get()", "free.get(); free.put(device)", ["s7-toy-run"]),
        ("s7-fresh-define", '"check": True', '"check": False', ["s7-toy-run"]),
        ("s9-batches-define", ".skip(position)", "", ["s9-batches-check"]),
        ("s9-parts-define", "random_state(net)", "[]", ["s9-usual-keras", "s9-checkpoint-check"]),
        ("s9-whole-define", 'path.with_suffix(".part")', "path", ["s9-kill-run"]),
        ("s9-inside-define", "packed.testzip() is None", "True", ["s9-refused-run"]),
        ("s9-misfit-define", "if here != there", "if False", ["s9-refused-run"]),
        ("setup-step-define", "/ rows", "/ len(x)", ["s9-across-define", "s9-across-run"]),
    ],
    "03_pytorch_in_practice": [
        (
            "s7-together-define",
            "one.start < two.end and two.start < one.end",
            "True",
            ["s7-together-check"],
        ),
        ("s7-crowd-define", "one.device == two.device and ", "", ["s7-crowd-check"]),
        ("s7-crowd-define", "overlap(one, two)", "False", ["s7-crowd-check"]),
        (
            "s7-fresh-define",
            "free.get()",
            "free.get(); free.put((number, visible))",
            ["s7-fresh-run", "s7-fresh-fail-run"],
        ),
        ("setup-share-define", "[rank]", "[0]", ["setup-try-workers", "setup-try-check"]),
        ("setup-share-define", " / world_size", "", ["setup-try-workers", "setup-try-check"]),
        ("s9-batch-define", "place * size : (place + 1) * size", ":size", ["s9-batch-check"]),
        ("s9-random-define", "mine)", "torch.zeros(1))", ["s9-first-run", "s9-first-check"]),
        (
            "s9-write-define",
            'f"{path}.new"',
            "path",
            ["s9-first-run", "s9-first-check", "s9-kill-run"],
        ),
        ("s9-plain-define", "    while", "    if", ["s9-names-run", "s9-names-check"]),
        (
            "s9-fill-define",
            "    optimizer.load_state_dict",
            "    str",
            ["s9-resume-define", "s9-resume-run", "s9-resume-check"],
        ),
        ("s9-inside-define", "file.testzip() is not None", "False", ["s9-bad-run"]),
        ("s9-read-define", "state.keys() == PARTS", "True", ["s9-bad-run"]),
        ("s9-fit-define", "one != two", "False", ["s9-bad-run"]),
    ],
    "04_mxnet_in_practice": [
        ("s7-at-once-define", "assert max", "assert True or max", ["s7-alone-run"]),
        ("s7-never-two-define", "assert end <= start", "assert True", ["s7-never-two-run"]),
        ("s7-same-define", "return", "return True or", ["s7-same-run"]),
        (
            "s7-queue-define",
            "free.get()",
            "free.get(); free.put((device, variable))",
            ["s7-queue-free", "s7-queue-run"],
        ),
        ("s9-write-define", 'path.with_name(path.name + ".part")', "path", ["s9-kill-whole"]),
        ("s9-unpack-define", "training.order =", "_ =", ["s9-pack-check"]),
        ("s9-pack-define", "for name, array in states", "for name, array in {}", ["s9-pack-check"]),
        ("s9-save-define", "    check_fits", "    print", ["s9-damaged-run"]),
        ("s9-read-define", "allow_pickle=False", "allow_pickle=True", ["s9-damaged-pickled"]),
        ("s9-fits-define", ".shape != array.shape", ".ndim != array.ndim", ["s9-damaged-run"]),
    ],
}


@pytest.mark.parametrize("stem", MUTANTS)
def test_each_broken_line_is_noticed(stem, pytestconfig):
    unnoticed, started = [], 0
    mutants = MUTANTS[stem] if pytestconfig.option.thorough else MUTANTS[stem][::5]
    with ChapterKernel(stem) as chapter:
        ids = [name for name in chapter.sources if not name.startswith("s8")]  # §9 can do without
        for define, old, new, checks in sorted(
            mutants, key=lambda mutant: ids.index((mutant[3] or [mutant[0]])[-1])
        ):
            last = ids.index((checks or [define])[-1]) + 1
            chapter.run(*ids[started:last])
            started = max(started, last)
            assert chapter.sources[define].count(old) == 1, (define, old)
            broken = chapter.sources[define].replace(old, new)
            if not chapter.fails(broken, *(chapter.sources[name] for name in checks)):
                unnoticed.append((define, old, new))
            chapter.run(define, *checks)
    assert unnoticed == []
