"""What all explorers share: controls, the picture under them, and its sentence."""

import base64
import html
from collections.abc import Callable
from typing import Any

from helpers.pictures import Picture


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
        png = base64.b64encode(self.picture.png).decode()
        text = html.escape(self.picture.text)
        # Three lines are kept for the sentence; a screen reader says it at every change.
        self._shown.value = (
            f'<img alt="{text}" src="data:image/png;base64,{png}" style="max-width: 100%">'
            f'<p role="status" style="min-height: 4.5em; max-width: 56em">{text}</p>'
        )

    def __repr__(self) -> str:
        return repr(self.picture)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        still, metadata = self.picture._repr_mimebundle_()
        return {**self._box._repr_mimebundle_(), **still}, metadata
