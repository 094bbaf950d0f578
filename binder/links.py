"""``make links``: write the links of README.md that need the public address of this repository.

The address is the one of the git remote ``origin``. Exit status 1, with a sentence, where there is
none that others can reach; README.md then says how to get the links.
"""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).parents[1]
BEGIN = "<!-- make links writes from here -->\n"
END = "<!-- to here -->\n"
NO_ADDRESS = (
    "The links that open the chapters on Binder, Kaggle and Colab need the public address of this "
    "repository:\nrun `make links` in your clone, and they stand here.\n"
)

# The guarded set-up cell. The constraints forbid pip to change a package that the platform has: a
# change would be an error. `pip list`, as `pip freeze` may name files that are gone.
CELL = """\
try:
    import helpers.devices
except ImportError:
    import importlib, subprocess, sys

    pip, here = [sys.executable, "-m", "pip"], "platform.txt"
    with open(here, "w") as file:
        subprocess.run([*pip, "list", "--format=freeze"], stdout=file, check=True)
    subprocess.run([*pip, "install", "-q", "-c", here, "git+{address}"], check=True)
    importlib.invalidate_caches()
    import helpers.devices
"""

BLOCK = """\
[![Open in Binder](https://mybinder.org/badge_logo.svg)]({binder})

| where | what it has | start |
| --- | --- | --- |
| Binder | no account, one core, 2 GB, no GPU | [chapter 1]({binder}) |
| Kaggle | a free account, two cards: *GPU T4 x2*; internet on | {kaggle} |
| Colab | a free account, one card | {colab} |

On Kaggle and Colab, paste this as the first cell and run it. It brings the `helpers` package along
and changes no package of the platform; where `helpers` is there already, it does nothing. Two cards
are used as they are; with one or none, two simulated devices do the work. MXNet is not there: its
chapters end with a notice. For *PyTorch, further* and *TensorFlow, further* upload their script
into a folder `scripts`.

```python
{cell}```
"""


def public_address(remote: str) -> str | None:
    """The https address of a git remote, without the user, password or token in it.

    None where others cannot reach it: a path, a name from the reader's ssh settings.
    """
    host_name = r"(?P<host>[\w-]+(?:\.[\w-]+)+)"
    forms = (
        rf"https?://(?:[^/@]*@)?{host_name}(?P<port>:\d+)?/(?P<path>.+)",
        rf"(?:ssh|git)://(?:[^/@]*@)?{host_name}(?::\d+)?/(?P<path>.+)",
        rf"(?:[^/@:]+@)?{host_name}:(?P<path>[^:]+)",
    )
    for form in forms:
        if found := re.fullmatch(form, remote):
            port = found.groupdict().get("port") or ""
            path = found["path"].strip("/").removesuffix(".git")
            return f"https://{found['host']}{port}/{path}"
    return None


def binder(address: str) -> str:
    """The link that opens chapter 1 on mybinder.org."""
    host, path = address.removeprefix("https://").split("/", 1)
    if host == "github.com":
        source = f"gh/{path}"
    elif host == "gitlab.com":
        source = f"gl/{quote(path, safe='')}"
    else:
        source = f"git/{quote(address, safe='')}"
    return f"https://mybinder.org/v2/{source}/HEAD?urlpath=lab/tree/notebooks/01_devices.ipynb"


def block(address: str | None, branch: str = "main") -> str:
    """What README.md says between the two marks."""
    if address is None:
        return NO_ADDRESS
    if address.startswith("https://github.com/"):
        place = address.removeprefix("https://") + f"/blob/{branch}/notebooks/03_pytorch.ipynb"
        kaggle = f"[chapter 3](https://www.kaggle.com/kernels/welcome?src=https://{place})"
        colab = f"[chapter 3](https://colab.research.google.com/{place.replace('.com', '', 1)})"
    else:
        kaggle = "[upload a chapter](https://www.kaggle.com/code)"
        colab = "[upload a chapter](https://colab.research.google.com)"
    cell = CELL.format(address=address)
    return BLOCK.format(binder=binder(address), kaggle=kaggle, colab=colab, cell=cell)


def git(*command: str) -> str:
    """What git prints in this repository; "" where it fails or is missing."""
    try:
        run = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""


def write(readme: Path, text: str) -> None:
    """Put ``text`` between the two marks of this file. Raises ValueError where they are missing."""
    old = readme.read_text(encoding="utf-8")
    if old.count(BEGIN) != 1 or old.count(END) != 1:
        raise ValueError(f"{readme.name} lacks the lines {BEGIN.strip()} and {END.strip()}")
    before, rest = old.split(BEGIN)
    readme.write_text(before + BEGIN + text + END + rest.split(END)[1], encoding="utf-8")


def main() -> str | int:
    address = public_address(git("remote", "get-url", "origin"))
    branch = git("rev-parse", "--abbrev-ref", "origin/HEAD").removeprefix("origin/")
    branch = branch or git("branch", "--show-current") or "main"
    write(ROOT / "README.md", block(address, branch))
    if address is None:
        return (
            "This clone has no remote that others can reach (git remote get-url origin): no links "
            "were written. Add one with git remote add origin ADDRESS, then run make links again."
        )
    print(f"The links of README.md lead to {address}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
