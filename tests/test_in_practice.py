"""Each mutant breaks one line of §7: the checks go red, and green again when repaired."""

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
    ],
}


@pytest.mark.parametrize("stem", MUTANTS)
def test_each_broken_line_is_noticed(stem):
    unnoticed, started = [], 0
    with ChapterKernel(stem) as chapter:
        ids = list(chapter.sources)
        for define, old, new, checks in sorted(
            MUTANTS[stem], key=lambda mutant: ids.index((mutant[3] or [mutant[0]])[-1])
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
