"""The wire matrix against a release: what kwire answers unlike Apache Kafka, or not yet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kwire.conformance.apache_kafka import LIBS_VARIABLE
from kwire.conformance.report import FILES
from kwire.conformance.wire.runner import CellState

GREEN = CellState.GREEN


class MatrixFailed(RuntimeError):
    """The matrix could not be run; the text ends with the command's output."""


def run_matrix(version: str, libs: Path, root: Path) -> list[str]:
    """Compare kwire with a release, which takes minutes; return the cells that are not green.

    Raises MatrixFailed if a broker does not start.
    """
    with tempfile.TemporaryDirectory(prefix="kwire-upgrade-") as folder:
        command = [sys.executable, "-m", "kwire.conformance", "--only", "wire"]
        command += ["--oracle-version", version, "--report", folder]
        environment = {**os.environ, LIBS_VARIABLE: str(libs)}
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
        written = Path(folder, *(name for name in FILES if name.endswith(".json")))
        if not written.exists():
            raise MatrixFailed(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
        return matrix_lines(version, json.loads(written.read_text("utf-8"))["wire"]["cells"])


def matrix_lines(version: str, cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """A section of the work list about the matrix against a release."""
    open_cells = [cell for cell in cells if cell["state"] != GREEN]
    return [
        "",
        f"## The wire matrix against {version}",
        "",
        f"{len(cells)} versions of API keys, {len(open_cells)} not green.",
        "",
        *_open_lines(open_cells),
    ]


def _open_lines(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for cell in cells:
        name = f"{cell['api_key']} {cell['api']} version {cell['version']}"
        yield f"- {cell['state']}: {name} ({cell['why']})"
        yield from (f"  - {case['name']}" for case in cell["cases"] if case["state"] != GREEN)
