"""Collect the tests once before workers do, if many of them are not compiled yet.

On a fresh clone each worker would compile all tests, and rewrite their asserts, by itself.  Later
on, a collection that comes before those of the workers only takes time.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WORTH = 50
"""Modules that each worker may compile by itself, which takes a second or two."""

SUFFIX = f".{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc"
"""Of the files in which pytest keeps compiled tests."""


def not_compiled(folder: Path) -> Iterator[Path]:
    """Modules of tests whose compiled file is missing or older than they are."""
    for path in folder.rglob("test_*.py"):
        compiled = path.parent / "__pycache__" / f"{path.stem}{SUFFIX}"
        if not compiled.exists() or compiled.stat().st_mtime < path.stat().st_mtime:
            yield path


def main() -> int:
    """Collect them if that is worth it; returns pytest's exit status."""
    if sum(1 for _ in not_compiled(ROOT / "tests")) <= WORTH:
        return 0
    command = [sys.executable, "-m", "pytest", "-n", "0", "--collect-only", "-qq"]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        print(done.stdout)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
