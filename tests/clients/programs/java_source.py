"""Compiles the Java programs of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance import java


def compiled(source: Path, libs: Path, folder: Path) -> Path:
    """The folder with the program's classes; skips the test without a compiler."""
    try:
        return java.compiled(source, libs, folder)
    except java.JavaMissing as missing:
        pytest.skip(f"NOT TESTED: {missing}")
