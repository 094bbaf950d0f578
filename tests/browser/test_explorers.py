"""Each explorer follows mouse and keyboard: the page shows what its functions say for that value.

A second explorer of the same name, without a page, is moved along and says what is to be shown.
"""

import math
from typing import Any

import pytest
from ipywidgets import Checkbox, Dropdown, FloatLogSlider, ToggleButtons
from lab import within

from helpers import explore
from helpers.explore.explorer import Explorer


@pytest.fixture(scope="module")
def notebook(lab, browser):
    """The notebook with the explorers, run."""
    with lab.open(browser, "06_play.ipynb") as notebook:
        notebook.run_all()
        yield notebook


@pytest.fixture
def box(notebook, name):
    """The explorer on the page: its controls, and its picture below them."""
    sources = {cell["id"]: "".join(cell["source"]) for cell in notebook.content()["cells"]}
    cells = [i for i, source in sources.items() if source.strip() == f"explore.{name}()"]
    assert len(cells) == 1, f"explore.{name}() stands in the cells {cells}"
    box = notebook.cell(cells[0]).locator(".widget-vbox")
    box.scroll_into_view_if_needed()
    return box


def shows(box: Any, explorer: Explorer) -> bool:
    """Whether the page shows this explorer's picture, sentence and links, and nothing else."""
    return box.locator(".widget-html-content").evaluate(
        """(shown, expected) => {
            const other = document.createElement('div');
            other.innerHTML = expected;
            return other.innerHTML === shown.innerHTML;
        }""",
        explorer._shown.value,
    )


def with_mouse(control: Any, local: Any) -> None:
    """Drag a slider to its end, or choose the next option; the same with ``local``."""
    mouse = control.page.mouse
    if isinstance(local, Checkbox):
        control.locator("input").click()
        local.value = not local.value
    elif isinstance(local, (ToggleButtons, Dropdown)):
        local.index = following(local)
        if isinstance(local, Dropdown):
            control.locator("select").select_option(index=local.index)
        else:
            control.locator("button").nth(local.index).click()
    else:
        up = move_to(local, end=True)
        control.locator(".noUi-handle").hover()
        mouse.down()
        track = control.locator(".noUi-target").bounding_box()
        mouse.move(track["x"] + track["width"] * (1.1 if up else -0.1), track["y"], steps=2)
        mouse.up()


def with_keyboard(control: Any, local: Any) -> None:
    """Focus and press a key: a slider goes one step; the same with ``local``."""
    keyboard = control.page.keyboard
    if isinstance(local, Checkbox):
        control.locator("input").focus()
        keyboard.press("Space")
        local.value = not local.value
    elif isinstance(local, ToggleButtons):
        local.index = following(local)
        control.locator("button").nth(local.index).focus()
        keyboard.press("Space")
    elif isinstance(local, Dropdown):
        before, local.index = local.index, following(local)
        control.locator("select").focus()
        for _ in range(abs(local.index - before)):
            keyboard.press("ArrowDown" if local.index > before else "ArrowUp")
    else:
        control.locator(".noUi-handle").focus()
        keyboard.press("ArrowRight" if move_to(local, end=False) else "ArrowLeft")


def following(choice: Any) -> int:
    """The place of the option after the present one; after the last comes the first."""
    return (choice.index + 1) % len(choice.options)


def move_to(slider: Any, end: bool) -> bool:
    """Move a slider to its end or by one step: up (True), or down where it is at the upper end."""
    if hasattr(slider, "index"):
        last = len(slider.options) - 1
        up = slider.index < last
        slider.index = (last if up else 0) if end else slider.index + (1 if up else -1)
        return up
    # The stops of a slider are counted from its lower end; the upper end need not be one.
    log = isinstance(slider, FloatLogSlider)
    place = math.log(slider.value, slider.base) if log else slider.value
    stops = round((place - slider.min) / slider.step, 6)
    up = place < slider.max - slider.step / 2
    if end:
        place = slider.max if up else slider.min
    else:
        place = slider.min + slider.step * (math.floor(stops) + 1 if up else math.ceil(stops) - 1)
    slider.value = slider.base**place if log else place
    return up


# Twice with the mouse: a choice of two is back at its first value after two moves.
MOVES = with_mouse, with_keyboard, with_mouse


@pytest.mark.parametrize("name", explore.__all__)
def test_each_control_of_each_explorer(box, name):
    explorer = getattr(explore, name)()
    assert within(10, lambda: shows(box, explorer)), "not the picture of the first settings"
    controls = box.locator(":scope > :not(.widget-html)")
    assert controls.count() == len(explorer.controls)
    for place, (title, local) in enumerate(explorer.controls.items()):
        seen = {explorer._shown.value}
        for move in MOVES:
            move(controls.nth(place), local)
            assert within(10, lambda: shows(box, explorer)), (
                f"{title}, {move.__name__}: not what {local.value} gives"
            )
            seen.add(explorer._shown.value)
        assert len(seen) > 1, f"{title}: no move changes what is shown"
        assert box.locator("img").get_attribute("alt")
    assert box.locator("[title=null]").count() == 0


@pytest.mark.parametrize("name", ["rows"])
def test_a_picture_that_does_not_follow_is_noticed(box, name):
    """The negative control: this explorer is moved, the page is not."""
    explorer = getattr(explore, name)()
    here = explorer.controls["rows"]
    here.value = 11 if box.get_by_text("11 rows").count() == 0 else 12
    assert not within(1, lambda: shows(box, explorer))


def test_no_picture_is_cut_off(notebook):
    widths = notebook.page.locator(".widget-html-content img").evaluate_all(
        "all => all.map(img => [img.width, img.closest('.jp-OutputArea-output').clientWidth])"
    )
    assert len(widths) == len(explore.__all__)
    assert [width for width, room in widths if width > room] == []


def test_the_link_of_an_explorer_opens_the_chapter(notebook):
    """In the same JupyterLab, in a tab before this notebook: so this test is the last."""
    link = notebook.cell("which-split-explore").locator(".widget-output a")
    framework = link.inner_text().split()[0].strip(",").lower()
    link.click()
    notebook.page.wait_for_function(
        "name => jupyterapp.shell.currentWidget?.context?.path.includes(name)", arg=f"_{framework}"
    )
