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
    """Run `kwire` in a process of its own against the broker: kwire("topics", "list").

    With `status=None` whatever it ends with will do.
    """

    def run(
        *arguments: str, stdin: str = "", status: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "kwire.cli", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, "KWIRE_BOOTSTRAP_SERVERS": bootstrap},
            timeout=300,
            check=False,
        )
        told = f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        assert status is None or done.returncode == status, told
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run
