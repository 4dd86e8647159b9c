"""Servers that tests fork behave as started ones do."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.testing import BrokerProcess
from tests.commands.servers import KWIRE, ForkedServer, start


def started(log: Path, *arguments: str, kept: tuple[int, ...] = ()) -> ForkedServer:
    with log.open("ab") as file:
        server = start(
            [*KWIRE, *arguments],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            pass_fds=kept,
            start_new_session=True,
        )
    assert isinstance(server, ForkedServer)
    return server


def close(server: ForkedServer) -> None:
    assert server.stdout is not None
    server.stdin.close()
    server.stdout.close()


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[ForkedServer]:
    """A command that waits for its file, which is a pipe that nobody opens."""
    pipe = tmp_path / "state.yaml"
    os.mkfifo(pipe)
    server = started(tmp_path / "log", "apply", str(pipe), "--check")
    yield server
    server.kill()
    server.wait()
    close(server)


def test_forked_server_has_the_status_and_the_streams_of_its_command(tmp_path: Path) -> None:
    server = started(tmp_path / "log", "topics", "fly")
    assert server.wait() == server.poll() == server.returncode == 2
    assert "No such command 'fly'" in (tmp_path / "log").read_text()
    close(server)
    server = started(tmp_path / "log", "--version")
    assert server.stdout is not None
    assert server.stdout.readline().startswith(b"kwire ")
    assert server.wait() == 0
    close(server)


def test_forked_server_leads_a_session_of_its_own(waiting: ForkedServer) -> None:
    assert os.getsid(waiting.pid) == waiting.pid


def test_every_thread_gets_the_status_of_a_forked_server(waiting: ForkedServer) -> None:
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(waiting.wait())) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert waiting.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0)
    waiting.terminate()
    for thread in threads:
        thread.join()
    assert statuses == [-signal.SIGTERM] * 3
    with pytest.raises(ProcessLookupError):
        os.kill(waiting.pid, 0)


def test_forked_server_keeps_given_descriptors_until_it_ends(
    tmp_path: Path,
) -> None:
    """As a lifeline: the other end of the pipe learns of its end."""
    reading, kept = os.pipe()
    pipe = tmp_path / "state.yaml"
    os.mkfifo(pipe)
    server = started(tmp_path / "log", "apply", str(pipe), "--check", kept=(kept,))
    os.close(kept)
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)
    server.kill()
    server.wait()
    assert os.read(reading, 1) == b""
    os.close(reading)
    close(server)


def test_brokers_of_tests_are_forked_unless_a_test_starts_them(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    forked, own = BrokerProcess(tmp_path / "1"), BrokerProcess(tmp_path / "2")
    with forked:
        request.getfixturevalue("brokers_are_started")
        with own:
            parents = [_parent(broker.pid) for broker in (forked, own)]
    assert parents[0] != os.getpid()
    assert parents[1] == os.getpid()


def _parent(pid: int) -> int:
    done = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, check=True)
    return int(done.stdout)
