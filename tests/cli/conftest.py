"""Running the installed command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

Kwire = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kwire(bootstrap: str) -> Kwire:
    """Run `kwire` in a process of its own against the broker: kwire("topics", "list")."""
    environ = {**os.environ, "KWIRE_BOOTSTRAP_SERVERS": bootstrap}

    def run(*arguments: str, stdin: str = "", status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "kwire.cli", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=environ,
            timeout=300,
            check=False,
        )
        assert done.returncode == status, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run
