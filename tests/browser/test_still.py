"""What stands on the page without a run: in JupyterLab just opened, and exported to HTML."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
from lab import NOTEBOOKS, Lab, within
from nbconvert import HTMLExporter
from strip_widgets import WIDGET, strip

PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
PLAY = "06_play.ipynb"
MODEL = "0123456789abcdef"


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def pictures(notebook: nbformat.NotebookNode) -> Iterator[tuple[str, Any]]:
    """Each output with a picture, after the id of its cell."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data or Images(data.get("text/html", "")).found:
                yield cell.id, output


def explorers(notebook: nbformat.NotebookNode) -> list[str]:
    """The ids of the cells that show an explorer."""
    return [cell.id for cell in notebook.cells if cell.source.startswith("explore.")]


def without_alternative(notebook: nbformat.NotebookNode) -> list[str]:
    """The cells with a picture without a text that says the same."""
    return [
        name
        for name, output in pictures(notebook)
        if not (found := Images(output.data.get("text/html", "")).found)
        or not (told := found[0].get("alt"))
        or told not in output.data["text/plain"]
    ]


class Images(HTMLParser):
    """The attributes of all images of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.found.append(dict(attributes))


def exported(notebook: nbformat.NotebookNode) -> str:
    html, _ = HTMLExporter().from_notebook_node(notebook)
    return html


def wrong_in_export(notebook: nbformat.NotebookNode) -> list[str]:
    """The cells whose picture, with its alternative text, is missing in the HTML."""
    page = Images(exported(notebook)).found
    found = [
        f"{name}: no picture"
        for name, output in pictures(notebook)
        if Images(output.data["text/html"]).found[0] not in page
    ]
    shown = {name for name, _ in pictures(notebook)}
    return found + [f"{name}: no still" for name in explorers(notebook) if name not in shown]


@pytest.fixture
def explorer_as_run() -> nbformat.NotebookNode:
    """The notebook with the explorers as a kernel leaves it: with widgets in its outputs."""
    notebook = read(NOTEBOOKS / PLAY)
    for cell in notebook.cells:
        if cell.id in explorers(notebook):
            view = {"model_id": MODEL, "version_major": 2, "version_minor": 0}
            cell.outputs[0].data[WIDGET] = view
    state = {"version_major": 2, "version_minor": 0, "state": {MODEL: {"state": {}}}}
    notebook.metadata.widgets = {"application/vnd.jupyter.widget-state+json": state}
    return notebook


@each_notebook
def test_stored_pictures_have_an_alternative_text(path):
    assert without_alternative(read(path)) == []


@each_notebook
def test_export_shows_every_picture(path):
    assert wrong_in_export(read(path)) == []


def test_faults_are_noticed(explorer_as_run):
    """The negative controls: widgets in place of pictures; no picture; no text for a picture."""
    ids = explorers(explorer_as_run)
    assert wrong_in_export(explorer_as_run) == [f"{name}: no picture" for name in ids]
    strip(explorer_as_run)
    assert wrong_in_export(explorer_as_run) == []
    (name, output), (other, png), *_ = pictures(explorer_as_run)
    output.data["text/html"] = output.data["text/html"].replace('alt="', 'title="')
    png.data["image/png"] = png.data.pop("text/html")
    assert without_alternative(explorer_as_run) == [name, other]
    del output.data["text/html"], png.data["image/png"]
    assert wrong_in_export(explorer_as_run) == [f"{name}: no still", f"{other}: no still"]


# --- in JupyterLab, opened and not run ---


def not_shown(lab: Lab, browser: Any, name: str) -> list[str]:
    """The explorers in whose place there is no picture, with the text that is there."""
    ids = explorers(read(lab.folder / name))
    assert ids
    with lab.open(browser, name) as notebook:
        areas = {i: notebook.cell(i).locator(".jp-OutputArea-output") for i in ids}
        within(10, lambda: all(area.locator("img").count() for area in areas.values()))
        return [
            f"{i}: {area.all_inner_texts()}"
            for i, area in areas.items()
            if area.locator("img").count() != 1
        ]


def test_before_a_run_each_explorer_is_a_still_picture(lab, browser):
    assert not_shown(lab, browser, PLAY) == []


def test_an_explorer_without_a_picture_is_noticed(browser, explorer_as_run, tmp_path):
    """The negative control: only the widget is stored."""
    for _, output in pictures(explorer_as_run):
        del output.data["text/html"]
    nbformat.write(explorer_as_run, tmp_path / "as_run.ipynb")
    with Lab(tmp_path / "as_run.ipynb") as lab:
        told = not_shown(lab, browser, "as_run.ipynb")
    assert len(told) == len(explorers(explorer_as_run))


def test_pictures_on_the_page_have_their_alternative_text(lab, browser):
    stored = [Images(o.data["text/html"]).found[0] for _, o in pictures(read(lab.folder / PLAY))]
    with lab.open(browser, PLAY) as notebook:
        images = notebook.page.locator(".jp-OutputArea-output img")
        within(10, lambda: images.count() == len(stored))
        alternatives = images.evaluate_all("all => all.map(image => image.alt)")
    assert alternatives == [image["alt"] for image in stored]
