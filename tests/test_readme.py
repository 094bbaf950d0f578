"""The READMEs name every notebook with its minutes, and the Chinese one follows the English one."""

import re
from pathlib import Path

import pytest
from test_notebooks import PATHS, load, markdown_cells

ROOT = Path(__file__).parents[1]
ENGLISH, CHINESE = (
    (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md")
)
PICTURE = ROOT / ".github/picture.png"
SECTIONS_OF = {"": range(1, 7), "_in_practice": range(7, 10), "_further": range(10, 11)}


def tables(readme: str) -> list[list[list[str]]]:
    """Each table as rows of cells, without the line under its heading."""
    found = re.findall(r"(?:^\|.*\n)+", readme, flags=re.MULTILINE)
    lines = ([line for line in table.splitlines() if "---" not in line] for table in found)
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in t] for t in lines]


def minutes_in(text: str) -> int:
    """All minutes that a text names, added up."""
    return sum(map(int, re.findall(r"(\d+) (?:min|分钟)", text)))


def frame_minutes(path: Path) -> int:
    """The minutes that a notebook names in its frame."""
    frame = next(cell["source"] for cell in markdown_cells(load(path)) if cell["id"] == "frame")
    return minutes_in(re.search(r"\*\*Time\*\* \|(.+)\|", frame)[1])


FRAMES = {path.name: frame_minutes(path) for path in PATHS}


def wrong_minutes(readme: str) -> list[str]:
    """Where the tables of a README differ from the frames of the notebooks."""
    chapters, sections, *_ = tables(readme)
    told = {
        re.search(r"\(notebooks/(.+?)\)", row[0])[1]: minutes_in(row[-1]) for row in chapters[1:]
    }
    faults = [f"{name} is missing" for name in FRAMES.keys() - told.keys()]
    faults += [f"{name}: {told[name]} min" for name in told if told[name] != FRAMES.get(name)]
    of_section = {int(re.findall(r"\d+", row[0])[-1]): int(row[2]) for row in sections[1:]}
    for framework in ("02_tensorflow", "03_pytorch", "04_mxnet"):
        for part, numbers in SECTIONS_OF.items():
            together = sum(of_section.get(number, 0) for number in numbers)
            if together != FRAMES[f"{framework}{part}.ipynb"]:
                faults.append(f"§{numbers[0]} to §{numbers[-1]}: {together} min")
    return faults


def form(readme: str) -> dict[str, object]:
    """What a translation has in common with its original. Left out: what ``make links`` writes, and
    the links between the two."""
    readme = re.sub(r"<!-- make links.+?<!-- to here -->", "", readme, flags=re.DOTALL)
    readme = re.sub(r"`make links`|\]\(README\.[^)]+\)", "", readme)
    blocks = re.findall(r"^```sh\n(.+?)^```", readme, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^```.+?^```", "", readme, flags=re.DOTALL | re.MULTILINE)
    return {
        "headings": re.findall(r"^(#+) ", prose, flags=re.MULTILINE),
        "links": re.findall(r"\]\(([^)]+)\)", prose),
        "commands": [re.findall(r"^[^#\n]*[^#\s]", block, flags=re.MULTILINE) for block in blocks],
        "code": sorted(re.findall(r"`([^`]+)`", prose)),
        "tables": [[len(row) for row in table] for table in tables(prose)],
        "sections": [[re.findall(r"\d+", row[0]) for row in table] for table in tables(prose)],
    }


def differences(one: str, other: str) -> list[str]:
    """In what the forms of two READMEs differ."""
    ours, theirs = form(one), form(other)
    return [name for name in ours if ours[name] != theirs[name]]


@pytest.mark.parametrize("readme", [ENGLISH, CHINESE], ids=["English", "Chinese"])
def test_every_notebook_is_there_with_its_minutes(readme: str) -> None:
    assert wrong_minutes(readme) == []


def test_both_have_the_same_form() -> None:
    assert differences(ENGLISH, CHINESE) == []


def test_each_leads_to_the_other_at_its_top() -> None:
    assert "](README.zh-CN.md)" in ENGLISH.split("\n\n")[1]
    assert "](README.md)" in CHINESE.split("\n\n")[1]


@pytest.mark.parametrize("readme", [ENGLISH, CHINESE], ids=["English", "Chinese"])
def test_one_screen_shows_what_there_is(readme: str) -> None:
    """Commands, picture and chapters within the first forty lines."""
    screen = "\n".join(readme.splitlines()[:40])
    assert "make lab" in screen and "make test" in screen
    assert re.search(r"!\[.{40,}\]\(\.github/picture\.png\)", screen)
    assert all(f"](notebooks/{path.name})" in screen for path in PATHS)


def test_picture_is_small() -> None:
    assert PICTURE.read_bytes().startswith(b"\x89PNG")
    assert PICTURE.stat().st_size < 150_000


def test_chinese_is_chinese() -> None:
    """Each heading and each line of prose has Chinese in it."""
    prose = re.sub(r"^```.+?^```", "", CHINESE, flags=re.DOTALL | re.MULTILINE)
    lines = [line for line in prose.splitlines() if re.search(r"\w", line)]
    assert [line for line in lines if not re.search(r"[\u4e00-\u9fff]", line)] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("| 85 ", "| 84 "),
        ("| 50 |", "| 60 |"),
        ("(notebooks/06_play.ipynb)", "(notebooks/05_summary.ipynb)"),
        ("| [6 ", "[6 "),
    ],
)
@pytest.mark.parametrize("readme", [ENGLISH, CHINESE], ids=["English", "Chinese"])
def test_wrong_minutes_are_noticed(readme: str, old: str, new: str) -> None:
    assert old in readme
    assert wrong_minutes(readme.replace(old, new)) != []


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("\n## ", "\n### ", "headings"),
        ("](LICENSE)", "](COPYING)", "links"),
        ("make gpu-kernels  ", "make kernels  ", "commands"),
        ("conda activate two-gpus\n", "", "commands"),
        ("`.venv`", "`venv`", "code"),
        ("| 50 |", "| 50 | |", "tables"),
        ("| 9 |", "| 8 |", "sections"),
    ],
)
def test_another_form_is_noticed(old: str, new: str, name: str) -> None:
    assert old in CHINESE
    assert name in differences(ENGLISH, CHINESE.replace(old, new, 1))
    assert differences(ENGLISH, ENGLISH.replace("# set up", "# 准备")) == []
