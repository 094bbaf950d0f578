"""Words are spelled right, and in British English. `make lint` runs codespell over all files;
here stands what it cannot do: American words are wrong in prose and right in code."""

import io
import re
import shutil
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest
from test_notebooks import FENCED, PATHS, code_cells, load, markdown_cells

ROOT = Path(__file__).parents[1]
FOLDERS = ("", ".github/**/", "binder/", "environments/", "helpers/**/", "tests/**/")
DOCUMENTS = sorted(
    path
    for folder in FOLDERS
    for path in ROOT.glob(f"{folder}*.*")
    if path.suffix in (".md", ".py") and "original" not in path.parts  # the article's own lines
)

# American words of codespell's list that are right here.
MEANT = {
    "license": "in the text of the MIT License",
    "optimizer": "the frameworks' own word",
    "practice": "the noun",
    "program": "of a computer",
    "sanitize": "nbval's name for a file of its own",
}


@cache
def american_words() -> dict[str, str]:
    """The American words that codespell knows, each with its British spelling."""
    text = (files("codespell_lib") / "data/dictionary_en-GB_to_en-US.txt").read_text("utf-8")
    pairs = [line.split("->") for line in text.splitlines() if "->" in line]
    return {word.strip(): british for british, words in pairs for word in words.split(",")}


def comments(code: str) -> str:
    """The comments and docstrings of Python code; of an IPython cell too."""
    code = re.sub(r"^%.*", "", code, flags=re.MULTILINE)
    return "\n".join(
        token.string
        for token in tokenize.generate_tokens(io.StringIO(code).readline)
        if token.type == tokenize.COMMENT or token.line.lstrip().startswith('"""')
    )


def prose(path: Path) -> Iterator[tuple[str, str]]:
    """The places of a file, and what a reader reads there."""
    if path.suffix == ".ipynb":
        nb = load(path)
        yield from ((cell["id"], cell["source"]) for cell in markdown_cells(nb))
        yield from ((cell["id"], comments(cell["source"])) for cell in code_cells(nb))
    else:
        text = path.read_text(encoding="utf-8")
        yield path.name, comments(text) if path.suffix == ".py" else text


def american(text: str) -> list[str]:
    """The American words of a text in Markdown, code in it left out."""
    text = re.sub(r"(`+)[^`]+\1|\]\([^)]*\)|<[^>]+>|https?://\S+", " ", FENCED.sub("", text))
    words = american_words().keys() - MEANT.keys()
    return sorted(words & set(re.findall(r"[a-z]+", text.lower())))


@pytest.mark.parametrize("path", [*PATHS, *DOCUMENTS], ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_is_british(path: Path) -> None:
    found = {place: american(text) for place, text in prose(path)}
    assert {place: words for place, words in found.items() if words} == {}


def test_every_meant_word_is_american_elsewhere() -> None:
    assert MEANT.keys() <= american_words().keys()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The colour of a neighbour, an optimizer of a computer program.", []),
        ("The Color of a neighbor.", ["color", "neighbor"]),
        ("Say `color` there, [so](color.md):\n```\ncolor = 1\n```\n", []),
        (comments('%%px\nplt.plot(x, color="gray")  # one color\n'), ["color"]),
        (comments('def f():\n    """The center."""\n    return "gray"\n'), ["center"]),
        (comments('script = """\nplt.plot(color="gray")\n"""\n'), []),
    ],
)
def test_american_words(text: str, words: list[str]) -> None:
    assert american(text) == words


@pytest.mark.parametrize("line", ["# 6. Play with it: six explorers", "# Worked answer: open this"])
def test_lint_finds_a_planted_misspelling(line: str, tmp_path: Path) -> None:
    """As `make lint` runs it, without arguments, over a folder with one notebook."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "notebooks").mkdir()
    text = (ROOT / "notebooks/06_play.ipynb").read_text(encoding="utf-8")
    for planted, misspelled in (("", []), ("teh ", ["teh ==> the"])):  # codespell:ignore teh
        changed = text.replace(line, f"# {planted}{line[2:]}", 1)
        (tmp_path / "notebooks/06_play.ipynb").write_text(changed, encoding="utf-8")
        run = subprocess.run(
            [sys.executable, "-m", "codespell_lib"], cwd=tmp_path, capture_output=True, text=True
        )
        assert (changed == text) is (planted == "")
        assert [found.split(": ")[1] for found in run.stdout.splitlines()] == misspelled
        assert bool(run.returncode) is bool(misspelled)
