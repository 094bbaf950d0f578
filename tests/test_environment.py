"""The files that describe the environment agree, and the set-up says what is wrong."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
REQUIREMENTS = [
    line
    for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
PINS = [Requirement(line.split(" #")[0]) for line in REQUIREMENTS]
PYTHONS = ["3.10", "3.11", "3.12"]


def loose_dependencies() -> list[str]:
    """The dependencies in pyproject.toml; Python 3.10 has no TOML reader."""
    block = re.search(r"^dependencies = \[(.*?)^\]", PYPROJECT, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r'"(.+?)"', block[1])


def pinned_version(name: str, python: str, platform: str = "linux") -> str | None:
    """The one version that requirements.txt gives there, or None."""
    where = {"python_version": python, "sys_platform": platform, "platform_machine": "x86_64"}
    found = [
        pin for pin in PINS if pin.name == name and (not pin.marker or pin.marker.evaluate(where))
    ]
    assert len(found) <= 1, f"{name} is there twice on Python {python}"
    return str(found[0].specifier).removeprefix("==") if found else None


@pytest.mark.parametrize("line", REQUIREMENTS)
def test_requirement_is_pinned_and_says_who_needs_it(line: str) -> None:
    pin, _, reason = line.partition("  # ")
    assert re.fullmatch(r"==[\w.]+", str(Requirement(pin).specifier))
    assert len(reason) > 5


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("dependency", loose_dependencies())
def test_pin_is_within_the_loose_range(dependency: str, python: str) -> None:
    loose = Requirement(dependency)
    version = pinned_version(loose.name, python)
    assert version is not None
    assert version in loose.specifier


def test_mxnet_is_left_out_where_it_has_no_build() -> None:
    assert pinned_version("mxnet", "3.11") == "1.9.1"
    assert pinned_version("mxnet", "3.11", "win32") is None


def test_conda_takes_the_same_environment() -> None:
    lines = [line.strip() for line in (ROOT / "environment.yml").read_text().splitlines()]
    (python,) = [line.removeprefix("- python=") for line in lines if line.startswith("- python=")]
    supported = re.search(r'requires-python = "(.+)"', PYPROJECT)[1]
    assert re.fullmatch(r"3\.\d+\.\d+", python)
    assert python in SpecifierSet(supported)
    assert lines[lines.index("- pip:") + 1 :] == ["- -r requirements.txt", "- -e ."]


def test_supported_pythons_are_the_same_everywhere() -> None:
    supported = SpecifierSet(re.search(r'requires-python = "(.+)"', PYPROJECT)[1])
    assert [f"3.{minor}" for minor in range(6, 20) if f"3.{minor}" in supported] == PYTHONS
    workflow = (ROOT / ".github/workflows/verify.yml").read_text(encoding="utf-8")
    assert re.findall(r'"(3\.\d+)"', workflow) == PYTHONS


def test_helpers_imports_nothing_large() -> None:
    large = ["torch", "tensorflow", "keras", "mxnet", "ipyparallel", "matplotlib"]
    code = f"import sys, helpers; print([name for name in {large} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# --- make setup without a suited Python ---

make_only = pytest.mark.skipif(not shutil.which("make"), reason="needs make")


def stub(path: Path, version: tuple[int, int], venv: bool = True) -> None:
    """A Python that claims another version, and on request lacks the venv module."""
    broken = "" if venv else "sys.modules['venv'] = None; "
    start = f"import sys; sys.version_info = ({version[0]}, {version[1]}, 0); {broken}"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{start}exec(sys.argv[1])" "$2"\n')
    path.chmod(0o755)


def failed_setup(folder: Path, **variables: str) -> str:
    """Run make setup with only ``folder``/bin on the path; return its one sentence."""
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for tool in ("cat", "cksum", "mkdir", "rm", "touch"):
        (folder / "bin" / tool).symlink_to(shutil.which(tool))
    environment = {"PATH": str(folder / "bin"), "LC_ALL": "C", **variables}
    make = subprocess.run(
        [shutil.which("make"), "setup"], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert make.returncode != 0
    assert not (folder / ".venv").exists()
    lines = [line for line in make.stderr.splitlines() if not line.startswith("make")]
    assert make.stdout == ""
    assert len(lines) == 1
    return lines[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project folder with a space in its name and an empty bin."""
    folder = tmp_path / "two gpus é"
    (folder / "bin").mkdir(parents=True)
    return folder


@make_only
def test_setup_without_python(folder: Path) -> None:
    assert failed_setup(folder) == (
        "Python was not found: install Python 3.10, 3.11 or 3.12, "
        "or name another with make setup PYTHON=/path/to/python."
    )


@make_only
@pytest.mark.parametrize(("version", "fault"), [((3, 9), "old"), ((2, 7), "old"), ((3, 13), "new")])
def test_setup_with_an_unsuited_python(folder: Path, version: tuple[int, int], fault: str) -> None:
    stub(folder / "bin" / "python3", version)
    said = failed_setup(folder)
    assert said.startswith(f"python3 is Python {version[0]}.{version[1]}, which is too {fault}: ")


@make_only
def test_setup_without_the_venv_module(folder: Path) -> None:
    stub(folder / "bin" / "python3", (3, 9))
    stub(folder / "bin" / "python3.11", (3, 11), venv=False)
    said = failed_setup(folder)
    assert said.startswith("python3.11 lacks the venv module: ")
    assert "python3-venv" in said


@make_only
def test_setup_with_the_python_of_the_reader_only(folder: Path) -> None:
    stub(folder / "bin" / "python3.11", (3, 11))
    assert failed_setup(folder, PYTHON="/nowhere/python").startswith(
        "/nowhere/python was not found"
    )
