"""The negative controls: what chapters.run must not let pass, each in a small notebook."""

import chapters
import nbformat
import pytest
from lab import Lab

# The end of the kernel does not end this process.
SLEEP = "import subprocess\nsleep = subprocess.Popen(['sleep', '60'], start_new_session=True)"


@pytest.fixture(scope="module")
def lab(browser):
    with Lab() as lab:
        yield lab


@pytest.fixture
def run_twice(lab, browser):
    """Store a notebook with this one cell and these outputs, and run it twice."""

    def run(source, *outputs):
        cell = nbformat.v4.new_code_cell(source, id="the-cell", outputs=list(outputs))
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
        path = lab.folder / "small.ipynb"
        nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=kernel), path)
        chapters.run(lab, browser, path, passes=2)

    yield run
    for process in lab.processes():
        process.kill()


def printed(text):
    return nbformat.v4.new_output("stream", name="stdout", text=text)


def shown(text):
    return nbformat.v4.new_output("execute_result", data={"text/plain": text}, execution_count=1)


def test_a_good_notebook_passes(run_twice):
    run_twice("print(1)\n2", printed("1\n"), shown("2"))


@pytest.mark.parametrize(
    ("source", "stored", "told"),
    [
        ("print(1)", "2\n", "pass 1: .*the-cell: .*1.*, stored: .*2"),
        ("n = globals().get('n', 0) + 1\nprint(n)", "1\n", "pass 2: .*the-cell: .*2"),
        (
            "n = globals().get('n', 0) + 1\nprint(n > 2)",
            "False\n",
            "the last cells again: .*the-cell: .*True",
        ),
        ("1 / 0", "", "the-cell: ZeroDivisionError"),
        (SLEEP.replace("\n", "\nif 'sleep' not in globals(): "), "", "left behind: .*sleep"),
        (SLEEP, "", "2 processes became .*sleep"),
    ],
    ids=[
        "other output",
        "at the second pass",
        "at the end again",
        "error",
        "process left",
        "one more",
    ],
)
def test_a_fault_is_noticed(run_twice, source, stored, told):
    with pytest.raises(AssertionError, match=told):
        run_twice(source, *([printed(stored)] if stored else []))


def test_a_cell_without_an_end_is_named(run_twice, monkeypatch):
    monkeypatch.setattr("lab.SECONDS_FOR_A_PASS", 3)
    with pytest.raises(AssertionError, match="the-cell"):
        run_twice("import time\ntime.sleep(600)")
