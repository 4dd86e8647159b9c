"""Writes the folder that Sphinx builds: the pages with the links of the site, and their images."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Final

from tools.website.links import LinkRewriter
from tools.website.navigation import (
    PYTHON_API,
    START,
    Navigation,
    NavigationSection,
    docname_of,
)

CLIENT_MODULES: Final = (
    "cluster", "producer", "consumer", "fetcher", "topics", "configs", "groups", "offsets",
    "quotas", "access.acls", "access.users", "errors",
)  # fmt: skip
"""Modules of kwire.client on the page of its docstrings, in the order in which they are read."""

NOT_INHERITED: Final = "object, tuple, Exception, BaseException"
"""Classes of Python whose own methods are not listed at those that inherit from them."""


def stage(navigation: Navigation, folder: Path) -> None:
    """Write the pages into an empty `folder`.  Raises ValueError for a link to a missing file."""
    docnames = navigation.docnames()
    links = LinkRewriter(navigation.root, docnames, navigation.titles())
    for page, docname in docnames.items():
        if page in PYTHON_API:
            text = python_page(navigation.title_of(page))
        else:
            text = links.rewritten((navigation.root / page).read_text("utf-8"), page)
        if page == START:
            text += "".join(map(section_toctree, navigation.sections))
        elif children := navigation.children.get(page):
            text += toctree([f"/{docnames[child]}" for child in children])
        path = folder / f"{docname}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for source, target in links.images.items():
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(navigation.root / source, folder / target)


def section_toctree(section: NavigationSection) -> str:
    """The pages of a section, for the navigation beside each page."""
    lines = [f"{entry.title} </{docname_of(entry.page)}>" for entry in section.entries]
    return toctree(lines, f":caption: {section.title}")


def toctree(lines: Iterable[str], *options: str) -> str:
    """A directive that lists pages for the navigation and shows nothing where it stands."""
    return "\n".join(["", "```{toctree}", ":hidden:", *options, "", *lines, "```", ""])


def python_page(package: str) -> str:
    """A page of the docstrings of a package: its public names, or modules of kwire.client."""
    module = import_module(package)
    parts = [f"# {package}\n\n```text\n{(module.__doc__ or '').strip()}\n```\n"]
    if hasattr(module, "__all__"):
        for name in sorted(module.__all__):
            directive = _directive(package, name, getattr(module, name))
            parts.append(f"\n## {name}\n\n{_rst(directive)}")
    else:
        for name in CLIENT_MODULES:
            directive = f".. automodule:: {package}.{name}\n   :members:\n"
            parts.append(f"\n## {package}.{name}\n\n{_rst(directive)}")
    return "".join(parts)


def _directive(package: str, name: str, value: object) -> str:
    if not isinstance(value, type):
        return f".. autofunction:: {package}.{name}\n"
    kind = "autoexception" if issubclass(value, Exception) else "autoclass"
    return f".. {kind}:: {package}.{name}\n   :members:\n   :inherited-members: {NOT_INHERITED}\n"


def _rst(directive: str) -> str:
    return f"```{{eval-rst}}\n{directive}```\n"
