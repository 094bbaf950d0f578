"""What contributors read is true: commands, files, forms on GitHub, the check before a commit."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
FORMS = sorted(path for path in GITHUB.glob("ISSUE_TEMPLATE/*") if path.name != "config.yml")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *GITHUB.glob("*.md")])
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))

CODE = re.compile(r"^ *```\w*\n(.*?)^ *```|`([^`\n]+)`", flags=re.DOTALL | re.MULTILINE)
TARGET = re.compile(r"\bmake ([a-z]\S*)")
MODULE = re.compile(r"python3? -m ([a-z][\w.]*)")
PATH = re.compile(  # with a slash, or with an ending as files of the top folder have it
    r"(?<![\w/.:-])\.?\w[\w-]*/[\w./-]*|(?<![\w/.-])[\w-]+\.(?:py|txt|toml|yml)\b"
)


def unknown_names(text: str) -> list[str]:
    """The make targets, modules, files and folders that the code in a text in Markdown names, and
    that are not there. What make setup makes, in .venv, does not count."""
    code = "\n".join("".join(parts) for parts in CODE.findall(text))
    found = [f"make {name}" for name in TARGET.findall(code) if name not in TARGETS]
    for module in MODULE.findall(code):
        path = ROOT / module.replace(".", "/")
        if not (module == "venv" or path.is_dir() or path.with_suffix(".py").is_file()):
            found.append(module)
    for path in PATH.findall(code):
        if not (path.startswith(".venv/") or (ROOT / path).exists()):
            found.append(path)
    return found


# The attributes that each element of a form must have, and those that it may have.
# Source: docs.github.com, "Syntax for GitHub's form schema".
ELEMENTS: dict[str, tuple[set[str], set[str]]] = {
    "markdown": ({"value"}, set()),
    "input": ({"label"}, {"description", "placeholder", "value"}),
    "textarea": ({"label"}, {"description", "placeholder", "value", "render"}),
    "dropdown": ({"label", "options"}, {"description", "multiple", "default"}),
    "checkboxes": ({"label", "options"}, {"description"}),
}


def faults_of(form: dict[str, Any]) -> list[str]:
    """Why GitHub would not show a form for issues."""
    known = {"name", "description", "body", "title", "labels", "assignees", "projects", "type"}
    found = [f"lacks {key}" for key in ("name", "description", "body") if not form.get(key)]
    found += [f"has {key}" for key in form.keys() - known]
    names: Counter[str] = Counter()
    for element in form.get("body", []):
        must, may = ELEMENTS.get(element.get("type"), ({"a known type"}, set()))
        attributes = element.get("attributes", {})
        unknown = attributes.keys() - must - may
        unknown |= element.keys() - {"type", "id", "attributes", "validations"}
        found += [f"{element} lacks {key}" for key in must - attributes.keys()]
        found += [f"{element} has {key}" for key in unknown]
        names.update({element.get("id"), attributes.get("label")} - {None})
        options = [str(option) for option in attributes.get("options", [])]
        if len(set(options)) < len(options):
            found.append(f"{element} has an option twice")
    if {element.get("type") for element in form.get("body", [])} <= {"markdown"}:
        found.append("asks nothing")
    return found + [f"{name} twice" for name, count in names.items() if count > 1]


def commands_of(hooks: dict[str, Any]) -> list[str]:
    """What pre-commit runs before each commit, whatever has changed."""
    return [
        hook["entry"]
        for repo in hooks["repos"]
        for hook in repo["hooks"]
        if repo["repo"] == "local" and hook["always_run"] and not hook["pass_filenames"]
    ]


@pytest.mark.parametrize("path", [*DOCUMENTS, *FORMS], ids=lambda path: path.name)
def test_what_is_named_is_there(path: Path) -> None:
    assert unknown_names(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_github_shows_the_form(path: Path) -> None:
    assert faults_of(yaml.safe_load(path.read_text(encoding="utf-8"))) == []


def test_two_forms_ask_for_the_survey() -> None:
    asking = [p.stem for p in FORMS if "python -m helpers" in p.read_text(encoding="utf-8")]
    assert asking == ["failing_cell", "wrong_result"]


def test_the_map_has_all_helpers() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    parts = [*(ROOT / "helpers").glob("[a-z]*.py"), *(ROOT / "helpers").glob("*/__init__.py")]
    names = [p.parent.name + "/" if p.name == "__init__.py" else p.name for p in parts]
    assert [name for name in names if f"`helpers/{name}`" not in text] == []


def test_the_same_check_before_a_commit_as_in_the_workflow() -> None:
    """Only ``make lint`` knows what it consists of."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert commands_of(hooks) == ["make lint"]
    assert "\nmake lint\n" in (ROOT / ".ci/run").read_text(encoding="utf-8")


# --- the checks can fail ---


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("`make lint`, make sense, `make lab ARGS=--no-browser`", []),
        ("`make lints`", ["make lints"]),
        ("```sh\npython -m tests.benchmark\n```", []),
        ("```sh\npython -m tests.no_such\n```", ["tests.no_such"]),
        ("`tests/test_links.py`, `helpers/explore/`, `.github/workflows/verify.yml`", []),
        ("`tests/gone.py` or `helpers/gone/`", ["tests/gone.py", "helpers/gone/"]),
        ("`gone.toml`, `requirements.txt`, `.venv/bin/python`", ["gone.toml"]),
    ],
)
def test_a_name_of_nothing_is_found(text: str, found: list[str]) -> None:
    assert unknown_names(text) == found


ASKS = {"type": "input", "id": "a", "attributes": {"label": "A"}}
FORM = {"name": "A fault", "description": "Some fault.", "body": [ASKS]}


@pytest.mark.parametrize(
    "broken",
    [
        {"body": []},
        {"name": ""},
        {"about": "Some fault."},  # the key of the older templates
        {"body": [ASKS, ASKS]},
        {"body": [{**ASKS, "type": "text"}]},
        {"body": [{**ASKS, "label": "A"}]},
        {"body": [{"type": "input", "attributes": {}}]},
        {"body": [{"type": "input", "attributes": {"label": "A", "options": []}}]},
        {"body": [{"type": "dropdown", "attributes": {"label": "A", "options": ["a", "a"]}}]},
        {"body": [{"type": "markdown", "attributes": {"value": "Thanks!"}}]},
    ],
)
def test_a_broken_form_is_found(broken: dict[str, Any]) -> None:
    assert faults_of(FORM) == []
    assert faults_of({**FORM, **broken}) != []


def test_a_hook_that_looks_at_some_files_only_does_not_count() -> None:
    hook = {"entry": "make lint", "always_run": False, "pass_filenames": False}
    assert commands_of({"repos": [{"repo": "local", "hooks": [hook]}]}) == []
