"""``make benchmark``: what takes how long on this machine, as ratios within one run. Not a test.

Prints a table; with ``--json FILE`` the same as JSON in a file. Let the machine do nothing else
meanwhile, about twenty minutes. Some parts alone: ``make benchmark ARGS="speed bubble"``.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # so that the modules of the tests are found

from chapter_kernel import CHAPTERS, ChapterKernel
from processes import memory_of

from helpers import driver, survey, timing
from helpers.frameworks import MODULES, NAMES

STEMS = {"tensorflow": "02_tensorflow", "pytorch": "03_pytorch", "mxnet": "04_mxnet"}
MARK = "BENCHMARK_MARK"


@dataclass(frozen=True)
class Figure:
    """One line of the table: a value with its unit; ``low`` and ``high`` are its spread, where it
    was measured more than once, ``note`` is what it may be compared with."""

    part: str
    what: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    note: str = ""

    def __str__(self) -> str:
        spread = "" if self.low is None else f"{self.low:.2f} to {self.high:.2f}"
        return (
            f"{self.part:9} {self.what:38} {self.value:8.2f} {self.unit:4} {spread:14} {self.note}"
        )


def median(action: Callable[[], object], repeats: int = 3) -> float:
    """Median wall time of ``action`` in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def import_alone(framework: str) -> None:
    command = [sys.executable, "-m", "helpers.frameworks", framework]
    subprocess.run(command, capture_output=True, check=True)


def survey_times() -> Iterator[Figure]:
    """The survey against its parts."""
    survey.survey()  # warm-up: the first import of a framework reads its files from disk
    alone = {name: median(lambda n=name: import_alone(n)) for name in MODULES}
    whole = median(survey.survey)
    for name, seconds in alone.items():
        yield Figure("survey", f"{NAMES[name]} asked alone", seconds, "s")
    yield Figure("survey", "driver alone", median(lambda: driver.hear(driver.ask())), "s")
    yield Figure("survey", "whole survey", whole, "s")
    slowest = max(alone.values())
    yield Figure("survey", "whole / slowest framework alone", whole / slowest, "", note="limit 1.2")


def peak_of(command: list[str], mark: str) -> tuple[float, float]:
    """Run the command: its seconds, and the peak memory (PSS, MiB) of all its processes."""
    start, over, peak = time.perf_counter(), threading.Event(), [0.0]

    def watch() -> None:
        while not over.wait(0.5):
            peak[0] = max(peak[0], memory_of(MARK, mark))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        subprocess.run(command, env=os.environ | {MARK: mark}, capture_output=True, check=True)
    finally:
        over.set()
        watching.join()
    return time.perf_counter() - start, peak[0]


def chapters() -> Iterator[Figure]:
    """Each notebook alone: its time, and the memory of all its processes."""
    for path in sorted(CHAPTERS.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            output = ["--output", f"{folder}/run.ipynb"]
            command = [sys.executable, "-m", "jupyter", "execute", *output, str(path)]
            seconds, peak = peak_of(command, path.stem)
        yield Figure("chapters", path.stem, seconds, "s", note="limit 90")
        yield Figure("chapters", f"{path.stem}, peak", peak, "MiB", note="limit 1536")


def verification() -> Iterator[Figure]:
    """The strict verification of all notebooks, in two processes, against each of them alone."""
    times = {}
    for path in ["notebooks", *sorted(CHAPTERS.glob("*.ipynb"))]:
        start = time.perf_counter()
        command = [sys.executable, "-m", "pytest", "-q", str(path)]
        subprocess.run(command, cwd=CHAPTERS.parent, capture_output=True, check=True)
        times[path] = time.perf_counter() - start
    together = times.pop("notebooks")
    yield Figure("verify", "all notebooks, two processes", together, "s")
    one_by_one = together / sum(times.values())
    yield Figure("verify", "all / one after the other", one_by_one, "", note="limit 0.5")


BUBBLES = {
    "tensorflow": "{m: [timeline.idle(noted(m)) for _ in range(5)] for m in (1, 2, 4, 8)}",
    "pytorch": "{m: [timeline.idle(a + b) for a, b in zip(of_0[m], of_1[m])] for m in of_0}",
    "mxnet": "{m: [timeline.idle(noted(m)) for _ in range(5)] for m in (1, 2, 4, 8)}",
}


def bubble() -> Iterator[Figure]:
    """The idle share of the pipeline of §6, measured, against the formula."""
    for framework, stem in STEMS.items():
        with ChapterKernel(stem) as chapter:
            chapter.run_up_to("s6-bubble-run")
            told = chapter.execute(f"import json\nprint(json.dumps({BUBBLES[framework]}))")
        for m, shares in json.loads(told.splitlines()[-1]).items():
            formula = 100 / (int(m) + 1)
            values = [100 * share for share in shares]
            what = f"{NAMES[framework]}, {m} micro-batches, idle"
            note = f"formula {formula:.0f}"
            yield Figure(
                "bubble", what, statistics.median(values), "%", min(values), max(values), note
            )


# What §8 measures, (rows, width): the article's network, and one whose step is mostly computing.
ARTICLES = (256, 128)
COMPUTE_BOUND = 4096, 2048
# The shortest loop in each framework, without a function of the chapter: what do those add?
MINIMAL = {
    "tensorflow": """
def minimal(batch, width):
    net, rows = net_on(strategy, width), rows_on(strategy, batch)
    with strategy.scope():
        optimizer = keras.optimizers.SGD(0.1)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = cross_entropy(y, net(x, training=True), from_logits=True)
            loss = tf.reduce_sum(losses) / batch
        optimizer.apply(tape.gradient(loss, net.trainable_variables), net.trainable_variables)
        return loss

    step = tf.function(lambda x, y: strategy.run(replica_step, args=(x, y)))
    return lambda: step(*rows)


def both(batch, width, repeats):
    chapter = step_of(net_on(strategy, width), strategy, batch)
    return timing.compare({"chapter": chapter, "minimal": minimal(batch, width)}, wait,
                          repeats=repeats)
""",
    "pytorch": """%%px
def minimal(batch, width):
    net = DistributedDataParallel(make_net(width))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = (my_share(part[:batch]).to(device) for part in (train_inputs, train_labels))

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    return step


def both(batch, width, repeats):
    x, y = (my_share(part[:batch]) for part in (train_inputs, train_labels))
    chapter = stepper(DistributedDataParallel(make_net(width)), x, y)
    return timing.compare({"chapter": chapter, "minimal": minimal(batch, width)}, wait,
                          before=dist.barrier, repeats=repeats)
""",
    "mxnet": """
def minimal(batch, width):
    net = wide_net(width, contexts)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
    rows, truth = images.train_images[:batch], images.train_labels[:batch]

    def step():
        xs = gluon.utils.split_and_load(rows, contexts)
        ys = gluon.utils.split_and_load(truth, contexts)
        with autograd.record():
            losses = [loss_fn(net(x), y) for x, y in zip(xs, ys)]
        for loss in losses:
            loss.backward()
        trainer.step(batch)

    return step


def both(batch, width, repeats):
    chapter = step_with(batch, width, contexts)
    return timing.compare({"chapter": chapter, "minimal": minimal(batch, width)},
                          mx.nd.waitall, repeats=repeats)
""",
}


def in_chapter(chapter: ChapterKernel, framework: str, call: str) -> list[tuple[float, float]]:
    """Call a function of §8 that compares two steps; the times of each, repeat by repeat."""
    if framework == "pytorch":
        chapter.execute(f"%%px\nfound = {call}")
        call = "team['found'][0]"
    told = chapter.execute(
        f"import json\nfound = {call}\nprint(json.dumps([t.values for t in found.values()]))"
    )
    one, two = json.loads(told.splitlines()[-1])
    return list(zip(one, two, strict=True))


def ratio(part: str, what: str, pairs: list[tuple[float, float]], note: str) -> Figure:
    """The median of the ratios, pair by pair, with the range of their middle half; and the ratio of
    the shortest times, which other programs have disturbed least."""
    one, two = zip(*pairs, strict=True)
    found = timing.ratio(timing.Times(one), timing.Times(two))
    quickest = f"; of the quickest of each {min(one) / min(two):.2f}"
    return Figure(part, what, found.median, "", *found.spread, note + quickest)


def speed() -> Iterator[Figure]:
    """Two devices against one, and the chapter's step against the shortest loop."""
    for framework, stem in STEMS.items():
        with ChapterKernel(f"{stem}_in_practice") as chapter:
            chapter.run_up_to(LAST[framework], without="s7")
            chapter.execute(MINIMAL[framework])
            sizes = {"article's": ARTICLES, "compute-bound": COMPUTE_BOUND}
            for name, (batch, width) in sizes.items():
                what = f"{NAMES[framework]}, {batch} rows, width {width}"
                call = f"measure_size({batch}, {width})"
                pairs = [pair for _ in range(5) for pair in in_chapter(chapter, framework, call)]
                yield ratio("speed-up", what, pairs, f"{name} network, limit 2")
                repeats = 300 if batch < 1024 else 25  # a short step is disturbed more
                call = f"both({batch}, {width}, repeats={repeats})"
                pairs = in_chapter(chapter, framework, call)
                yield ratio("overhead", what, pairs, "chapter / shortest loop, limit 1.02")
            if framework == "pytorch":
                chapter.execute("workers.stop()")


# The cell after which all that §8 measures with is defined.
LAST = {
    "tensorflow": "s8-measure-define",
    "pytorch": "s8-same-check",
    "mxnet": "s8-step-with-define",
}
PARTS = {
    "survey": survey_times,
    "chapters": chapters,
    "verification": verification,
    "bubble": bubble,
    "speed": speed,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make benchmark", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; else all")
    parser.add_argument("--json", metavar="FILE", help="also write the table to this file")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - PARTS.keys():
        parser.error(f"no part {', '.join(sorted(unknown))}: choose of {', '.join(PARTS)}")
    figures = []
    for name in arguments.parts or PARTS:
        for figure in PARTS[name]():
            figures.append(figure)
            print(figure, flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps([asdict(one) for one in figures], indent=2))
