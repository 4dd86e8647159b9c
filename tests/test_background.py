"""The tests may run as a background job, whose shell has it ignore Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import pytest_configure

ROOT = Path(__file__).resolve().parent.parent


def test_what_a_test_starts_can_be_interrupted() -> None:
    program = "import time; print('there', flush=True); time.sleep(600)"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"there\n"
        started.send_signal(signal.SIGINT)
    assert started.returncode == -signal.SIGINT


def test_session_that_begins_with_ctrl_c_ignored_listens_to_it(
    pytestconfig: pytest.Config,
) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pytest_configure(pytestconfig)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("workers", ["0", "1"])
def test_in_the_background_too(workers: str) -> None:
    again = f"{Path(__file__).relative_to(ROOT)}::test_what_a_test_starts_can_be_interrupted"
    command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "--timeout=60", again]
    shell = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    done = subprocess.run(shell, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
