"""Scripts in /docker-entrypoint-initdb.d, which run once for each data folder.

They run one after the other, sorted by name, when the broker answers and before it says that it is
ready; the health check fails until they are done.  An executable file is run as it is, another one
by bash, or by sh if there is no bash.  Only names that end in `.sh` count.  The first script that
fails ends the broker with status 1; it runs again at the next start.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FOLDER: Final = Path("/docker-entrypoint-initdb.d")
DONE: Final = ".kwire-initialised"
"""The file in the first log directory that says that the scripts have run."""
BOOTSTRAP: Final = "KWIRE_BOOTSTRAP_SERVERS"
"""The variable that gives scripts the broker's address; commands of kwire use it by themselves."""

log = logging.getLogger("kwire.image")


class ScriptFailed(Exception):
    """A script has failed; the message names it and its status."""


def pending(log_dir: str, folder: Path = FOLDER) -> list[Path]:
    """The scripts that have to run before the broker is ready."""
    if not folder.is_dir() or (Path(log_dir) / DONE).exists():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix == ".sh")


def run_scripts(scripts: list[Path], log_dir: str, address: str) -> None:
    """Run the scripts, with the broker's address in a variable.  Raises ScriptFailed."""
    environ = {**os.environ, BOOTSTRAP: os.environ.get(BOOTSTRAP) or address}
    for path in scripts:
        log.info("running %s", path)
        status = _status(path, environ)
        if status:
            raise ScriptFailed(
                f"{path} has failed with status {status}, so the broker stops: mend the script; it "
                "runs again at the next start"
            )
    (Path(log_dir) / DONE).touch()


def _status(path: Path, environ: Mapping[str, str]) -> int:
    """Run one script and return its status.  Raises ScriptFailed if it cannot be run."""
    import shutil
    import subprocess

    shell = shutil.which("bash") or "sh"
    command = [str(path)] if os.access(path, os.X_OK) else [shell, str(path)]
    try:
        done = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, check=False)
    except OSError as problem:
        raise ScriptFailed(
            f"cannot run {path}: {problem.strerror}. Does its first line name an interpreter that "
            "this image has, such as #!/bin/bash?"
        ) from None
    return done.returncode
