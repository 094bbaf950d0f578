"""JupyterLab starts on a free port, wants its token, and ends with all that it has started."""

import json
import socket
import sys
from subprocess import PIPE, Popen
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from lab import MARK, Lab, within
from processes import processes_with


def status(lab: Lab, path: str, token: str, method: str = "GET") -> int:
    """The HTTP status of the answer to a request with this token."""
    headers = {"Authorization": f"token {token}"}
    with urlopen(Request(lab.address + path, headers=headers, method=method), timeout=30) as reply:
        return reply.status


def test_an_address_counts_when_somebody_listens_there(tmp_path):
    lab = Lab()
    lab._home, file = tmp_path, tmp_path / "runtime/jpserver-1.json"
    file.parent.mkdir()
    lab._server = Popen([sys.executable, "-c", "input()"], stdin=PIPE)
    with lab._server, socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        told = {"hostname": "127.0.0.1", "port": server.getsockname()[1], "url": "the address"}
        file.write_text(json.dumps(told)[:-1])
        assert lab._started() is False
        file.write_text(json.dumps(told))
        assert lab._started() is False
        server.listen()
        assert lab._started() == "the address"
    file.unlink()
    assert lab._started() is True


def test_two_run_side_by_side_each_with_its_own_token(lab):
    with Lab() as other:
        assert other.address != lab.address
        for one, foreign in ((lab, other.token), (other, lab.token)):
            assert status(one, "api/sessions", one.token) == 200
            for token in ("", foreign):
                with pytest.raises(HTTPError, match="403"):
                    status(one, "api/sessions", token)


def test_a_page_without_the_token_shows_no_notebook(lab, browser):
    page = browser.new_page()
    page.goto(f"{lab.address}lab/tree/01_devices.ipynb")
    assert page.url.startswith(f"{lab.address}login?")
    assert page.locator(".jp-Cell").count() == 0
    page.close()


def test_a_kernel_that_nobody_shuts_down_ends_with_jupyterlab(browser):
    with Lab() as lab:
        assert status(lab, "api/kernels", lab.token, method="POST") == 201
        assert within(10, lambda: len(lab.processes()) == 1)
    assert processes_with(MARK, lab.token) == []
