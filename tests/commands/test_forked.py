"""Commands that tests fork behave as processes of their own."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.descriptors import many_descriptors
from tests.commands.forked import ForkedCommands, run_kwire
from tests.polling import until


@pytest.fixture
def commands() -> Iterator[ForkedCommands]:
    started = ForkedCommands()
    yield started
    started.close()


def test_forked_command_writes_what_a_started_one_writes() -> None:
    done = run_kwire("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("kwire ")
    refused = run_kwire("topics", "fly")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "No such command 'fly'" in refused.stderr


def test_forked_command_has_its_own_environment_folder_and_input(tmp_path: Path) -> None:
    (tmp_path / "state.yaml").write_text("topics: [\n")
    done = run_kwire("apply", "state.yaml", "--check", folder=tmp_path)
    assert "state.yaml" in done.stderr
    nowhere = {"KWIRE_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    words = ("produce", "t", "--timeout", "0.1")
    done = run_kwire(*words, stdin="a line\n", environment=nowhere)
    assert done.returncode == 1
    assert "cannot connect to 127.0.0.1:1" in done.stderr
    assert "KWIRE_BOOTSTRAP_SERVERS" not in os.environ


def test_forked_commands_run_beside_each_other(tmp_path: Path) -> None:
    """The first waits for its file, which is a pipe, until the second has ended."""
    pipe = tmp_path / "state.yaml"
    os.mkfifo(pipe)
    statuses: list[int] = []

    def check() -> None:
        statuses.append(run_kwire("apply", str(pipe), "--dry-run", "-b", "127.0.0.1:1").returncode)

    waiting = threading.Thread(target=check)
    waiting.start()
    assert run_kwire("--version").returncode == 0
    assert statuses == []
    pipe.write_text("topics: [\n")
    waiting.join()
    assert statuses == [1]


def test_forked_command_is_killed_after_its_timeout_and_others_still_run(
    commands: ForkedCommands, tmp_path: Path
) -> None:
    pipe = tmp_path / "state.yaml"
    os.mkfifo(pipe)
    with pytest.raises(subprocess.TimeoutExpired):
        commands.run(["apply", str(pipe), "--check"], "", os.environ, tmp_path, timeout_s=0.1)
    until(lambda: not has_reader(pipe), "the command still waits for its file")
    done = commands.run(["--version"], "", os.environ, tmp_path, timeout_s=300)
    assert done.returncode == 0


def has_reader(pipe: Path) -> bool:
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return False
    return True


def test_commands_are_forked_though_the_worker_has_many_descriptors() -> None:
    with many_descriptors():
        commands = ForkedCommands()
        try:
            done = commands.run(["--version"], "", os.environ, Path.cwd(), timeout_s=300)
        finally:
            commands.close()
    assert done.returncode == 0
