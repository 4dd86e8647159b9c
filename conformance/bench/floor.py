"""The floor: a bare trio server that only checks a batch's CRC, appends the batch, and replies.

Its rate is the most that CPython, trio and the kernel allow a broker on one core. It has no topics,
no configuration, no validation except the CRC and one log, and it understands only the frames of
the load generator. Run it with `python floor.py PORT FILE`; it uses no part of kwire.
"""

from __future__ import annotations

import os
import socket
import sys
from bisect import bisect_right
from struct import Struct

import crc32c
import trio

BUFFER_BYTES = 1 << 23  # for five 1 MB batches in flight
HEAD = Struct(">hhih")  # api key, version, correlation id, length of the client id
BATCH = Struct(">qiibIhiqqqhii")
BATCH_START = Struct(">qii")
PRODUCED = Struct(">hqqqbb")
FETCH_FIXED_BYTES = 4 + 4 + 4 + 4 + 1 + 4 + 4


def uvarint(data: memoryview, pos: int) -> tuple[int, int]:
    """Return the unsigned varint at `pos` and the position after it.

    A byte has 7 bits of the value, lowest first; its highest bit says that another one follows.
    """
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7


def encode_uvarint(value: int) -> bytes:
    """Return the value as unsigned varint: 7 bits in a byte, lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


class FloorLog:
    """The log of one partition: a file of batches, with their positions in memory."""

    def __init__(self, path: str) -> None:
        """Create an empty log file, or empty the existing one."""
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        self.fd = os.open(path, flags, 0o644)
        self.end_offset = 0
        self.size_bytes = 0
        self.offsets: list[int] = []
        self.positions: list[int] = []

    def append(self, batch: memoryview) -> int:
        """Append a batch and return its base offset; raise ValueError if it is corrupt.

        The size field does not count the first 12 bytes; the CRC covers the bytes from 21 on.
        """
        (_, length, _, magic, crc, _, last_delta, *_) = BATCH.unpack_from(batch)
        if magic != 2 or length + 12 != len(batch) or crc32c.crc32c(batch[21:]) != crc:
            raise ValueError("corrupt batch")
        base = self.end_offset
        BATCH_START.pack_into(batch, 0, base, length, 0)
        os.write(self.fd, batch)
        self.offsets.append(base)
        self.positions.append(self.size_bytes)
        self.end_offset = base + last_delta + 1
        self.size_bytes += len(batch)
        return base

    def region(self, offset: int, max_bytes: int) -> tuple[int, int]:
        """Position and size of the batches from the one with `offset`, up to `max_bytes`."""
        start = self.positions[bisect_right(self.offsets, offset) - 1]
        return start, min(max_bytes, self.size_bytes - start)


class Logs(dict[bytes, FloorLog]):
    """The log of each partition (by its four bytes), created at the first access."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __missing__(self, partition: bytes) -> FloorLog:
        log = self[partition] = FloorLog(f"{self.path}-{int.from_bytes(partition)}")
        return log


def produce(logs: Logs, frame: memoryview, correlation: int, pos: int) -> bytes:
    """Return the response to a Produce of version 12 with one batch."""
    pos += 1 + 1 + 2 + 4 + 1  # header tags, transactional id, acks, timeout, one topic
    name_size = frame[pos]
    name = bytes(frame[pos : pos + name_size])
    pos += name_size + 1
    partition = bytes(frame[pos : pos + 4])
    size, pos = uvarint(frame, pos + 4)
    base = logs[partition].append(frame[pos : pos + size - 1])
    body = correlation.to_bytes(4) + b"\0\2" + name + b"\2" + partition
    body += PRODUCED.pack(0, base, -1, 0, 1, 0) + b"\0\0" + bytes(4) + b"\0"
    return len(body).to_bytes(4) + body


def fetch(log: FloorLog, frame: memoryview, correlation: int, pos: int) -> tuple[bytes, int, int]:
    """Return the head of the response to a Fetch of version 12, and the file region that follows
    it."""
    pos += 1 + FETCH_FIXED_BYTES + 1
    name_size = frame[pos]
    name = bytes(frame[pos : pos + name_size])
    pos += name_size + 1 + 4 + 4
    offset = int.from_bytes(frame[pos : pos + 8])
    max_bytes = int.from_bytes(frame[pos + 20 : pos + 24])
    start, size = log.region(offset, max_bytes)
    body = correlation.to_bytes(4) + b"\0" + bytes(4 + 2 + 4) + b"\2" + name + b"\2" + bytes(4 + 2)
    body += log.end_offset.to_bytes(8) * 2 + bytes(8) + b"\0" + b"\xff" * 4
    body += encode_uvarint(size + 1)
    return (len(body) + size + 3).to_bytes(4) + body, start, size


async def send_region(sock: trio.socket.SocketType, log: FloorLog, start: int, size: int) -> None:
    """Send `size` bytes of the log from `start` on, without copying them through Python."""
    end = start + size
    while start < end:
        try:
            start += os.sendfile(sock.fileno(), log.fd, start, end - start)
        except BlockingIOError:
            await trio.lowlevel.wait_writable(sock)


async def answer(sock: trio.socket.SocketType, logs: Logs, view: memoryview, have: int) -> int:
    """Answer every complete frame in the buffer; return the number of bytes they took."""
    pos = 0
    out: list[bytes] = []
    while have - pos >= 4:
        end = pos + 4 + int.from_bytes(view[pos : pos + 4])
        if have < end:
            break
        frame = view[pos + 4 : end]
        key, _, correlation, client = HEAD.unpack_from(frame)
        if key == 0:
            out.append(produce(logs, frame, correlation, HEAD.size + client))
        elif key == 18:
            out.append(b"\0\0\0\x0a" + correlation.to_bytes(4) + bytes(2 + 4))
        else:
            log = logs[bytes(4)]
            head, start, size = fetch(log, frame, correlation, HEAD.size + client)
            await sock.send(head)
            await send_region(sock, log, start, size)
            await sock.send(b"\0\0\0")
        pos = end
    if out:
        await sock.send(b"".join(out))
    return pos


async def main(port: int, path: str) -> None:
    """Serve the log file `path` on a port of the loopback interface until cancelled."""
    logs = Logs(path)

    async def serve(stream: trio.SocketStream) -> None:
        """Answer the requests of one connection, and keep the bytes of an incomplete one."""
        sock = stream.socket
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer = bytearray(BUFFER_BYTES)
        view = memoryview(buffer)
        have = 0
        while received := await sock.recv_into(view[have:]):
            have += received
            done = await answer(sock, logs, view, have)
            if done:
                view[: have - done] = view[done:have]
                have -= done

    await trio.serve_tcp(serve, port, host="127.0.0.1")


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), sys.argv[2])
