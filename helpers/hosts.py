"""Two hosts to rehearse on, without a second machine.

Linux can keep a group of processes on a network of its own: a network namespace. Two of them,
joined by a virtual cable, are two hosts for everything that crosses the network; disk, memory and
cores they share. See ``man ip-netns`` and ``man veth``.
"""

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psutil

_NAME = "two-gpus"
_PORTS = range(20_000, 32_768)
_holders: list[socket.socket] = []  # of the last ports


class Host(NamedTuple):
    """A command runs on this host when ``prefix`` stands before it."""

    address: str
    interface: str  # its network card, as launchers want it named
    prefix: tuple[str, ...] = ()


def _loopback_interface() -> str:
    """The network interface that never leaves this machine, lo on Linux, lo0 on macOS; empty where
    there is none."""
    cards = psutil.net_if_addrs().items()
    return next((name for name, own in cards if any(a.address == "127.0.0.1" for a in own)), "")


_THIS_MACHINE = Host("127.0.0.1", _loopback_interface())
LOOPBACK = (_THIS_MACHINE, _THIS_MACHINE)


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts, each with an address of its own that the other reaches; gone afterwards.

    Where this machine allows no namespaces, both are ``LOOPBACK``: two addresses that are one.
    """
    if why_not():
        yield LOOPBACK
        return
    names = [f"{_NAME}-{os.getpid()}-{number}" for number in range(2)]
    try:
        yield _joined(*names)
    finally:
        _remove(names)


def free_port() -> int:
    """A TCP port of this machine that nobody uses now, for a program that is about to be started.

    It lies below those that a system gives away by itself (Linux: 32768 to 60999, by default of
    ``net.ipv4.ip_local_port_range``; macOS and Windows: from 49152), and this process holds it for
    a while, so that no other call finds it: see ``SO_REUSEADDR`` in ``man 7 socket``.
    """
    while True:
        holder = socket.socket()
        try:
            port = secrets.choice(_PORTS)
            holder.bind(("127.0.0.1", port))  # fails where it is used or held
        except OSError:
            holder.close()
        else:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server may share it
            _holders.append(holder)
            if len(_holders) > 100:
                _holders.pop(0).close()
            return port


def why_not() -> str:
    """Why this machine cannot keep two hosts apart, as a sentence; empty when it can."""
    if not shutil.which("ip"):
        return "The command ip is not here (Debian, Ubuntu: apt install iproute2)."
    _remove(_left_behind())
    probe = f"{_NAME}-{os.getpid()}-probe"
    try:
        _ip("netns", "add", probe)
        _ip("-n", probe, "link", "add", "cable", "type", "veth", "peer", "name", "end")
        _ip("netns", "exec", probe, "true")
    except subprocess.CalledProcessError as error:
        return f"Network namespaces are not allowed here ({error.stderr.strip()})."
    finally:
        _remove([probe])
    return ""


def _joined(first: str, second: str) -> tuple[Host, Host]:
    for name in (first, second):
        _ip("netns", "add", name)
    _ip(*f"-n {first} link add cable type veth peer name cable netns {second}".split())
    hosts = []
    for number, name in enumerate((first, second), start=1):
        address = f"10.77.0.{number}"  # seen inside the two namespaces only
        _ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
        for interface in ("lo", "cable"):
            _ip("-n", name, "link", "set", interface, "up")
        hosts.append(Host(address, "cable", ("ip", "netns", "exec", name)))
    return hosts[0], hosts[1]


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True).stdout


def _remove(names: list[str]) -> None:
    for name in names:
        # Not there is as good as removed.
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _left_behind() -> list[str]:
    """Namespaces of processes that were killed before they could remove them."""
    try:
        lines = _ip("netns", "list").splitlines()
    except subprocess.CalledProcessError:
        return []
    names = [line.split()[0] for line in lines if line.startswith(f"{_NAME}-")]
    return [name for name in names if not psutil.pid_exists(int(name.split("-")[2]))]
