"""A kernel that dies is reported as that at once, and the next notebook runs."""

from strict import check, small_notebook

KILL = "import os, signal\nos.kill(os.getpid(), signal.SIG{})"


def test_a_dead_kernel_is_told_at_once_and_the_next_notebook_runs(tmp_path):
    small_notebook(
        tmp_path / "1_memory.ipynb", "ready = True", KILL.format("KILL"), "assert ready", "1 / 0"
    )
    small_notebook(tmp_path / "2_crash.ipynb", KILL.format("SEGV"))
    small_notebook(tmp_path / "3_exit.ipynb", "import os\nos._exit(3)")
    # The negative control: this kernel lives, and the time limit is what ends its cell.
    small_notebook(tmp_path / "4_slow.ipynb", "import time\ntime.sleep(60)")
    small_notebook(tmp_path / "5_lives.ipynb", "alive = True", "assert alive")
    run = check(tmp_path, "-rs", "--color=no", "--nbval-cell-timeout=10", timeout=300)
    assert run.returncode == 1, run.stdout
    for told in (
        "Cell 1: The kernel was ended by signal 9, SIGKILL: usually the machine has no memory left",
        "Cell 0: The kernel was ended by signal 11, SIGSEGV.",
        "Cell 0: The kernel ended with exit code 3.",
        "Cell 0: Timeout of 10 seconds exceeded",
        "The kernel died in cell 1.",
    ):
        assert run.stdout.count(told) == 1, run.stdout
    assert "4 failed, 3 passed, 2 skipped" in run.stdout
