"""Checks .github/workflows: `make workflows`.

actionlint knows the syntax of workflows, and has shellcheck read their scripts where that is
installed.  zizmor finds what is unsafe in them; it asks nobody over the network.  Go builds
actionlint once.  The exit status is 1 if one of them has a finding.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.go_programs import built

ROOT: Final = Path(__file__).resolve().parent.parent
ACTIONLINT: Final = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"


def main() -> int:
    """Run both, and return 1 if one of them found something."""
    actionlint = built(ACTIONLINT)
    commands: list[list[str | Path]] = [
        [actionlint, "-color"] if sys.stdout.isatty() else [actionlint],
        [Path(sys.executable).with_name("zizmor"), "--offline", "--quiet", ".github"],
    ]
    statuses = [subprocess.run(command, cwd=ROOT, check=False).returncode for command in commands]
    return 1 if any(statuses) else 0


if __name__ == "__main__":
    raise SystemExit(main())
