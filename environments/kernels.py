"""``make gpu-kernels``: for each framework an environment with its GPU build, and a Jupyter kernel.

The builds cannot share one environment: their CUDA libraries differ. The environments lie in
.venv/kernels, the kernels in .venv/share/jupyter. JupyterLab, started by ``make lab``, lists them
in the menu Kernel, Change Kernel. Arguments: pytorch, tensorflow, mxnet; without any, all three.
Exit status 1 where one could not be built (the others are), 2 for an unknown name.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMES = {"pytorch": "PyTorch", "tensorflow": "TensorFlow", "mxnet": "MXNet"}


def environment(name: str) -> Path:
    """Make or renew the environment of this framework; return its folder.

    Raises CalledProcessError where a step fails; pip has then said why.
    """
    folder = ROOT / ".venv/kernels" / name
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = [folder / "bin/python", "-m", "pip", "install", "-qq", "-e", ROOT]
    subprocess.run([*install, "-r", ROOT / f"environments/{name}.txt"], check=True)
    return folder


def variables(folder: Path) -> dict[str, str]:
    """What the kernel of this environment needs; Jupyter fills in the values from before."""
    found = {"PATH": f"{folder / 'bin'}:${{PATH}}"}  # for !python and %%script in cells
    # MXNet's wheel finds its CUDA libraries nowhere else; the other two find their own.
    libraries = [str(path) for path in folder.glob("lib/python*/site-packages/nvidia/*/lib")]
    if folder.name == "mxnet" and libraries:
        found["LD_LIBRARY_PATH"] = ":".join([*sorted(libraries), "${LD_LIBRARY_PATH}"])
    return found


def kernel_folder(name: str) -> Path:
    return ROOT / f".venv/share/jupyter/kernels/two-gpus-{name}"


def register(name: str, folder: Path) -> None:
    """Write the kernel's description, for the JupyterLab of .venv alone."""
    description = {
        "argv": [str(folder / "bin/python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": f"{NAMES[name]} (GPU)",
        "language": "python",
        "env": variables(folder),
        "metadata": {"debugger": True},
    }
    kernel_folder(name).mkdir(parents=True, exist_ok=True)
    text = json.dumps(description, indent=2)
    (kernel_folder(name) / "kernel.json").write_text(text, encoding="utf-8")


def survey(name: str, folder: Path) -> str:
    """What ``python -m helpers`` says of this framework and of the driver, in that environment."""
    own = {k: os.path.expandvars(value) for k, value in variables(folder).items()}
    command = [folder / "bin/python", "-m", "helpers", "--json"]
    run = subprocess.run(command, env=os.environ | own, capture_output=True, text=True)
    found = json.loads(run.stdout)
    (sight,) = (one for one in found["sights"] if one["framework"] == name)
    usable = [gpu["device"] for gpu in sight["gpus"] if not gpu["problem"]]
    version = sight["version"] or "(version unknown)"
    lines = [f"{NAMES[name]} {version} can use: {', '.join(usable) or 'no GPU'}"]
    others = set(NAMES.values()) - {NAMES[name]}
    gaps = [gap for gap in found["gaps"] if gap["who"] not in others]
    lines += [f"{gap['who']}: {gap['cause']} ({gap['evidence']}). {gap['repair']}" for gap in gaps]
    return "\n".join(lines)


def build(name: str) -> bool:
    """Build one kernel and say what came of it; whether it is there now."""
    print(f"--- {NAMES[name]} (GPU)", flush=True)
    try:
        folder = environment(name)
    except subprocess.CalledProcessError:
        shutil.rmtree(ROOT / ".venv/kernels" / name, ignore_errors=True)
        shutil.rmtree(kernel_folder(name), ignore_errors=True)
        print(f"It could not be built, for pip's reason above; environments/{name}.txt names it.")
        return False
    register(name, folder)
    print(survey(name, folder), flush=True)
    return True


def main(names: list[str]) -> int:
    if unknown := [name for name in names if name not in NAMES]:
        print(f"No kernel {', '.join(unknown)}: choose of {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    return 0 if all([build(name) for name in names or NAMES]) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
