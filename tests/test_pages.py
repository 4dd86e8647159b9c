"""The pages in Markdown agree with the code, link to files that exist, and stay readable."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import metadata
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

PAGES = sorted(
    chain(
        ROOT.glob("*.md"),
        *((ROOT / folder).rglob("*.md") for folder in ("docs", "docker", "conformance")),
    )
)
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

COLUMNS_MAX = 120
PARAGRAPH_LINES_MAX = 6
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def test_pip_show_prints_the_licence_as_one_word() -> None:
    about = metadata("kwire")
    assert about["License-Expression"] == "Apache-2.0"
    assert about.get_all("License-File") == ["LICENSE"]


# -- links


def anchors(text: str) -> set[str]:
    """The fragments that a page can be linked to by: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", CODE_BLOCK.sub("", text), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def broken_links(page: Path, text: str) -> Iterator[str]:
    """Links to files, or to headings of pages, that do not exist."""
    for link in LINK.findall(CODE_BLOCK.sub("", text)):
        if "://" in link:
            continue
        name, _, fragment = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists():
            yield link
        elif fragment and target.suffix == ".md":
            linked = text if target == page else target.read_text()
            if fragment not in anchors(linked):
                yield link


def test_pages_link_to_files_and_headings_that_exist() -> None:
    assert {"README.md", "docs/apis.md", "docs/decisions/README.md"} <= set(NAMES)
    broken = {
        name: links
        for name, page in zip(NAMES, PAGES, strict=True)
        if (links := list(broken_links(page, page.read_text())))
    }
    assert not broken, broken


FOLDERS = "codecs|conformance|docker|docs|groups|kwire|log|requirements|tests|tools|txn"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]+)`")
PLACEHOLDER = "NAME"


def test_paths_that_pages_name_exist() -> None:
    missing = {
        (name, path)
        for name, page in zip(NAMES, PAGES, strict=True)
        for path in PATH.findall(page.read_text())
        if PLACEHOLDER not in path and not (ROOT / path).exists()
    }
    assert not missing, missing


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("[a](tests/test_pages.py)", []),
        ("[a](tests)", []),
        ("[a](https://example.org/x)", []),
        ("[a](no/such/file.py)", ["no/such/file.py"]),
        ("# Two `words`, here\n[a](#two-words-here)", []),
        ("# Two words\n[a](#two-word)", ["#two-word"]),
        ("[a](docs/apis.md#no-such-heading)", ["docs/apis.md#no-such-heading"]),
        ("```\n[a](no/such/file.py)\n```\n", []),
    ],
)
def test_broken_links_are_found_outside_code_blocks(text: str, broken: list[str]) -> None:
    assert list(broken_links(ROOT / "README.md", text)) == broken


def test_make_targets_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name, page in zip(NAMES, PAGES, strict=True):
        text = page.read_text()
        for pattern in (r"`make ([a-z-]+)", r"^make ([a-z-]+)"):
            for target in re.findall(pattern, text, re.MULTILINE):
                assert target in targets, f"{name}: make {target}"


# -- decisions

HEADINGS = ["Context", "Decision", "What was tried", "Consequences"]


def test_decisions_are_numbered_and_listed_and_have_the_four_headings() -> None:
    folder = ROOT / "docs" / "decisions"
    pages = sorted(folder.glob("[0-9]*.md"))
    index = (folder / "README.md").read_text()
    for number, page in enumerate(pages, 1):
        text = page.read_text()
        title = text.splitlines()[0].removeprefix(f"# {number}. ")
        assert page.name.startswith(f"{number:04}-"), page.name
        assert f"| {number} | [{title}]({page.name}) |" in index, page.name
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS, page.name


def test_glossary_has_each_term_once() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    terms = [term for term in re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE) if term != "term"]
    terms = [term for term in terms if not term.startswith("---")]
    assert len(terms) > 50
    assert sorted(terms) == sorted(set(terms))


# -- fragments of the change log

KINDS = {
    kind["directory"]
    for kind in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
}


def is_fragment(name: str) -> bool:
    """Whether towncrier takes the file into the change log; it ignores others without a word."""
    match = re.fullmatch(r"\+[a-z0-9-]+\.([a-z]+)\.md", name)
    return match is not None and match[1] in KINDS


def test_files_beside_the_readme_of_the_changes_are_fragments() -> None:
    names = {page.name for page in (ROOT / "docs" / "changes").iterdir()} - {"README.md"}
    assert not {name for name in names if not is_fragment(name)}


def test_change_page_names_every_kind_of_fragment() -> None:
    page = (ROOT / "docs" / "changes" / "README.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == KINDS


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("+ping-timeout.fix.md", True),
        ("+ping-timeout.repair.md", False),
        ("ping-timeout.fix.md", False),
        ("+ping-timeout.md", False),
        ("+ping-timeout.fix.rst", False),
    ],
)
def test_fragment_name_has_a_plus_and_a_known_kind(name: str, accepted: bool) -> None:
    assert is_fragment(name) is accepted


# -- form


def too_long(text: str) -> Iterator[str]:
    """Lines and paragraphs above the limits, outside code blocks; a row of a table is no line."""
    for block in re.split(r"\n\s*\n", CODE_BLOCK.sub("", text)):
        lines = [line for line in block.strip().splitlines() if not line.startswith("|")]
        yield from (line for line in lines if len(line) > COLUMNS_MAX)
        items = re.split(r"^\s*(?:[-*]|\d+\.) ", "\n".join(lines), flags=re.MULTILINE)
        yield from (item for item in items if len(item.splitlines()) > PARAGRAPH_LINES_MAX)


def test_pages_keep_to_short_lines_and_paragraphs() -> None:
    for name, page in zip(NAMES, PAGES, strict=True):
        if name.startswith("conformance/"):  # partly generated
            continue
        assert not (found := list(too_long(page.read_text()))), f"{name}: {found}"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("a line\n" * PARAGRAPH_LINES_MAX, 0),
        ("a line\n" * (PARAGRAPH_LINES_MAX + 1), 1),
        ("- an item\n" * (PARAGRAPH_LINES_MAX + 1), 0),
        ("x" * COLUMNS_MAX, 0),
        ("x" * (COLUMNS_MAX + 1), 1),
        ("| " + "x" * COLUMNS_MAX, 0),
        ("```\n" + "x" * (COLUMNS_MAX + 1) + "\n```\n", 0),
    ],
)
def test_long_lines_and_paragraphs_are_found(text: str, number: int) -> None:
    assert len(list(too_long(text))) == number


@pytest.mark.parametrize(
    ("name", "lines_max", "words_max"),
    [("README.md", 150, 1200), ("ARCHITECTURE.md", 250, 1800)],
)
def test_pages_for_a_first_visit_stay_short(name: str, lines_max: int, words_max: int) -> None:
    text = (ROOT / name).read_text()
    assert len(text.splitlines()) <= lines_max
    assert len(CODE_BLOCK.sub("", text).split()) <= words_max
