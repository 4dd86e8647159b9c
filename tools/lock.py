"""Resolves third-party versions again and writes `requirements/*.txt` (`make lock`).

Each lock has exact versions with the hashes of their files, for Python 3.11 and newer on every
system.  It names no package index, so pip uses the one that the machine is configured with.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV_VENV = ROOT / "build" / "uv"
"""uv resolves for all systems and Pythons at once, which pip cannot.  Only this tool needs it."""

KAFKA_PYTHON = "conformance/clients/kafka-python/requirements"
"""The requirements of the environment in which that client's test suite runs."""

LOCKS: dict[str, list[str]] = {
    "build.txt": ["requirements/build.in"],
    "release.txt": ["requirements/release.in", "--constraints=requirements/build.txt"],
    "kwire.txt": ["pyproject.toml"],
    "dev.txt": ["pyproject.toml", "--extra=dev", "--constraints=requirements/kwire.txt"],
    "mutants.txt": ["pyproject.toml", "--extra=mutants", "--constraints=requirements/dev.txt"],
    "spark-4.0.0.txt": ["requirements/spark-4.0.0.in"],
    f"../{KAFKA_PYTHON}.txt": [f"{KAFKA_PYTHON}.in", "--constraints=requirements/dev.txt"],
}
"""The sources of each lock.  The order matters: tests must use the broker's versions."""


def main() -> int:
    """Write the locks.  Arguments go to uv, such as `--upgrade-package trio` or `--upgrade`."""
    uv = UV_VENV / "bin" / "uv"
    if not uv.exists():
        subprocess.run([sys.executable, "-m", "venv", UV_VENV], check=True)
        subprocess.run([UV_VENV / "bin" / "pip", "install", "--quiet", "uv"], check=True)
    for name, sources in LOCKS.items():
        options = ["--universal", "--python-version=3.11", "--generate-hashes", "--quiet"]
        made_by = "--custom-compile-command=make lock"
        output = f"--output-file=requirements/{name}"
        subprocess.run(
            [uv, "pip", "compile", *sources, *options, made_by, output, *sys.argv[1:]],
            cwd=ROOT,
            check=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
