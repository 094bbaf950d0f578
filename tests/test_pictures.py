"""Each picture is a PNG of moderate size, the same each time, with a text that says the same."""

import numpy as np
import pytest

from helpers import pictures

DRAWINGS = {
    "images": lambda: pictures.images(np.zeros((2, 784)), ["Bag", "Coat"]),
    "rows": lambda: pictures.rows({"worker 0": [0, 2], "worker 1": [1, 3]}),
    "losses": lambda: pictures.losses({"one device": [2.0, 1.0], "two devices": [2.0, 1.0]}),
    "differences": lambda: pictures.differences({"loss": [0, 1e-8]}, 1e-6, "Two against one"),
    "messages": lambda: pictures.messages(
        {"a way": [pictures.Message("half", 1, 0, 1, 40), pictures.Message("all", 0, 1, 0, 1080)]}
    ),
    "speed_ups": lambda: pictures.speed_ups(
        {"width 128": {64: (0.6, 0.5, 0.7), 1024: (1.75, 1.7, 1.8)}},
        {"width 128": {64: 0.7, 1024: 1.8}},
    ),
    "processes": lambda: pictures.processes(
        {"TensorFlow": [["CPU:0", "CPU:1"]], "PyTorch": [["cpu"], ["cpu"]]}
    ),
}
TEXTS = {
    "images": "2 grey images: Bag, Coat.",
    "rows": "A global batch of 4 rows: worker 0 gets rows 0, 2; worker 1 gets rows 1, 3.",
    "losses": "Loss over the steps: one device from 2.00 to 1.00; two devices from 2.00 to 1.00.",
    "differences": "Two against one: difference per step, log scale; "
    "every point lies below the tolerance.",
    "messages": "Who sends what; a way: round 1 device 1 sends all (1,080 bytes) to device 0, "
    "round 2 device 0 sends half (40 bytes) to device 1.",
    "speed_ups": "Measured speed-up with two devices over the global batch in rows. "
    "width 128: 64 rows 0.60, 1024 rows 1.75.",
    "processes": "Two simulated devices. TensorFlow: CPU:0 and CPU:1 in 1 process; "
    "PyTorch: cpu and cpu in 2 processes.",
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_picture_and_its_text(name):
    picture = DRAWINGS[name]()
    assert picture.png.startswith(b"\x89PNG") and len(picture.png) < 20_000
    assert repr(picture) == f"[picture] {TEXTS[name]}"
    assert f'<img alt="{TEXTS[name]}" src="data:image/png;base64,iVBORw0K' in picture._repr_html_()
    assert DRAWINGS[name]().png == picture.png


def test_differences_above_the_tolerance_are_said():
    picture = pictures.differences({"loss": [0, 1e-3]}, 1e-6, "Broken")
    assert picture.text.endswith("points lie above the tolerance.")
