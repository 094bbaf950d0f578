"""The two worker processes: what each is told, and what an error or an interrupt does."""

import time

import pytest
from processes import processes_with
from worker_kernel import HANG, JOIN, MARK, PAIR, START

from helpers import devices, workers


def test_each_worker_knows_its_place_and_stop_ends_both(notebook):
    assert "worker 1 of 2: CPU, simulated device 1" in notebook.run(START)
    told = notebook.run(
        "%%px\nimport os, sys\n"
        "names = 'RANK WORLD_SIZE CUDA_VISIBLE_DEVICES OMP_NUM_THREADS'.split()\n"
        "print([os.environ[name] for name in names], 'torch' in sys.modules)"
    )
    cards = devices.visible(PAIR)
    assert f"[stdout:0] \n['0', '2', '{cards[0]}', '1'] False" in told
    assert f"[stdout:1] \n['1', '2', '{cards[1]}', '1'] False" in told
    places = notebook.run("%%px\nprint(os.environ['INIT_METHOD'])").splitlines()
    assert places[1] == places[3] and places[1].startswith("file://")

    first = notebook.left()
    notebook.run(START)
    assert len(notebook.left()) == len(first), "the second start must replace the first pair"

    assert "ZeroDivisionError" in notebook.run("%%px\n1 / 0")
    assert "[stdout:1] \nalive" in notebook.run("%%px\nprint('alive')"), (
        "an error must not end them"
    )

    notebook.run("workers.stop()")
    assert notebook.left() == []
    assert "workers.start(...) again" in notebook.run("%%px\nprint('hello')")


def test_connections_are_on_loopback_signed_and_private(notebook):
    notebook.run(START)
    notebook.run(JOIN)
    marked = processes_with(MARK, notebook.mark)
    listening = {c.laddr.ip for p in marked for c in p.net_connections() if c.status == "LISTEN"}
    assert listening <= {"127.0.0.1", "::1"}
    assert notebook.run(
        "import os, stat\n"
        "session = workers._running.client.session\n"
        "print(len(session.key) > 20, session.signature_scheme)\n"
        "print(oct(stat.S_IMODE(os.stat(workers._running.watcher.folder).st_mode)))"
    ).splitlines() == ["True hmac-sha256", "0o700"]


@pytest.mark.parametrize(
    ("variable", "cards", "simulated", "expected"),
    [
        (None, 0, True, ["0", "1"]),  # as it would be on two cards, and no card is there to see
        (None, 1, True, ["", ""]),  # one of the two would see the card
        ("", 0, True, ["", ""]),
        ("-1", 2, True, ["", ""]),
        (None, 2, False, ["0", "1"]),
        ("1,0", 2, False, ["1", "0"]),
        ("GPU-2222, 3", 4, False, ["GPU-2222", "3"]),
    ],
)
def test_each_worker_sees_one_of_the_users_cards(monkeypatch, variable, cards, simulated, expected):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    monkeypatch.setattr(devices.driver, "ask", lambda: None)
    monkeypatch.setattr(devices.driver, "hear", lambda _: ([object()] * cards, []))
    names = ("worker 0", "worker 1") if simulated else ("cuda:0", "cuda:1")
    pair = devices.Pair("pytorch", names, simulated, "")
    assert devices.visible(pair) == expected


def test_interrupt_ends_both_and_says_so(notebook):
    notebook.run(START)
    notebook.send(HANG)
    time.sleep(2)
    notebook.manager.interrupt_kernel()
    assert notebook.left_in_the_end() == []
    assert "workers.start(...) again" in notebook.run("%%px\nprint('hello')")
    assert "worker 0 of 2" in notebook.run(START)


@pytest.mark.parametrize("seconds", [0.5, 3])
def test_interrupt_of_the_start_leaves_nothing(notebook, seconds):
    notebook.run("from helpers import devices, workers")
    notebook.send(START)
    time.sleep(seconds)
    notebook.manager.interrupt_kernel()
    assert notebook.run("print(workers._running)") == "None\n"
    assert notebook.left_in_the_end() == []


def test_only_a_pair_can_be_started():
    with pytest.raises(TypeError, match=r"what devices\.pair returns"):
        workers.start(("cuda:0", "cuda:1"))


def test_failed_start_leaves_nothing_and_says_what_to_do(notebook):
    broken = START.replace("workers.start", "workers._settings = None\nworkers.start")
    assert "did not start" in notebook.run(broken)
    assert notebook.left_in_the_end() == []
