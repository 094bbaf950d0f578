"""What all explorers share: controls, the picture under them, and its sentence."""

import html
import importlib.util
from collections.abc import Callable
from typing import Any

from helpers.devices import DeviceError
from helpers.pictures import Picture


class PackageError(ImportError):
    """A package is not installed. The message says which, and what to do."""

    _render_traceback_ = DeviceError._render_traceback_  # the sentence is the whole answer


if importlib.util.find_spec("ipywidgets") is None:
    raise PackageError(
        "The explorers need the package ipywidgets, which is not installed here. "
        "Install it: pip install -r requirements.txt, then restart the kernel."
    )


class Explorer:
    """Controls above a picture. A change of a control draws the picture for its new value.

    ``draw`` is called with the value of each control under its name, and returns a Picture. All its
    pictures must have one size, so that nothing on the page jumps. Where widgets cannot be shown
    (no front end, a page exported to HTML), ``picture``, the present one, stands for them.
    """

    def __init__(self, draw: Callable[..., Picture], **controls: Any) -> None:
        from ipywidgets import HTML, VBox

        self.draw, self.controls = draw, controls
        self._shown = HTML(tooltip="")
        self._box = VBox([*controls.values(), self._shown])
        for control in controls.values():
            control.tooltip = control.description  # else ipywidgets writes "null" there
            control.style.description_width = "14em"
            control.layout.width = "40em"
            control.observe(self._show, "value")
        self._show()

    def _show(self, _: Any = None) -> None:
        values = {name: control.value for name, control in self.controls.items()}
        self.picture = self.draw(**values)
        text = html.escape(self.picture.text)
        # Three lines are kept for the sentence; a screen reader says it at every change.
        sentence = f'<p role="status" style="min-height: 4.5em; max-width: 56em">{text}</p>'
        self._shown.value = self.picture._repr_html_() + sentence

    def __repr__(self) -> str:
        return repr(self.picture)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        still = {"text/html": self.picture._repr_html_(), "text/plain": repr(self)}
        return {**self._box._repr_mimebundle_(), **still}
