"""The `pip install` lines of the documentation and of kwire's own help and messages."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
_LINE = re.compile(r"\bpip install ((?:'[^'\n]*'|[^\s'`\"),;]+)(?: (?:'[^'\n]*'|[\w.\[\]=<>-]+))*)")
_UNWANTED = (".*", "build", "dist", "artifacts", "*.egg-info", "tests")


class InstallLine(NamedTuple):
    """What follows `pip install` on a line of `page`, up to what is no requirement."""

    page: str
    text: str

    @property
    def requirements(self) -> list[str]:
        return shlex.split(self.text)


def pages() -> Iterator[Path]:
    """Every page, and every module whose help or messages may tell a user what to type."""
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted((ROOT / "docs").rglob("*.md"))
    yield ROOT / "docker" / "README.md"
    yield from sorted((ROOT / "kwire").rglob("*.py"))


def install_lines() -> list[InstallLine]:
    return [
        InstallLine(str(page.relative_to(ROOT)), text)
        for page in pages()
        for text in _LINE.findall(page.read_text())
    ]


def copy_sources(target: Path) -> None:
    """Copy what a clone holds, as far as an installation needs it."""
    shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(*_UNWANTED))
