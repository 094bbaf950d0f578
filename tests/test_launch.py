"""Launch elsewhere: the links of README.md, the set-up cell of Kaggle and Colab, the kernels of GPU
machines, the run of Binder's size. All without a network."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib import metadata
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from strict import small_notebook

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
posix_only = pytest.mark.skipif(os.name != "posix", reason="needs a system with sh")
git_only = pytest.mark.skipif(not shutil.which("git"), reason="needs git")


def load(path: str) -> ModuleType:
    """A script of this repository that is no part of a package, as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


links, kernels = load("binder/links.py"), load("environments/kernels.py")


# --- the links of README.md ---

GITHUB = "https://github.com/one/two"
DEEP = "https://gitlab.com/one/two/three"
OTHER = "https://git.example.org:8443/~one/two"


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://github.com/one/two", GITHUB),
        ("https://github.com/one/two.git", GITHUB),
        ("https://github.com/one/two/", GITHUB),
        ("https://user:secret@github.com/one/two.git", GITHUB),
        ("https://secret@github.com/one/two.git", GITHUB),
        ("git@github.com:one/two.git", GITHUB),
        ("github.com:one/two.git", GITHUB),
        ("ssh://git@github.com/one/two.git", GITHUB),
        ("ssh://git@github.com:22/one/two.git", GITHUB),
        ("git://github.com/one/two.git", GITHUB),
        ("git@gitlab.com:one/two/three.git", DEEP),
        ("https://git.example.org:8443/~one/two.git", OTHER),
        ("", None),
        ("/home/one/two.git", None),
        ("../two", None),
        ("file:///home/one/two.git", None),
        ("C:\\one\\two", None),
        ("C:/one/two", None),
        ("work:one/two.git", None),  # a name that only the reader's ssh settings know
    ],
)
def test_address_of_a_remote(remote: str, address: str | None) -> None:
    assert links.public_address(remote) == address


@pytest.mark.parametrize(
    ("address", "source"),
    [
        (GITHUB, "gh/one/two"),
        (DEEP, "gl/one%2Ftwo%2Fthree"),
        (OTHER, "git/https%3A%2F%2Fgit.example.org%3A8443%2F~one%2Ftwo"),
    ],
)
def test_binder_link(address: str, source: str) -> None:
    opens = "HEAD?urlpath=lab/tree/notebooks/01_devices.ipynb"
    assert links.binder(address) == f"https://mybinder.org/v2/{source}/{opens}"


def test_notebooks_that_the_links_open_exist() -> None:
    opened = set(re.findall(r"notebooks/\w+\.ipynb", links.block(GITHUB)))
    assert len(opened) == 2
    assert all((ROOT / notebook).is_file() for notebook in opened)


def test_kaggle_and_colab_open_only_what_they_can_fetch() -> None:
    block = links.block(GITHUB, "trunk")
    place = "one/two/blob/trunk/notebooks/03_pytorch.ipynb"
    assert f"https://www.kaggle.com/kernels/welcome?src=https://github.com/{place})" in block
    assert f"https://colab.research.google.com/github/{place})" in block
    assert "upload a chapter" not in block
    assert links.block(DEEP).count("[upload a chapter]") == 2


def test_readme_has_the_block_that_the_script_writes() -> None:
    written = README.split(links.BEGIN)[1].split(links.END)[0]
    address = re.search(r'"git\+(.+?)"', written)
    branch = re.search(r"/blob/(.+?)/notebooks/", written)
    assert written == links.block(address and address[1], branch[1] if branch else "main")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with a space in its path, the script and the README, but no remote."""
    clone = tmp_path / "two gpus é"
    (clone / "binder").mkdir(parents=True)
    shutil.copy(ROOT / "binder/links.py", clone / "binder")
    readme = README.split(links.BEGIN)[0] + links.BEGIN + "old\n" + links.END + "\nThe rest.\n"
    (clone / "README.md").write_text(readme, encoding="utf-8")
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(clone)], check=True)
    return clone


def write_links(clone: Path) -> tuple[int, str]:
    """Exit status, and the README that the script leaves."""
    run = subprocess.run([sys.executable, "binder/links.py"], cwd=clone, capture_output=True)
    assert len(run.stdout.splitlines()) + len(run.stderr.splitlines()) == 1
    return run.returncode, (clone / "README.md").read_text(encoding="utf-8")


@git_only
def test_links_are_written_once_and_again(clone: Path) -> None:
    git = ["git", "-C", str(clone), "remote"]
    status, without = write_links(clone)
    assert status == 1
    assert "https://mybinder.org" not in without and "make links" in without
    subprocess.run([*git, "add", "origin", "https://secret@github.com/one/two.git"], check=True)
    assert write_links(clone) == write_links(clone)
    status, readme = write_links(clone)
    assert status == 0
    assert links.block(GITHUB, "trunk") in readme
    assert "secret" not in readme and "old\n" not in readme
    assert readme.endswith("\nThe rest.\n")
    subprocess.run([*git, "remove", "origin"], check=True)
    assert write_links(clone) == (1, without)


def test_readme_without_the_marks_is_left_alone(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(links.BEGIN)
    with pytest.raises(ValueError, match="lacks the lines"):
        links.write(readme, "text")
    assert readme.read_text() == links.BEGIN


# --- fresh environments without a network ---

OWN = ("torch", "tensorflow", "keras", "mxnet", "two_gpus", "__editable__", "pip", "setuptools")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of this environment, but for the frameworks and helpers."""
    folder = tmp_path_factory.mktemp("packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(OWN) and path.suffix != ".pth":
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Path:
    """A folder where pip finds setuptools, to build with, a stub of torch, and ``others``, which
    stands for all the packages of this environment."""
    folder = tmp_path_factory.mktemp("wheels")
    setuptools = metadata.distribution("setuptools")
    name = f"setuptools-{setuptools.version}-py3-none-any.whl"
    with zipfile.ZipFile(folder / name, "w") as wheel:
        for file in setuptools.files:
            if ".." not in file.parts and file.suffix != ".pyc":
                wheel.write(file.locate(), str(file))
    stub_wheel(folder, "torch", "9.9", {"torch.py": TORCH})
    stub_wheel(folder, "others", "1.0", {"others.pth": f"{packages}\n"})
    return folder


TORCH = """
class cuda:
    device_count = staticmethod(lambda: 0)
    is_available = staticmethod(lambda: False)
class version:
    cuda = None
__version__ = "9.9"
"""


def stub_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> None:
    about = f"{name}-{version}.dist-info"
    files = files | {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{about}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)


def offline(wheels: Path) -> dict[str, str]:
    """The environment variables under which pip uses ``wheels`` and nothing else."""
    left = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON"))}
    own = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels.as_uri(), "PIP_CONFIG_FILE": os.devnull}
    return left | own


def copy_of_the_package(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "helpers", folder / "helpers")


# --- the set-up cell of Kaggle and Colab ---


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> str:
    """This package as a git repository that pip can reach."""
    folder = tmp_path_factory.mktemp("remote") / "two gpus"
    copy_of_the_package(folder)
    git = ["git", "-C", str(folder), "-c", "user.name=Nobody", "-c", "user.email=nobody@localhost"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "All"]):
        subprocess.run([*git, *command], check=True)
    return folder.as_uri()


class Platform:
    """A machine with a Python and packages of its own, a torch of its own version among them."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        self.folder, self.wheels = folder, wheels
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        self.python = folder / "bin/python"
        self.install("torch", "others")

    def install(self, *what: str) -> None:
        self.run("-m", "pip", "install", "-q", *what).check_returncode()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, *arguments],
            **{"cwd": self.folder, "env": offline(self.wheels), "capture_output": True},
            text=True,
        )

    def versions(self) -> list[str]:
        """Every package with its version."""
        return self.run("-m", "pip", "list", "--format=freeze").stdout.splitlines()


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Platform:
    return Platform(tmp_path_factory.mktemp("platform"), wheels)


@posix_only
@git_only
def test_set_up_cell_brings_helpers_and_changes_nothing(platform: Platform, remote: str) -> None:
    before = platform.versions()
    assert "torch==9.9" in before and not any(line.startswith("two-gpus") for line in before)
    cell = links.CELL.format(address=remote)
    done = platform.run("-c", cell + "import torch; print(helpers.__file__, torch.__version__)")
    assert done.returncode == 0, done.stderr
    file, version = done.stdout.rsplit(maxsplit=1)
    assert Path(file).is_relative_to(platform.folder)
    assert version == "9.9"
    assert [line for line in platform.versions() if not line.startswith("two-gpus")] == before


@posix_only
@git_only
def test_set_up_cell_fails_rather_than_change_a_package(platform: Platform, remote: str) -> None:
    """The negative control: a platform whose psutil is too old for helpers."""
    platform.run("-m", "pip", "uninstall", "-q", "-y", "two-gpus")
    stub_wheel(platform.wheels, "psutil", "0.1", {})
    platform.install("psutil==0.1")
    before = platform.versions()
    assert "psutil==0.1" in before
    done = platform.run("-c", links.CELL.format(address=remote))
    assert done.returncode != 0
    assert "conflict" in done.stderr
    assert platform.versions() == before


def test_set_up_cell_does_nothing_where_helpers_is(tmp_path: Path) -> None:
    cell = links.CELL.format(address="https://nowhere.invalid/one/two")
    subprocess.run([sys.executable, "-c", cell], cwd=tmp_path, check=True, timeout=60)
    assert list(tmp_path.iterdir()) == []


# --- make gpu-kernels ---

WHICH = """
import sys, torch, helpers
print(torch.__version__, sys.prefix)
!python -c 'import torch; print(torch.__version__)'
"""


@posix_only
def test_gpu_kernels_are_built_and_one_that_fails_is_said(tmp_path: Path, wheels: Path) -> None:
    project = tmp_path / "two gpus é"
    copy_of_the_package(project)
    text = (project / "pyproject.toml").read_text(encoding="utf-8")
    bare = re.sub(r"^dependencies = \[.*?^\]", "", text, flags=re.DOTALL | re.MULTILINE)
    (project / "pyproject.toml").write_text(bare, encoding="utf-8")
    folder = project / "environments"
    folder.mkdir()
    shutil.copy(ROOT / "environments/kernels.py", folder)
    (folder / "pytorch.txt").write_text("others\ntorch\n")
    (folder / "mxnet.txt").write_text("mxnet-that-has-no-wheel\n")
    stale = project / ".venv/share/jupyter/kernels/two-gpus-mxnet"
    stale.mkdir(parents=True)

    command = [sys.executable, folder / "kernels.py", "mxnet", "pytorch"]
    environment = offline(wheels)
    build = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert build.returncode == 1
    mxnet, pytorch = build.stdout.split("--- PyTorch (GPU)\n")
    assert "It could not be built" in mxnet and "environments/mxnet.txt" in mxnet
    assert "mxnet-that-has-no-wheel" in build.stderr
    assert not stale.exists() and not (project / ".venv/kernels/mxnet").exists()
    assert pytorch.startswith("PyTorch 9.9 can use: no GPU\n"), build.stderr
    assert "TensorFlow" not in pytorch

    small_notebook(tmp_path / "which.ipynb", WHICH)
    execute = ["-m", "jupyter", "execute", "--inplace", "--kernel_name=two-gpus-pytorch"]
    environment["JUPYTER_PATH"] = str(project / ".venv/share/jupyter")
    subprocess.run(
        [sys.executable, *execute, "which.ipynb"], cwd=tmp_path, env=environment, check=True
    )
    (cell,) = nbformat.read(tmp_path / "which.ipynb", as_version=4).cells
    printed = "".join(output.text for output in cell.outputs).splitlines()
    assert printed == [f"9.9 {project / '.venv/kernels/pytorch'}", "9.9"]


def test_unknown_gpu_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert kernels.main(["jax", "pytorch"]) == 2
    assert capsys.readouterr() == ("", "No kernel jax: choose of pytorch, tensorflow, mxnet.\n")


def test_mxnet_kernel_is_told_where_its_libraries_are(tmp_path: Path) -> None:
    for name in ("mxnet", "pytorch"):
        (tmp_path / name / "lib/python3.11/site-packages/nvidia/cublas/lib").mkdir(parents=True)
    library = tmp_path / "mxnet/lib/python3.11/site-packages/nvidia/cublas/lib"
    path = kernels.variables(tmp_path / "mxnet")["LD_LIBRARY_PATH"]
    assert path == f"{library}:${{LD_LIBRARY_PATH}}"
    assert "LD_LIBRARY_PATH" not in kernels.variables(tmp_path / "pytorch")


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_make_hands_the_chosen_kernels_on() -> None:
    command = ["make", "--no-print-directory", "-n", "gpu-kernels", "KERNELS=pytorch mxnet"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == ".venv/bin/python environments/kernels.py pytorch mxnet"


# --- the run of Binder's size ---

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured on Linux")


def binder_sized(*arguments: object) -> tuple[int, list[str]]:
    """Exit status, and the line of each notebook."""
    command = [sys.executable, "-m", "tests.binder_sized", *map(str, arguments)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    server, *lines = run.stdout.splitlines()
    assert server.startswith("JupyterLab, ready after"), run.stderr
    return run.returncode, lines


@linux_only
def test_binder_sized_run_goes_on_after_a_killed_kernel(tmp_path: Path) -> None:
    kill = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    killed = small_notebook(tmp_path / "killed.ipynb", kill)
    caps = "assert os.environ['OMP_NUM_THREADS'] == '1' and len(os.sched_getaffinity(0)) == 1"
    small = small_notebook(tmp_path / "small.ipynb", f"import os\n{caps}")
    status, lines = binder_sized(killed, small)
    assert status == 1
    assert lines[0].startswith("killed ")
    assert lines[0].endswith("its kernel was killed: usually no memory was left")
    assert lines[1].startswith("small ") and lines[1].endswith("  ok")


@linux_only
def test_binder_sized_run_names_who_needs_too_much(tmp_path: Path) -> None:
    small = small_notebook(tmp_path / "small.ipynb", "pass")
    status, (line,) = binder_sized("--limit", 10, small)
    assert status == 1
    found = re.fullmatch(r"small .*  ended at (\d+) MiB: the limit is 10 MiB", line)
    assert int(found[1]) > 10
