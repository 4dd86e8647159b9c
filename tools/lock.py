"""Resolve the third-party versions anew and write `requirements/*.txt` (`make lock`).

Each lock names exact versions with the hashes of their files, for Python 3.11 and newer on every
system, and no package index: pip takes whichever the machine is set up with.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV_VENV = ROOT / "build" / "uv"
"""uv resolves for all systems and Pythons at once, which pip does not; only this file needs it."""

KAFKA_PYTHON = "conformance/clients/kafka-python/requirements"
"""Of the environment that client's suite runs in."""

LOCKS: dict[str, list[str]] = {
    "build.txt": ["requirements/build.in"],
    "kwire.txt": ["pyproject.toml"],
    "dev.txt": ["pyproject.toml", "--extra=dev", "--constraints=requirements/kwire.txt"],
    "mutants.txt": ["pyproject.toml", "--extra=mutants", "--constraints=requirements/dev.txt"],
    f"../{KAFKA_PYTHON}.txt": [f"{KAFKA_PYTHON}.in", "--constraints=requirements/dev.txt"],
}
"""In this order: the broker is tested with the versions it runs with."""


def main() -> int:
    """Write the locks; arguments go to uv, e.g. `--upgrade-package trio` or `--upgrade`."""
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
