"""The PyTorch chapter and its two processes: interrupted, beside another copy, with ports taken."""

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from chapter_kernel import ChapterKernel
from nbclient.exceptions import CellExecutionError
from processes import processes_with

LAST = "s3-result-load"
TRAINING = ["s3-train-run", "s3-train-picture", LAST]


def test_interrupted_in_the_middle_of_training_then_run_again(monkeypatch):
    monkeypatch.setenv("TEST_CHAPTER_MARK", "interrupt")
    with ChapterKernel("03_pytorch") as chapter:
        chapter.run_up_to("s3-wrap-check")
        training = chapter.sources["s3-train-run"].replace("range(5)", "range(5000)")
        threading.Timer(3, chapter.interrupt).start()
        with pytest.raises(CellExecutionError, match="Interrupted, so both workers were ended"):
            chapter.execute(training)
        workers = [p for p in marked("interrupt") if "ipyparallel" in " ".join(p.cmdline())]
        _, left = psutil.wait_procs(workers, timeout=10)
        assert left == []

        cells = list(chapter.sources)
        chapter.run(*cells[cells.index("s3-start-run") : cells.index(LAST)])
        assert "more than 75 % of the test images are right: True" in chapter.run(LAST)
    _, left = psutil.wait_procs(marked("interrupt"), timeout=10)
    assert left == []


def marked(value: str) -> list[psutil.Process]:
    return processes_with("TEST_CHAPTER_MARK", value)


def test_two_copies_at_once_with_the_usual_ports_taken(monkeypatch):
    monkeypatch.setenv("TEST_CHAPTER_MARK", "copies")
    with contextlib.ExitStack() as stack:
        for port in (29400, 29500, 12355):  # torchrun, torch.distributed, PyTorch's tutorials
            listener = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):  # taken by somebody else: just as good
                listener.bind(("127.0.0.1", port))
                listener.listen()
        copies = [stack.enter_context(ChapterKernel("03_pytorch")) for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda copy: copy.run_up_to("s3-wrap-check"), copies))
            told = list(pool.map(lambda copy: copy.run(*TRAINING), copies))
        assert told[0] == told[1]
        assert "no two points of the curves are 0.001 apart" in told[0]
    _, left = psutil.wait_procs(marked("copies"), timeout=10)
    assert left == []
