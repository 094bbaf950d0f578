"""JupyterLab with copies of notebooks, and a notebook in it as a reader sees it in a browser."""

import importlib.util
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the modules of the tests are found

from processes import processes_with

from helpers.hosts import free_port

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NEEDED = (
    "needs Chromium or Google Chrome, and the package playwright "
    "(Debian: apt install chromium; pip install -r requirements.txt)"
)
# A container has no sandbox. The rest keeps the browser from using the network for itself.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MARK = "TEST_LAB_MARK"  # JupyterLab and every process below it have this variable
SECONDS_FOR_A_PASS = 900


def found() -> str | None:
    """The path of the browser to test with, None where the browser tests cannot run."""
    if importlib.util.find_spec("playwright") is None:
        return None
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window, as playwright's Browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found(), args=FLAGS)
        yield browser
        browser.close()


def within(seconds: float, holds: Callable[[], Any]) -> Any:
    """What ``holds`` returns as soon as that is true, at the latest after so many seconds."""
    end = time.monotonic() + seconds
    while not (result := holds()) and time.monotonic() < end:
        time.sleep(0.1)
    return result


class Lab:
    """JupyterLab on a free port, with copies of notebooks and of all scripts; for a ``with`` block.

    Copies, settings and running files lie in a temporary folder: nothing of the reader's is
    changed, and no setting of the reader's changes a test. ``folder`` holds the copies; ``address``
    ends with a slash.
    """

    def __init__(self, *notebooks: Path, theme: str = "light") -> None:
        self.token = secrets.token_hex(16)
        self._notebooks, self._theme = notebooks, theme

    def __enter__(self) -> "Lab":
        self._temporary = tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True)
        self._home = Path(self._temporary.name)
        self.folder = self._home / "notebooks"
        self.folder.mkdir()
        shutil.copytree(NOTEBOOKS / "scripts", self.folder / "scripts")
        for path in self._notebooks:
            shutil.copy(path, self.folder)
        self._set("notification", fetchNews="false", checkForUpdates=False)
        self._set("themes", theme=f"JupyterLab {self._theme.title()}")
        with self._log.open("w") as log:
            self._server = subprocess.Popen(
                self._command(), cwd=self.folder, env=self._environment(), stdout=log, stderr=log
            )
        address = within(180, self._started)
        if not isinstance(address, str):
            told = self._log.read_text()
            self.__exit__()
            raise RuntimeError(f"JupyterLab did not start: {told}")
        self.address = address
        return self

    def __exit__(self, *_: object) -> None:
        self._server.terminate()  # it ends its kernels first
        self._server.wait(60)
        self._temporary.cleanup()

    @property
    def _log(self) -> Path:
        return self._home / "log"

    def _set(self, plugin: str, **settings: Any) -> None:
        folder = self._home / "config/lab/user-settings/@jupyterlab/apputils-extension"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{plugin}.jupyterlab-settings").write_text(json.dumps(settings))

    def _command(self) -> list[str]:
        as_root = os.name == "posix" and os.getuid() == 0
        return [
            *(sys.executable, "-m", "jupyterlab", "--no-browser"),
            f"--ServerApp.port={free_port()}",
            f"--IdentityProvider.token={self.token}",
            "--LabApp.expose_app_in_browser=True",
            *(["--allow-root"] if as_root else []),
        ]

    def _environment(self) -> dict[str, str]:
        # As in an activated environment, for !commands in cells.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        kinds = ("config", "data", "runtime")
        folders = {f"JUPYTER_{kind.upper()}_DIR": str(self._home / kind) for kind in kinds}
        return {**os.environ, **folders, "PATH": path, MARK: self.token}

    def _started(self) -> str | bool:
        """The address; True when the server has ended; False before.

        JupyterLab writes its address a moment before it listens there.
        """
        for file in (self._home / "runtime").glob("jpserver-*.json"):
            with suppress(json.JSONDecodeError, OSError):  # half written; not listening
                told = json.loads(file.read_text())
                socket.create_connection((told["hostname"], told["port"]), 10).close()
                return told["url"]
        return self._server.poll() is not None

    def processes(self) -> list[psutil.Process]:
        """The kernels and all that they have started; the server itself does not count."""
        return [p for p in processes_with(MARK, self.token) if p.pid != self._server.pid]

    @contextmanager
    def open(self, browser: Any, name: str) -> Iterator["OpenNotebook"]:
        """Open this notebook with a new kernel; in the end all kernels are shut down."""
        context = browser.new_context(viewport={"width": 1300, "height": 1000})
        page = context.new_page()
        try:
            page.goto(f"{self.address}lab/tree/{name}?reset&token={self.token}")
            yield OpenNotebook(page)
        finally:
            shut_down = "() => jupyterapp.serviceManager.sessions.shutdownAll()"
            assert ends_within(30, page, shut_down), "the kernel cannot be shut down"
            context.close()


def ends_within(seconds: float, page: Any, function: str) -> bool:
    """Whether this JavaScript function, which returns a promise, is done in so many seconds."""
    late = f"new Promise(resolve => setTimeout(() => resolve(false), {1000 * seconds}))"
    return page.evaluate(f"() => Promise.race([({function})().then(() => true), {late}])")


class OpenNotebook:
    """A notebook in a tab of the browser, its kernel ready. ``page`` is playwright's Page."""

    def __init__(self, page: Any) -> None:
        self.page = page
        page.wait_for_function(
            "() => window.jupyterapp?.shell.currentWidget?.content?.model?.cells?.length",
            timeout=60_000,
        )
        ready = ends_within(
            60,
            page,
            """async () => {
                const panel = jupyterapp.shell.currentWidget;
                await panel.context.ready;
                await panel.sessionContext.ready;
                await panel.sessionContext.session.kernel.info;
            }""",
        )
        assert ready, "no kernel after 60 s"

    def content(self) -> dict[str, Any]:
        """The notebook with its present outputs, as JupyterLab would save it."""
        return self.page.evaluate("() => jupyterapp.shell.currentWidget.content.model.toJSON()")

    def running(self) -> list[str]:
        """The ids of the cells that are running or wait for their turn."""
        return self.page.evaluate(
            """() => [...jupyterapp.shell.currentWidget.content.model.cells]
                .filter(cell => cell.executionState === 'running').map(cell => cell.id)"""
        )

    def run_all(self) -> None:
        """Run all cells. Raises AssertionError with the cell when one raises or takes too long."""
        self._run("() => jupyterapp.commands.execute('notebook:run-all-cells')")

    def run_again(self, names: list[str]) -> None:
        """Run the cells with these ids, one after the other. Raises as ``run_all`` does."""
        self._run(f"""async () => {{
            const notebook = jupyterapp.shell.currentWidget.content;
            const ids = [...notebook.model.cells].map(cell => cell.id);
            for (const name of {json.dumps(names)}) {{
                notebook.activeCellIndex = ids.indexOf(name);
                await jupyterapp.commands.execute('notebook:run-cell');
            }}
        }}""")

    def _run(self, function: str) -> None:
        ended = ends_within(SECONDS_FOR_A_PASS, self.page, function)
        for cell in self.content()["cells"]:
            for output in cell.get("outputs", []):
                if output["output_type"] == "error":
                    raise AssertionError(f"{cell['id']}: {output['ename']}: {output['evalue']}")
        assert ended, f"after {SECONDS_FOR_A_PASS} s not at an end: {self.running()[:1]}"

    def cell(self, name: str) -> Any:
        """The cell with this id on the page, as playwright's Locator."""
        ids = [cell["id"] for cell in self.content()["cells"]]
        return self.page.locator(".jp-Notebook .jp-Cell").nth(ids.index(name))

    def run(self, name: str) -> str:
        """Select the cell with a click and press shift and return: what it prints then."""
        self.cell(name).locator(".jp-InputArea-prompt").click()
        self.page.keyboard.press("Shift+Enter")
        assert within(60, lambda: not self.running()), f"{name} runs on"
        return "".join(self.cell(name).locator(".jp-OutputArea-output pre").all_inner_texts())

    def type(self, name: str, source: str) -> None:
        """Replace the source of the cell by this one, with the keyboard."""
        self.cell(name).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source)
