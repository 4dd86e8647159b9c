"""Programs that Go builds once, into `build/NAME@VERSION`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent


def built(package: str) -> Path:
    """The program of a Go package, as `example.org/x/cmd/NAME@VERSION`.

    It ends this program if Go is missing or cannot build it.
    """
    folder = ROOT / "build" / package.rpartition("/")[2]
    program = folder / folder.name.partition("@")[0]
    if not program.is_file():
        go = shutil.which("go")
        if go is None:
            raise SystemExit(f"no go on PATH, which builds {program.name}: install Go")
        building = os.environ | {"GOBIN": str(folder), "GOFLAGS": "-mod=mod"}
        subprocess.run([go, "install", package], env=building, check=True)
    return program
