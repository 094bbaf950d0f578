"""``python -m tests.browser.picture``: take the picture of the READMEs again, .github/picture.png.

It shows the third explorer of chapter 6 in JupyterLab: its cell, its controls, its chart.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from lab import NEEDED, NOTEBOOKS, Lab, chromium, found

PICTURE = Path(__file__).parents[2] / ".github/picture.png"
EXPLORER = "pipeline-explore"


def main() -> None:
    if not found():
        raise SystemExit(f"The picture {NEEDED}.")
    play = NOTEBOOKS / "06_play.ipynb"
    with chromium() as browser, Lab(play) as lab, lab.open(browser, play.name) as notebook:
        page, cell = notebook.page, notebook.cell(EXPLORER)
        page.set_viewport_size({"width": 1000, "height": 1000})
        page.evaluate("() => jupyterapp.shell.collapseLeft()")
        notebook.run("import-explore")
        notebook.run(EXPLORER)
        page.wait_for_timeout(1000)  # the chart is drawn
        cell.evaluate("cell => cell.scrollIntoView()")
        page.mouse.move(0, 0)
        page.wait_for_timeout(1000)
        page.screenshot(path=PICTURE, clip=cell.bounding_box())


if __name__ == "__main__":
    main()
