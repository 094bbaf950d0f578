"""Two hosts on one machine: apart, joined, and gone afterwards."""

import os
import socket
import subprocess
import sys

import pytest
from needs import skip_without_two_hosts

from helpers import hosts

LISTEN = """
import socket
with socket.create_server(("{address}", 0)) as server:
    print(server.getsockname()[1], flush=True)
    server.settimeout(20)
    print(server.accept()[1][0])
"""
CALL = "import socket; socket.create_connection(('{address}', {port}), 3)"


def python(host: hosts.Host, code: str) -> list[str]:
    return [*host.prefix, sys.executable, "-c", code]


def reached(listener: hosts.Host, caller: hosts.Host, address: str) -> str:
    """The address from which a call to this address of the listener came; empty when it did not."""
    code = LISTEN.format(address=address)
    server = subprocess.Popen(python(listener, code), stdout=subprocess.PIPE, text=True)
    with server:
        code = CALL.format(address=address, port=server.stdout.readline().strip())
        call = subprocess.run(python(caller, code), capture_output=True)
        if call.returncode:
            server.terminate()
        return server.stdout.read().strip()


def left(process: int) -> list[str]:
    """The namespaces that this process has made."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    return [name for name in listed.split() if name.startswith(f"two-gpus-{process}-")]


def test_each_reaches_the_other_by_its_address_and_not_by_loopback():
    skip_without_two_hosts()
    with hosts.two_hosts() as (one, two):
        assert one.address != two.address
        assert reached(one, two, one.address) == two.address
        assert reached(two, one, two.address) == one.address
        assert reached(one, two, "127.0.0.1") == ""
        assert reached(one, one, "127.0.0.1") == "127.0.0.1"


def test_nothing_is_left_even_after_an_error():
    skip_without_two_hosts()
    with pytest.raises(ZeroDivisionError), hosts.two_hosts():
        assert len(left(os.getpid())) == 2
        raise ZeroDivisionError
    assert left(os.getpid()) == []


def test_what_a_killed_process_left_is_removed():
    skip_without_two_hosts()
    code = "import os; from helpers import hosts; h = hosts.two_hosts(); h.__enter__(); os._exit(1)"
    killed = subprocess.Popen([sys.executable, "-c", code])
    killed.wait()
    assert len(left(killed.pid)) == 2
    assert hosts.why_not() == ""
    assert left(killed.pid) == []


def test_without_ip_both_are_loopback(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert hosts.why_not() == "The command ip is not here (Debian, Ubuntu: apt install iproute2)."
    with hosts.two_hosts() as both:
        assert both == hosts.LOOPBACK
        assert reached(both[0], both[1], both[0].address) == "127.0.0.1"


def test_where_namespaces_are_not_allowed_both_are_loopback(tmp_path, monkeypatch):
    stub = tmp_path / "ip"
    stub.write_text('#!/bin/sh\necho "mount --make-shared: Operation not permitted" >&2\nexit 1\n')
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert hosts.why_not() == (
        "Network namespaces are not allowed here (mount --make-shared: Operation not permitted)."
    )
    with hosts.two_hosts() as both:
        assert both == hosts.LOOPBACK


def test_a_free_port_is_new_held_and_below_those_that_systems_give_away():
    found = [hosts.free_port() for _ in range(100)]
    assert len(set(found)) == 100 and min(found) > 1023 and max(found) < 32_768
    with socket.socket() as other, pytest.raises(OSError):  # what another call would try
        other.bind(("127.0.0.1", found[0]))
    address = "127.0.0.1", found[0]
    with socket.create_server(address) as server, socket.create_connection(address, 10):
        server.accept()[0].close()  # what the program does


def test_a_free_port_is_none_that_is_used(monkeypatch):
    with socket.socket() as soon_free:
        soon_free.bind(("127.0.0.1", 0))
        free = soon_free.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as server:
        used = server.getsockname()[1]
        tried = iter([used, used, free])
        monkeypatch.setattr(hosts.secrets, "choice", lambda _: next(tried))
        assert hosts.free_port() == free
