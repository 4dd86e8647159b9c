"""Tests are collected in advance only if workers would have many to compile."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tools.collected import ROOT, SUFFIX, not_compiled


def test_module_is_not_compiled_if_its_compiled_file_is_missing_or_older(tmp_path: Path) -> None:
    modules = {name: tmp_path / "room" / f"test_{name}.py" for name in ("missing", "old", "new")}
    cache = tmp_path / "room" / "__pycache__"
    cache.mkdir(parents=True)
    for name, module in modules.items():
        module.touch()
        os.utime(module, (1000, 1000))
        if name != "missing":
            compiled = cache / f"test_{name}{SUFFIX}"
            compiled.touch()
            os.utime(compiled, (999, 999) if name == "old" else (1000, 1000))
    assert {*not_compiled(tmp_path)} == {modules["missing"], modules["old"]}


@pytest.mark.skipif(sys.dont_write_bytecode, reason="Python is told to keep no compiled files")
def test_this_module_is_compiled_after_pytest_has_imported_it() -> None:
    """So the names are those that pytest gives to its compiled files."""
    assert Path(__file__) not in {*not_compiled(ROOT / "tests" / "tools")}
