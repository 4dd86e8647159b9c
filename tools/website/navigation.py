"""The sections and pages of the site, as the start page `docs/README.md` lists them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

START: Final = "docs/README.md"
PARENTS: Final = ("docs/decisions/README.md", "docs/figures.md", "docs/python.md")
"""Pages whose own links are pages below them in the navigation."""
PYTHON_API: Final = {
    "kwire/testing/__init__.py": "python/testing",
    "kwire/client/__init__.py": "python/client",
}
"""Packages that have a page of their docstrings, and its name on the site."""

_SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)
_ITEM = re.compile(r"^- \[([^\]]+)\]\(([^)#\s]+)\)(?:: )?((?:.|\n(?!- |\n))*)", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)\)")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


class NavigationEntry(NamedTuple):
    """A page: its title in the navigation, its path in the repository, and what it is about."""

    title: str
    page: str
    about: str


class NavigationSection(NamedTuple):
    """A heading of the start page, and the pages listed below it."""

    title: str
    entries: tuple[NavigationEntry, ...]


def sections_of(text: str, page: str = START) -> list[NavigationSection]:
    """The sections of a start page with at least one list item that begins with a link."""
    _, *parts = _SECTION.split(text)
    found = []
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        entries = tuple(
            NavigationEntry(name, resolved(target, page), " ".join(about.split()))
            for name, target, about in _ITEM.findall(body)
        )
        if entries:
            found.append(NavigationSection(title, entries))
    return found


def resolved(target: str, page: str) -> str:
    """The path in the repository of a relative link on `page`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


def docname_of(page: str) -> str:
    """The name of a page on the site, without a suffix: `docs/x.md` is `x`, a README `index`."""
    if page in PYTHON_API:
        return PYTHON_API[page]
    if page == "README.md":
        return "overview"
    folder, name = posixpath.split(page.removeprefix("docs/"))
    stem = name.removesuffix(".md")
    return posixpath.join(folder, "index" if stem == "README" else stem).lower()


class Navigation:
    """All pages of the site."""

    def __init__(self, root: Path) -> None:
        """`root` is the folder of the repository."""
        self.root = root
        self.sections = sections_of((root / START).read_text("utf-8"))
        self.children = {page: tuple(self._children_of(page)) for page in PARENTS}

    def _children_of(self, page: str) -> Iterator[str]:
        """The pages that a parent links to and the start page does not, each once."""
        listed = {START, *(entry.page for each in self.sections for entry in each.entries)}
        for _, target in _LINK.findall((self.root / page).read_text("utf-8")):
            path = resolved(target, page)
            if (path.endswith(".md") or path in PYTHON_API) and path not in listed:
                listed.add(path)
                yield path

    def entries(self) -> Iterator[NavigationEntry]:
        """Each page of the navigation, in its order, children after their parent."""
        for section in self.sections:
            for entry in section.entries:
                yield entry
                for child in self.children.get(entry.page, ()):
                    yield NavigationEntry(self.title_of(child), child, "")

    def title_of(self, page: str) -> str:
        """The first heading of a page, without marks."""
        if page in PYTHON_API:
            return page.removesuffix("/__init__.py").replace("/", ".")
        match = _TITLE.search((self.root / page).read_text("utf-8"))
        if match is None:
            raise ValueError(f"{page} has no title: begin it with a line '# TITLE'")
        return match[1].replace("`", "")

    def docnames(self) -> dict[str, str]:
        """The name on the site of each page, by its path in the repository."""
        return {START: "index"} | {entry.page: docname_of(entry.page) for entry in self.entries()}

    def titles(self) -> dict[str, str]:
        """The title of each page in the navigation, by its path in the repository."""
        return {entry.page: entry.title for entry in self.entries()}
