"""Links lead somewhere: those of documents and notebooks, in the repository and on the web."""

import os
import re
import threading
import urllib.request
from collections import defaultdict
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
from test_notebooks import FENCED, PATHS, anchors, load, markdown_cells

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", ".github/**/*.md", "environments/**/*.md", "helpers/**/*.md")
    for path in ROOT.glob(pattern)
)
SOURCES = sorted(path for path in ROOT.glob("helpers/**/*.py"))

LINK = re.compile(r"\]\(([^)\s]+)|^\[[^]]+\]: (\S+)|(?:href|src)=\"([^\"]+)\"", flags=re.MULTILINE)


def texts(path: Path) -> dict[str, str]:
    """The places of a document or a notebook, and their Markdown without code."""
    if path.suffix == ".ipynb":
        found = {cell["id"]: cell["source"] for cell in markdown_cells(load(path))}
    else:
        found = {path.name: path.read_text(encoding="utf-8")}
    return {place: re.sub(r"`[^`\n]*`", "`", FENCED.sub("", text)) for place, text in found.items()}


def headings(path: Path) -> set[str]:
    """What the links to the headings of a file are called: in a notebook as JupyterLab does it,
    else as GitHub: small letters, no punctuation, hyphens for spaces."""
    if path.suffix == ".ipynb":
        return anchors(load(path))
    text = FENCED.sub("", path.read_text(encoding="utf-8"))
    found = re.findall(r"^#+ (.+?)\s*$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def broken_links(path: Path, root: Path) -> list[str]:
    """The links of a file that lead to no file below ``root``, or to no heading there."""
    found = []
    for place, text in texts(path).items():
        for target in LINK.findall(text):
            link = unquote("".join(target))
            if re.match(r"[a-z]+:", link):  # the web, mail, an attachment
                continue
            name, _, anchor = link.partition("#")
            there = (path.parent / name).resolve() if name else path
            inside = there.exists() and there.is_relative_to(root.resolve())
            if not inside or (anchor and anchor not in headings(there)):
                found.append(f"{place}: {link}")
    return found


def addresses(path: Path) -> list[str]:
    """The addresses of the web that stand in a file, in its code as well, but not in outputs."""
    if path.suffix == ".ipynb":
        text = "\n".join(cell["source"] for cell in load(path)["cells"])
    else:
        text = path.read_text(encoding="utf-8")
    return re.findall(r"https?://(?!localhost|127\.)[^\s<>\"'`)\]\\]+", text)


def ill_formed(links: Iterable[str]) -> list[str]:
    """Addresses that are not https, end with a stop or comma, or are written in two ways."""
    found = [link for link in links if not re.fullmatch(r"https://[\w.-]+\.\w+(/.*)?", link)]
    found += [link for link in links if link.endswith((".", ",", ";", ":"))]
    ways = defaultdict(set)
    for link in links:
        ways[re.sub(r"^https?://(www\.)?|/$|\.git$", "", link).lower()].add(link)
    return found + [" or ".join(sorted(way)) for way in ways.values() if len(way) > 1]


def fault(link: str) -> str:
    """Why an address gives no page, or nothing."""
    request = urllib.request.Request(link, headers={"User-Agent": "Mozilla/5.0"})
    try:
        with urllib.request.urlopen(request, timeout=30):
            return ""
    except OSError as error:
        return f"{link}: {error}"


# --- the links are good ---

WEB = sorted({link for path in [*DOCUMENTS, *PATHS, *SOURCES] for link in addresses(path)})


@pytest.mark.parametrize("path", [*DOCUMENTS, *PATHS], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(path: Path) -> None:
    assert broken_links(path, ROOT) == []


def test_addresses_are_well_formed() -> None:
    assert WEB
    assert ill_formed(WEB) == []


@pytest.mark.skipif(
    "ONLINE" not in os.environ,
    reason="asks the web: ONLINE=1 make test ARGS=tests/test_links.py",
)
@pytest.mark.parametrize("link", WEB)
def test_the_web_has_the_page(link: str) -> None:
    assert fault(link) == ""


# --- the checks can fail ---


@pytest.mark.parametrize(
    ("link", "holds"),
    [
        ("[a](there.md)", True),
        ("[a](there.md#one-and-two)", True),
        ("[a](https://example.org/x)", True),
        ("[a](#1-one-or-two)", True),
        ("`[a](code.md)`", True),
        ("- so\n\n  ```\n  [a](code.md)\n  ```", True),
        ("[a](missing.md)", False),
        ("[a](there.md#One-and-two)", False),
        ("[a](there.md#two)", False),
        ("[a](#1-two)", False),
        ("[![a](missing.png)](there.md)", False),
        ("[![a](https://example.org/a.svg)](missing.md)", False),
        ("[a][b]\n\n[b]: missing.md", False),
        ('<img src="missing.png">', False),
        ("[a](../outside.md)", False),
        ("[a](/)", False),
    ],
)
def test_links(link: str, holds: bool, tmp_path: Path) -> None:
    (tmp_path / "outside.md").touch()
    root = tmp_path / "root"
    root.mkdir()
    (root / "there.md").write_text("# `One` and two!\n```\n# two\n```\n")
    document = root / "here.md"
    document.write_text(f"## 1. One, or two\n\n{link}\n")
    assert (broken_links(document, root) == []) is holds


@pytest.mark.parametrize(
    ("link", "holds"),
    [
        ("#§1-One-&-`two`", False),
        ("#§1-One-&-two", True),
        ("#§1-one", False),
        ("there.ipynb#§1-One-&-two", True),
        ("there.ipynb#§2-One", False),
        ("here.md", True),
        ("gone.ipynb", False),
    ],
)
def test_links_of_notebooks(link: str, holds: bool, tmp_path: Path) -> None:
    (tmp_path / "here.md").touch()
    cell = '{"cell_type": "markdown", "id": "one", "source": ["## §1 One & `two`\\n", "[a](%s)"]}'
    for name in ("here.ipynb", "there.ipynb"):
        (tmp_path / name).write_text('{"cells": [%s]}' % (cell % link), encoding="utf-8")
    assert (broken_links(tmp_path / "here.ipynb", tmp_path) == []) is holds


@pytest.mark.parametrize(
    "links",
    [
        ["http://example.org"],
        ["https://example"],
        ["https://example.org/a."],
        ["https://example.org/a", "https://www.example.org/A/"],
        ["https://example.org/a", "https://example.org/a.git"],
    ],
)
def test_ill_formed_addresses_are_found(links: list[str]) -> None:
    assert ill_formed(["https://example.org/b", "https://example.org/c"]) == []
    assert ill_formed(links) != []


@pytest.fixture
def server() -> Iterator[str]:
    """A web with one page, /here."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/here" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_missing_page_is_found(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert fault(f"{server}/here") == ""
    assert "404" in fault(f"{server}/gone")
    assert "refused" in fault("http://127.0.0.1:9")
