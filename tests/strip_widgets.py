"""``python -m tests.strip_widgets FILE...``: take the widgets out of stored notebooks.

A stored widget is the random number of a model that ended with its kernel: another one after each
run, and nothing a page without a kernel could show. The picture and the text beside it stay.
"""

import sys
from typing import Any

import nbformat

WIDGET = "application/vnd.jupyter.widget-view+json"


def strip(notebook: dict[str, Any]) -> None:
    """Remove each view of a widget from the outputs, and the state of all widgets."""
    notebook["metadata"].pop("widgets", None)
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET, None)


if __name__ == "__main__":
    for path in sys.argv[1:]:
        notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
        strip(notebook)
        nbformat.write(notebook, path)
