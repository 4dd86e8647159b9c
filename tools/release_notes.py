"""Prints what is new in this version of kwire, as Markdown: `make release-notes TAG=v0.1.0`.

It is the section of CHANGELOG.md about the version, and before it what towncrier makes of the
fragments in docs/changes that are in no section yet.  With a tag, it fails unless the tag names the
version of kwire, so that no tag publishes another version than it says.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from kwire import __version__

ROOT: Final = Path(__file__).resolve().parent.parent


def section(changelog: str, version: str) -> str:
    """The text under the heading of a version, without the heading; empty if there is none."""
    heading = rf"^## {re.escape(version)}(?![\w.])[^\n]*$"
    match = re.search(rf"{heading}\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


def from_fragments() -> str:
    """What towncrier would add to the change log; empty without fragments."""
    if not any((ROOT / "docs" / "changes").glob("+*.md")):
        return ""
    towncrier = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", __version__]
    done = subprocess.run(towncrier, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return section(done.stdout, __version__)


def main(arguments: list[str]) -> int:
    """Print the notes; the only argument may be the tag.  Returns the exit status."""
    if arguments not in ([], [f"v{__version__}"]):
        print(f"{' '.join(arguments)} is not v{__version__}, kwire's version", file=sys.stderr)
        return 1
    notes = [from_fragments(), section((ROOT / "CHANGELOG.md").read_text(), __version__)]
    if not any(notes):
        print(f"CHANGELOG.md and docs/changes say nothing about {__version__}", file=sys.stderr)
        return 1
    print("\n\n".join(part for part in notes if part))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
