"""Checks .github/workflows: `make workflows`.

actionlint knows the syntax of workflows, and has shellcheck read their scripts where that is
installed.  zizmor finds what is unsafe in them; it asks nobody over the network.  Go builds
actionlint once.  The exit status is 1 if one of them has a finding.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
ACTIONLINT: Final = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"


def actionlint() -> Path:
    """actionlint's program.  It ends this program if Go is missing or cannot build it."""
    folder = ROOT / "build" / ACTIONLINT.rpartition("/")[2]
    program = folder / "actionlint"
    if not program.is_file():
        go = shutil.which("go")
        if go is None:
            raise SystemExit("workflows: no go on PATH, which builds actionlint: install Go")
        building = os.environ | {"GOBIN": str(folder), "GOFLAGS": "-mod=mod"}
        subprocess.run([go, "install", ACTIONLINT], env=building, check=True)
    return program


def main() -> int:
    """Run both, and return 1 if one of them found something."""
    commands: list[list[str | Path]] = [
        [actionlint(), "-color"] if sys.stdout.isatty() else [actionlint()],
        [Path(sys.executable).with_name("zizmor"), "--offline", "--quiet", ".github"],
    ]
    statuses = [subprocess.run(command, cwd=ROOT, check=False).returncode for command in commands]
    return 1 if any(statuses) else 0


if __name__ == "__main__":
    raise SystemExit(main())
