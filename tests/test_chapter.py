"""A chapter whose framework cannot be used ends in good order."""

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

from helpers import chapter
from helpers.frameworks import Sight


@pytest.fixture
def shell(monkeypatch):
    shell = InteractiveShell()
    monkeypatch.setattr(chapter, "get_ipython", lambda: shell)
    monkeypatch.setattr(chapter, "_missing", "")
    monkeypatch.setattr(chapter, "sight_apart", lambda framework: Sight(framework, "1.0"))
    shell.run_cell("from helpers import chapter", silent=True)
    return shell


def break_import(monkeypatch, error):
    def fail(framework):
        raise error

    monkeypatch.setattr(chapter, "import_quietly", fail)


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'mxnet'"),
        AttributeError("module 'numpy' has no attribute 'bool'."),
        AttributeError("module 'numpy' has no attribute 'PZERO'"),
        OSError("libcudart.so.11.0: cannot open shared object file"),
    ],
)
def test_unusable_framework_is_said_with_its_reason_and_the_rest_is_skipped(
    shell, monkeypatch, capsys, error
):
    break_import(monkeypatch, error)
    assert shell.run_cell("chapter.require('mxnet')").success
    told = capsys.readouterr().out
    assert f"MXNet cannot be used here: {type(error).__name__}: {error}" in told
    assert "restart the kernel" in told
    for cell in ("import mxnet as mx\nmx.nothing()", "%%px\nboom()", "x = ("):
        assert shell.run_cell(cell).success
        assert capsys.readouterr().out == "Skipped: MXNet cannot be used here.\n"


def test_the_next_require_ends_the_skipping(shell, monkeypatch, capsys):
    break_import(monkeypatch, ImportError("broken"))
    shell.run_cell("chapter.require('pytorch')")
    shell.run_cell("before = 1")
    shell.run_cell("chapter.require()\nafter = 1")
    assert "before" not in shell.user_ns and shell.user_ns["after"] == 1
    shell.run_cell("later = 1")
    assert shell.user_ns["later"] == 1


def test_usable_framework_is_ready(shell, monkeypatch, capsys):
    monkeypatch.setattr(chapter, "import_quietly", lambda framework: None)
    shell.run_cell("chapter.require('tensorflow')\nran = True")
    assert capsys.readouterr().out == "TensorFlow is ready.\n"
    assert shell.user_ns["ran"]


def test_a_framework_can_be_asked_for_without_an_import_here(shell, monkeypatch, capsys):
    break_import(monkeypatch, AssertionError("imported here"))
    shell.run_cell("chapter.require('mxnet', apart=True)")
    assert capsys.readouterr().out == "MXNet is ready.\n"
    broken = Sight("mxnet", error="OSError: libcudart.so.11.0")
    monkeypatch.setattr(chapter, "sight_apart", lambda _: broken)
    for apart in (True, False):  # what fails or crashes there is not imported here
        shell.run_cell(f"chapter.require('mxnet', apart={apart})\nran = True")
        assert "MXNet cannot be used here: OSError: libcudart" in capsys.readouterr().out
        shell.run_cell("later = 1")
        assert "later" not in shell.user_ns


def test_versions_in_one_line():
    told = chapter.versions("numpy", "no-such-package")
    assert told == f"numpy {np.__version__}, no-such-package is not installed"
