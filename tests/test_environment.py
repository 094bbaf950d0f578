"""The files that describe the environment agree, and the set-up says what is wrong."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from test_contributing import TARGET, TARGETS

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


# --- Binder: the same versions, as CPU builds ---

BINDER = ROOT / "binder"
BINDER_PYTHON = (BINDER / "runtime.txt").read_text().strip().removeprefix("python-")
BINDER_REQUIREMENTS = (BINDER / "requirements.txt").read_text(encoding="utf-8")
RANGES = {"jupyterlab", "ipywidgets"}  # Binder has its own: the pin only has to fit
CPU_BUILDS = {"tensorflow": "tensorflow-cpu"}  # where the CPU build has another name
IMPORTED_AS = {"PIL": "pillow", "IPython": "ipython", "pynvml": "nvidia-ml-py"}
IMPORTED_AS |= {"tensorflow": "tensorflow-cpu", "traitlets": "ipython"}  # ipython brings traitlets


def needed_to_run() -> dict[str, str]:
    """What requirements.txt pins for Binder's Python, without the tools of the checks."""
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    lines = text.split("# The checks")[0].splitlines()
    names = {Requirement(line.split(" #")[0]).name for line in lines if line and line[0] != "#"}
    pins = {name: pinned_version(name, BINDER_PYTHON) for name in names}
    return {CPU_BUILDS.get(name, name): pin for name, pin in pins.items() if pin}


def third_party_imports() -> set[str]:
    """The distributions that the files of helpers import, inside functions too."""
    names = set()
    for path in (ROOT / "helpers").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(node.module.split(".")[0])
    return {IMPORTED_AS.get(name, name) for name in names - sys.stdlib_module_names - {"helpers"}}


def binder_faults(text: str) -> list[str]:
    """Where this requirements file differs from what Binder has to install."""
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", "--"))]
    found = {Requirement(line).name: Requirement(line).specifier for line in lines}
    needed = needed_to_run()
    faults = [
        f"{name} is missing" for name in (needed.keys() | third_party_imports()) - found.keys()
    ]
    for name, specifier in found.items():
        if name not in needed:
            faults.append(f"{name} is not needed to run the chapters")
        elif name in RANGES:
            if needed[name] not in specifier:
                faults.append(f"{name} {needed[name]} does not fit")
        elif str(specifier).removesuffix("+cpu") != f"=={needed[name]}":
            faults.append(f"{name} is not {needed[name]}")
    return faults


def test_binder_installs_what_the_chapters_need() -> None:
    assert binder_faults(BINDER_REQUIREMENTS) == []
    assert "tensorflow-cpu" in needed_to_run() and "torch" in third_party_imports()


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("numpy==1.26.4", "numpy==1.26.3", "numpy is not 1.26.4"),
        ("numpy==1.26.4", "numpy>=1.26.4", "numpy is not 1.26.4"),
        ("torch==2.13.0+cpu", "torch==2.12.0+cpu", "torch is not 2.13.0"),
        ("tensorflow-cpu==", "tensorflow==", "tensorflow-cpu is missing"),
        ("psutil==7.2.2\n", "", "psutil is missing"),
        ("psutil==7.2.2", "psutil==7.2.2\nruff==0.17.6", "ruff is not needed to run the chapters"),
        ("jupyterlab>=4.4,<5", "jupyterlab>=3,<4", "jupyterlab 4.6.6 does not fit"),
    ],
)
def test_a_drift_of_binder_is_noticed(old: str, new: str, fault: str) -> None:
    assert BINDER_REQUIREMENTS.count(old) == 1
    assert fault in binder_faults(BINDER_REQUIREMENTS.replace(old, new))


def test_binder_has_the_python_of_the_stored_outputs() -> None:
    assert f"- python={BINDER_PYTHON}." in (ROOT / "environment.yml").read_text()
    assert BINDER_PYTHON in PYTHONS


def test_system_libraries_are_the_same_everywhere() -> None:
    packages = " ".join((BINDER / "apt.txt").read_text().split())
    for name in (".ci/run", ".github/workflows/verify.yml", "README.md", DEVCONTAINER):
        assert packages in (ROOT / name).read_text(encoding="utf-8"), name


@pytest.mark.skipif(os.name != "posix", reason="needs a system with sh")
def test_start_sets_the_threads_and_hands_over() -> None:
    assert os.access(BINDER / "postBuild", os.X_OK)
    code = "import os, sys; print(os.environ['OMP_NUM_THREADS'], sys.argv[1])"
    command = [BINDER / "start", sys.executable, "-c", code, "two words"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout == "1 two words\n"


# --- GPU machines: one environment for each framework ---

FRAMEWORKS = {"pytorch": "torch", "tensorflow": "tensorflow", "mxnet": "mxnet-cu117"}


def lines_of(name: str) -> list[str]:
    text = (ROOT / "environments" / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_gpu_environments_take_the_versions_of_requirements() -> None:
    assert lines_of("common.txt")[0] == "-c ../requirements.txt"
    frameworks = {"torch", "tensorflow-cpu", "keras", "mxnet", "jupyterlab"}
    assert set(lines_of("common.txt")[1:]) == needed_to_run().keys() - frameworks


@pytest.mark.parametrize("kernel", FRAMEWORKS)
def test_gpu_environment_holds_one_framework(kernel: str) -> None:
    first, *rest = lines_of(f"{kernel}.txt")
    assert first == "-r common.txt"
    requirements = [Requirement(line) for line in rest]
    names = {requirement.name for requirement in requirements}
    assert names & set(FRAMEWORKS.values()) == {FRAMEWORKS[kernel]}
    for requirement in requirements:
        assert pinned_version(requirement.name, "3.11") or re.fullmatch(
            r"==[\w.]+", str(requirement.specifier)
        )


def test_cpu_build_of_torch_is_named_with_the_right_version() -> None:
    for name in ("README.md", DEVCONTAINER):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert re.findall(r"torch==([\w.]+)", text) == [pinned_version("torch", "3.11")], name


# --- Codespaces and VS Code ---

DEVCONTAINER = ".devcontainer/devcontainer.json"


def devcontainer_faults(text: str) -> list[str]:
    """What is wrong with a devcontainer file. Raises ValueError where it is no JSON."""
    found, faults = json.loads(text), []
    if not re.match(rf"[\w./]+python:{re.escape(BINDER_PYTHON)}-", found["image"]):
        faults.append(f"{found['image']} is not Python {BINDER_PYTHON}")
    commands = " ; ".join(value for key, value in found.items() if key.endswith("Command"))
    called = TARGET.findall(commands)
    faults += [f"make {target} does not exist" for target in called if target not in TARGETS]
    if "setup" not in called:
        faults.append("make setup is not called")
    interpreter = found["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    if interpreter != "${containerWorkspaceFolder}/.venv/bin/python":
        faults.append("another interpreter than .venv's")
    host = found["hostRequirements"]
    if host["cpus"] < 2 or int(host["memory"].removesuffix("gb")) < 8:
        faults.append("a machine too small for two simulated devices")
    return faults


def test_devcontainer_fits_this_project() -> None:
    assert devcontainer_faults((ROOT / DEVCONTAINER).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("python:3.11-", "python:3.13-", "is not Python 3.11"),
        ("make setup", "make steup", "make steup does not exist"),
        ("make setup", "true", "make setup is not called"),
        (".venv/bin/python", "venv/bin/python", "another interpreter than .venv's"),
        ('"cpus": 2', '"cpus": 1', "a machine too small for two simulated devices"),
    ],
)
def test_a_wrong_devcontainer_is_noticed(old: str, new: str, fault: str) -> None:
    text = (ROOT / DEVCONTAINER).read_text(encoding="utf-8")
    assert old in text
    assert fault in " ".join(devcontainer_faults(text.replace(old, new)))


def test_a_devcontainer_that_is_no_json_is_noticed() -> None:
    with pytest.raises(ValueError):
        devcontainer_faults((ROOT / DEVCONTAINER).read_text(encoding="utf-8")[:-5])


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
