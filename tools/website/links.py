"""Links of the repository's pages, as they have to be on the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.website.navigation import resolved

SOURCE_SCHEME: Final = "source:"
"""Before the path of a file of the repository that is no page; the extension makes a page of it."""
IMAGES: Final = (".png", ".svg")

_LINK = re.compile(r"(?:\[([\w./-]+\.md)\]|\])\(([^)\s]+)\)")
"""A link, with its text if that is the name of a page's file."""
_FENCE = re.compile(r"^ {0,3}```", re.MULTILINE)


@dataclass
class LinkRewriter:
    """Rewrites the links of pages, and collects the images that they show."""

    root: Path
    docnames: Mapping[str, str]
    """The name on the site of each page, by its path in the repository."""
    titles: Mapping[str, str]
    """The title of each page, which takes the place of a link's text that is a file name."""
    images: dict[str, str] = field(default_factory=dict)
    """Path on the site of each image, by its path in the repository."""

    def rewritten(self, text: str, page: str) -> str:
        """The text of a page with the links of the site; blocks of code stay as they are.

        Raises ValueError if a link names a file that does not exist.
        """
        return "".join(
            part if is_code else _LINK.sub(lambda match: self._link(match, page), part)
            for part, is_code in parts_of(text)
        )

    def _link(self, match: re.Match[str], page: str) -> str:
        """A link with the target that the site has."""
        text, target = match.groups()
        if text is not None:
            text = "[" + self.titles.get(resolved(target.partition("#")[0], page), text)
        return f"{text or ''}]({self._target(target, page)})"

    def _target(self, target: str, page: str) -> str:
        name, hash_sign, fragment = target.partition("#")
        if not name or "://" in target or target.startswith("mailto:"):
            return target
        path = resolved(name, page)
        for candidate in (path, f"{path}/README.md"):
            if candidate in self.docnames:
                return self._relative(f"{self.docnames[candidate]}.md", page) + hash_sign + fragment
        if not (self.root / path).exists():
            raise ValueError(f"{page} links to {target}, which does not exist")
        if path.endswith(IMAGES):
            self.images[path] = path.removeprefix("docs/").lower()
            return self._relative(self.images[path], page)
        return SOURCE_SCHEME + path

    def _relative(self, target: str, page: str) -> str:
        return posixpath.relpath(target, posixpath.dirname(self.docnames[page]) or ".")


def parts_of(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of a page, and whether each is a block of code with its fences."""
    lines: list[str] = []
    is_code = False
    for line in text.splitlines(keepends=True):
        if _FENCE.match(line):
            if is_code:
                yield "".join([*lines, line]), True
                lines = []
            else:
                yield "".join(lines), False
                lines = [line]
            is_code = not is_code
        else:
            lines.append(line)
    yield "".join(lines), is_code
