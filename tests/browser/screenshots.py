"""``python -m tests.browser.screenshots [--theme dark] [--out FOLDER] [CHAPTER...]``

For looking at the layout: runs the chapters (all, or those named, such as 03_pytorch) in JupyterLab
and saves each as pictures, from top to bottom, one screen each.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from lab import NEEDED, NOTEBOOKS, Lab, OpenNotebook, chromium, found


def save_screens(notebook: OpenNotebook, stem: str) -> int:
    """Scroll from top to bottom and save each screen as STEM_00.png and so on: how many."""
    scroller = notebook.page.locator(".jp-WindowedPanel-outer")
    screens, place = 0, 0
    while True:
        # The height grows while cells are drawn for the first time; an eighth is seen twice.
        screen, height = scroller.evaluate(
            "(s, place) => { s.scrollTop = place; return [s.clientHeight, s.scrollHeight]; }", place
        )
        notebook.page.wait_for_timeout(400)
        notebook.page.screenshot(path=f"{stem}_{screens:02}.png")
        screens += 1
        if place + screen >= height:
            return screens
        place += screen * 7 // 8


def main() -> None:
    stems = [path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb"))]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER", help=", ".join(stems))
    parser.add_argument("--theme", choices=["light", "dark"], default="light")
    parser.add_argument("--out", type=Path, default=Path("build/screenshots"), metavar="FOLDER")
    chosen = parser.parse_args()
    if unknown := set(chosen.chapters) - set(stems):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(stems)}")
    if not found():
        parser.error(NEEDED)
    chosen.out.mkdir(parents=True, exist_ok=True)
    paths = [NOTEBOOKS / f"{stem}.ipynb" for stem in chosen.chapters or stems]
    with chromium() as browser, Lab(*paths, theme=chosen.theme) as lab:
        for path in paths:
            with lab.open(browser, path.name) as notebook:
                notebook.run_all()
                screens = save_screens(notebook, str(chosen.out / path.stem))
            print(f"{path.stem}: {screens} screens in {chosen.out}")


if __name__ == "__main__":
    main()
