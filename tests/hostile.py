"""``python -m tests.hostile [NOTEBOOK...]``: the strict check in unusual surroundings.

One core; all warnings on; TensorFlow's log on; no home folder that could be written; another
language, time zone and current folder; a kernel name that nobody knows; no network. Without
arguments all chapters are checked.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).parent))  # so that strict is found

import strict

NOBODY = {"name": "nobody-knows", "display_name": "Nobody knows"}
SURROUNDINGS = {
    "PYTHONWARNINGS": "always",
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "LC_ALL": "C",
    "LANGUAGE": "de",
    "TZ": "Asia/Kathmandu",
    "HOME": os.devnull,
    "COLUMNS": "30",
}
# Every Python that starts reads this first: a connection that leaves the machine fails.
NO_NETWORK = """
import socket

def only_here(connect):
    def checked(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            if address[0] not in ("127.0.0.1", "::1", "localhost"):
                raise OSError(f"no network here: {address}")
        return connect(self, address)
    return checked

socket.socket.connect = only_here(socket.socket.connect)
socket.socket.connect_ex = only_here(socket.socket.connect_ex)
"""


def check(notebooks: Sequence[Path], surroundings: Mapping[str, str] = SURROUNDINGS) -> str:
    """Run the strict check of these notebooks in a folder far away; return pytest's report.

    Raises subprocess.CalledProcessError, with the report in its ``output``, where a cell differs.
    """
    with tempfile.TemporaryDirectory() as folder:
        for path in notebooks:
            notebook = nbformat.read(path, as_version=4)
            notebook.metadata.kernelspec = NOBODY
            nbformat.write(notebook, Path(folder, path.name))
        shutil.copytree(strict.ROOT / "notebooks/scripts", Path(folder, "scripts"))
        Path(folder, "sitecustomize.py").write_text(NO_NETWORK)
        run = strict.check(Path(folder), "-q", surroundings=surroundings, preexec_fn=_on_one_core)
    run.check_returncode()
    return run.stdout


def _on_one_core() -> None:
    if hasattr(os, "sched_setaffinity"):  # Linux
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


if __name__ == "__main__":
    paths = [Path(name) for name in sys.argv[1:]] or sorted(
        (strict.ROOT / "notebooks").glob("*.ipynb")
    )
    try:
        print(check(paths))
    except subprocess.CalledProcessError as failed:
        raise SystemExit(failed.output) from None
