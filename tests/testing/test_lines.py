"""Lines that are cut and mended, and who it is that calls."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from kwire.testing.hosting.ports import free_port
from kwire.testing.lines import HERE, Direction, Line, process_of

needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks into /proc")

PATIENCE_S = 60.0


class Ends:
    """Both ends of calls over a line: who calls says first, with one byte, who he is."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._target = stack.enter_context(socket.create_server((HERE, 0)))
        self._target.settimeout(PATIENCE_S)
        self.line = Line(self._target.getsockname()[:2], self._caller_of)
        self.line.open()
        stack.callback(self.line.close)

    def _caller_of(self, link: socket.socket) -> int:
        return link.recv(1)[0]

    def call(self, caller: int) -> socket.socket:
        link = self._stack.enter_context(
            closing(socket.create_connection((HERE, self.line.port), PATIENCE_S))
        )
        link.sendall(bytes([caller]))
        return link

    def accept(self) -> socket.socket:
        link = self._stack.enter_context(closing(self._target.accept()[0]))
        link.settimeout(PATIENCE_S)
        return link


@pytest.fixture
def ends() -> Iterator[Ends]:
    with ExitStack() as stack:
        yield Ends(stack)


def test_data_sent_during_a_cut_is_delivered_after_the_mend(ends: Ends) -> None:
    near, far = ends.call(1), ends.accept()
    near.sendall(b"before")
    assert far.recv(64) == b"before"
    ends.line.cut(1)
    near.sendall(b"asked")
    far.sendall(b"answered")
    other, others_far = ends.call(2), ends.accept()
    other.sendall(b"of another")
    assert others_far.recv(64) == b"of another"
    for end in near, far:
        end.setblocking(False)
        with pytest.raises(BlockingIOError):
            end.recv(64)
        end.settimeout(PATIENCE_S)
    ends.line.mend(1)
    assert far.recv(64) == b"asked"
    assert near.recv(64) == b"answered"


@pytest.mark.parametrize("direction", list(Direction))
def test_cut_of_one_direction_leaves_the_other(ends: Ends, direction: Direction) -> None:
    near, far = ends.call(1), ends.accept()
    ends.line.cut(1, direction)
    near.sendall(b"asked")
    far.sendall(b"answered")
    heard, deaf = (near, far) if direction is Direction.TO_TARGET else (far, near)
    assert heard.recv(64) == (b"answered" if direction is Direction.TO_TARGET else b"asked")
    deaf.setblocking(False)
    with pytest.raises(BlockingIOError):
        deaf.recv(64)
    deaf.settimeout(PATIENCE_S)
    ends.line.mend(1, direction)
    assert deaf.recv(64) == (b"asked" if direction is Direction.TO_TARGET else b"answered")


def test_connection_does_not_reach_the_target_while_one_direction_is_cut(ends: Ends) -> None:
    """Who calls would not hear that he got through."""
    ends.line.cut(1, Direction.TO_CLIENT)
    near = ends.call(1)
    near.sendall(b"hello")
    other = ends.call(2)
    other.sendall(b"of another")
    assert ends.accept().recv(64) == b"of another"
    ends.line.mend(1, Direction.TO_CLIENT)
    assert ends.accept().recv(64) == b"hello"


def test_overlapping_cuts_are_mended_one_by_one(ends: Ends) -> None:
    near, far = ends.call(1), ends.accept()
    ends.line.cut(1)
    ends.line.cut(1, Direction.TO_TARGET)
    ends.line.mend(1)
    far.sendall(b"answered")
    assert near.recv(64) == b"answered"
    near.sendall(b"asked")
    far.setblocking(False)
    with pytest.raises(BlockingIOError):
        far.recv(64)
    far.settimeout(PATIENCE_S)
    ends.line.mend_all()
    assert far.recv(64) == b"asked"
    ends.line.mend(1)
    near.sendall(b"on")
    assert far.recv(64) == b"on"


def test_connection_made_during_a_cut_reaches_the_target_after_the_mend(ends: Ends) -> None:
    ends.line.cut(1)
    near = ends.call(1)
    near.sendall(b"hello")
    ends.line.mend(1)
    assert ends.accept().recv(64) == b"hello"


def test_end_of_data_is_forwarded(ends: Ends) -> None:
    near, far = ends.call(1), ends.accept()
    near.shutdown(socket.SHUT_WR)
    assert far.recv(64) == b""
    far.sendall(b"still")
    assert near.recv(64) == b"still"
    far.close()
    assert near.recv(64) == b""


def test_connection_ends_if_the_target_does_not_listen() -> None:
    line = Line((HERE, free_port()), lambda link: link.recv(1)[0])
    line.open()
    with (
        closing(line),
        closing(socket.create_connection((HERE, line.port), PATIENCE_S)) as near,
    ):
        near.sendall(b"\1")
        assert near.recv(64) == b""


def test_closed_line_ends_connections_and_can_open_again(ends: Ends) -> None:
    near, far = ends.call(1), ends.accept()
    ends.line.cut(1)
    near.sendall(b"lost")
    ends.line.close()
    ends.line.cut(1)  # there is nothing to be cut
    assert near.recv(64) == b""
    ends.line.open()
    again = ends.call(1)
    again.sendall(b"once more")
    assert ends.accept().recv(64) == b"once more"
    assert far.recv(64) in (b"", b"lost")


@needs_proc
def test_process_of_a_connection_is_found() -> None:
    with (
        subprocess.Popen(["cat"], stdin=subprocess.PIPE) as another,
        closing(socket.create_server((HERE, 0))) as server,
        closing(socket.create_connection(server.getsockname())) as near,
        closing(server.accept()[0]) as far,
    ):
        assert process_of(far, {7: another.pid, 8: os.getpid()}) == 8
        with pytest.raises(ConnectionError, match="has ended"):
            process_of(far, {7: another.pid})
        near.close()
        assert far.recv(1) == b""
        with pytest.raises(ConnectionError, match="has"):
            process_of(far, {8: os.getpid()})
