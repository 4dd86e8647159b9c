"""Replies into a socket that takes what it likes: bytes and pieces of files, all, in order."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.codecs.primitives import Frame
from kwire.log import Region
from kwire.log.directory.files import Files
from kwire.requests.context import InvalidFrame
from kwire.server.network.outbox import Outbox
from kwire.server.network.transport import PlainTransport

KB = 1024
MB = 1024 * KB
FILE_BYTES = 3 * MB + 7


class Pair:
    """An outbox, and the other end of its socket."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.far.setblocking(False)
        self.others = False
        self.is_one_alone = False
        self.outbox = Outbox(PlainTransport(self.near), self)
        self.received = bytearray()

    def others_wait(self) -> bool:
        return self.others

    def receive(self, size_bytes: int = 1 << 22) -> None:
        try:
            while data := self.far.recv(min(size_bytes, 1 << 16)):
                self.received += data
                size_bytes -= len(data)
                if size_bytes <= 0:
                    return
        except BlockingIOError:
            return

    def flush(self) -> bool:
        """As a connection does: what is not in memory is read first."""
        done = self.outbox.flush()
        cold, self.outbox.cold = self.outbox.cold, None
        if cold is not None:
            cold.read_in()
        return done

    def finish(self, receive_bytes: int = MB) -> None:
        """Send and receive in turns until all is there; two turns a piece are plenty."""
        for _ in range(20_000):
            if self.flush():
                break
            assert self.outbox
            self.receive(receive_bytes)
        assert not self.outbox
        self.receive(1 << 30)

    def fill(self) -> None:
        """Leave no room in the socket."""
        try:
            while True:
                self.near.send(bytes(4096))
        except BlockingIOError:
            return


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.near.close()
    made.far.close()


@pytest.fixture
def content(rng: random.Random) -> bytes:
    return rng.randbytes(FILE_BYTES)


@pytest.fixture
def region(tmp_path: Path, content: bytes) -> type:
    """Makes regions of a file that holds `content`."""
    path = tmp_path / "file"
    path.write_bytes(content)
    file = Files().open(path)

    class OfFile(Region):
        def __init__(self, position: int, size_bytes: int) -> None:
            super().__init__(file, position, size_bytes, 0, Files(), 0)

    return OfFile


def frame(*pieces: bytes | Region) -> tuple[Frame, int]:
    """A reply of these pieces, and how long it is on the wire."""
    made = Frame()
    for piece in pieces:
        if isinstance(piece, Region):
            made.regions.append((len(made), piece))
        else:
            made += piece
    return made, sum(len(piece) for piece in pieces)


def whole(pieces: list[bytes | Region], content: bytes) -> bytes:
    return b"".join(
        piece
        if isinstance(piece, bytes)
        else content[piece.position : piece.position + piece.size_bytes]
        for piece in pieces
    )


SIZES = (1, 2, 100, 16 * KB - 1, 16 * KB, 16 * KB + 1, 64 * KB, 200 * KB, MB, MB + 1, 3 * MB)


@pytest.mark.parametrize("number", range(8))
def test_outbox_sends_bytes_and_regions_in_order(
    pair: Pair, region: type, content: bytes, rng: random.Random, number: int
) -> None:
    sent: list[bytes | Region] = []
    for _ in range(5):
        pieces: list[bytes | Region] = []
        for _ in range(rng.randrange(1, 5)):
            size_bytes = rng.choice(SIZES)
            if rng.random() < 0.5:
                pieces.append(region(rng.randrange(FILE_BYTES - size_bytes), size_bytes))
            else:
                pieces.append(rng.randbytes(min(size_bytes, 300 * KB)))
        pair.outbox.put(frame(*pieces)[0])
        sent += pieces
        if rng.random() < 0.5:
            pair.flush()
        if rng.random() < 0.3:
            last = rng.randbytes(rng.choice((1, 50 * KB)))
            pair.outbox.send(last)
            sent.append(last)
        pair.receive(rng.choice((1, KB, MB)))
    pair.finish(rng.choice((10 * KB, 100 * KB, MB)))
    assert pair.outbox.size_bytes == 0
    assert bytes(pair.received) == whole(sent, content)


@pytest.mark.parametrize("left", [1, 2, 1000])
def test_outbox_continues_a_region_after_a_short_sendfile(
    pair: Pair, region: type, content: bytes, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    size_bytes = 40 * KB
    sendfile = os.sendfile

    def fewer(out: int, file: int, position: int, count: int) -> int:
        return sendfile(out, file, position, count - left if count == size_bytes else count)

    monkeypatch.setattr(os, "sendfile", fewer)
    pieces = [b"before", region(5, size_bytes), b"behind", region(9, 30 * KB)]
    pair.outbox.put(frame(*pieces)[0])
    pair.finish()
    assert bytes(pair.received) == whole(pieces, content)


def test_outbox_stops_at_a_cold_piece_of_a_region(
    pair: Pair, region: type, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte at a time: what was in memory a moment ago still is."""
    here: dict[Region, int] = {}

    def is_resident(self: Region, start: int, size_bytes: int) -> bool:
        return start + size_bytes <= here.get(self, 0)

    def read_in(self: Region, start: int, size_bytes: int) -> None:
        here[self] = start + size_bytes

    monkeypatch.setattr(Region, "is_resident", is_resident)
    monkeypatch.setattr(Region, "read_in", read_in)
    pieces = [b"before", region(3, 2 * MB + 5), region(0, 10)]
    pair.outbox.put(frame(*pieces)[0])
    asked = []
    for _ in range(1000):
        if pair.outbox.flush():
            break
        pair.receive()
        if pair.outbox.cold is not None:
            asked.append((pair.outbox.cold.start, pair.outbox.cold.size_bytes))
            pair.outbox.cold.read_in()
            pair.outbox.cold = None
    pair.receive()
    assert asked[0] == (0, MB)
    assert asked[-1] == (0, 10), "a small piece as well"
    assert max(size_bytes for _, size_bytes in asked) == MB
    assert bytes(pair.received) == whole(pieces, content)


def test_outbox_stops_within_a_region_only_if_others_wait(
    pair: Pair, region: type, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops between two pieces of a region, never behind the last one."""
    monkeypatch.setattr("kwire.server.network.outbox._SENT_AT_ONCE", 32 * KB)
    pieces = [b"before", region(3, 64 * KB + 1), region(7, 64 * KB)]
    stops = []
    for others in (False, True):
        pair.others = others
        pair.outbox.put(frame(*pieces)[0])
        stops.append(0)
        for _ in range(1000):
            if pair.flush():
                break
            stops[-1] += pair.outbox.paused
            pair.receive()
        pair.receive()
        assert not pair.outbox.paused
    assert stops == [0, 3]
    assert bytes(pair.received) == 2 * whole(pieces, content)


def test_outbox_of_a_connection_that_is_alone_sends_large_pieces(
    pair: Pair, region: type, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.server.network.outbox._SENT_AT_ONCE", 32 * KB)
    pair.is_one_alone = pair.others = True
    pieces = [b"before", region(3, 64 * KB + 1)]
    pair.outbox.put(frame(*pieces)[0])
    for _ in range(1000):
        if pair.flush():
            break
        assert not pair.outbox.paused
        pair.receive()
    pair.receive()
    assert bytes(pair.received) == whole(pieces, content)


def test_outbox_raises_for_a_file_shorter_than_its_region(pair: Pair, region: type) -> None:
    pair.outbox.put(frame(region(FILE_BYTES - 20 * KB, 20 * KB + 1))[0])
    with pytest.raises(InvalidFrame, match="1 bytes shorter"):
        pair.finish()


def test_outbox_counts_bytes_until_it_is_empty(pair: Pair, region: type) -> None:
    pair.fill()
    assert not pair.outbox.send(bytes(100))
    assert pair.outbox.size_bytes == 100
    assert not pair.outbox.send(bytes(11))
    assert pair.outbox.size_bytes == 111
    pair.outbox.put(frame(bytes(5), region(0, MB), bytes(7), region(0, 10))[0])
    assert pair.outbox.size_bytes == 111 + 5 + 7 + 10, "a large piece stays in its file"
    pair.finish()
    assert pair.outbox.size_bytes == 0


def test_send_returns_true_when_the_kernel_takes_all(pair: Pair) -> None:
    assert pair.outbox.send(b"a reply")
    assert not pair.outbox
    pair.receive()
    assert pair.received == b"a reply"
