"""`llms.txt` and `llms-full.txt`: the site for language models, and the Markdown of each page.

The form is that of llmstxt.org: a title, a summary, and a list of pages by section.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tools.website.links import SOURCE_SCHEME
from tools.website.navigation import PYTHON_API, START, Navigation, docname_of

_SOURCE_LINK: Final = re.compile(rf"\[([^\]]+)\]\({SOURCE_SCHEME}([^)]+)\)")
_DIRECTIVE: Final = re.compile(r"^```\{.*?^```\n", re.MULTILINE | re.DOTALL)


def write_texts(navigation: Navigation, staged: Path, site: Path) -> None:
    """Write both files and the Markdown of each page into `site`, from the staged pages."""
    site.mkdir(parents=True, exist_ok=True)
    pages = {page: _plain((staged / f"{name}.md").read_text("utf-8"))
             for page, name in navigation.docnames().items() if page not in PYTHON_API}  # fmt: skip
    for page, text in pages.items():
        path = site / f"{docname_of(page)}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (site / "llms.txt").write_text(index(navigation, pages[START]), "utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(map(str.strip, pages.values())) + "\n", "utf-8")


def index(navigation: Navigation, start: str) -> str:
    """The text of `llms.txt`; its summary is the first paragraph of the start page."""
    title, summary = start.split("\n\n")[:2]
    parts = [f"{title}\n\n> {' '.join(summary.split())}\n"]
    for section in navigation.sections:
        parts.append(f"\n## {section.title}\n\n")
        for entry in section.entries:
            about = f": {entry.about}" if entry.about else ""
            parts.append(f"- [{entry.title}]({docname_of(entry.page)}.md){about}\n")
    return "".join(parts)


def _plain(text: str) -> str:
    """Staged Markdown without directives of Sphinx, and with paths in place of source links."""
    return _SOURCE_LINK.sub(r"\1 (`\2`)", _DIRECTIVE.sub("", text)).rstrip() + "\n"
