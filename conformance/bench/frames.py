"""Prepared frames of the requests of the load generator, encoded once and sent many times.

Each one has one version, the newest with topic names (Produce 12, Fetch 12), so that every broker
gets the same bytes. A sent frame differs from the prepared one only in its correlation id (and the
offset of a fetch), which are written at a fixed position.
"""

from __future__ import annotations

import time
from struct import Struct
from typing import NamedTuple

from kwire.codecs.batches import Record, build

CORRELATION = Struct(">i")
CORRELATION_POS = 8  # after size (4), api key (2) and api version (2)
OFFSET = Struct(">q")

_PRODUCE, _FETCH, _API_VERSIONS, _CREATE_TOPICS, _DELETE_TOPICS = 0, 1, 18, 19, 20
PRODUCE_VERSION = 12
_CLIENT_ID = b"bench"
_REPLY_HEADER_BYTES = 4 + 4  # size, correlation id
_TIMEOUT_MS = 30_000

CreateConfigs = dict[str, str]


class RequestFailed(RuntimeError):
    """A response had an error code, or was not the expected one."""


class PreparedFrame(NamedTuple):
    """A prepared request; `offset_pos` is the position of a fetch's offset, 0 in other requests."""

    data: bytes
    offset_pos: int = 0


def _uvarint(value: int) -> bytes:
    """Return the value as unsigned varint: 7 bits in a byte, lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _compact(data: bytes) -> bytes:
    return _uvarint(len(data) + 1) + data


def _string(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2) + data


def _request(api_key: int, version: int, body: bytes, *, flexible: bool) -> bytes:
    header = Struct(">hhi").pack(api_key, version, 0) + len(_CLIENT_ID).to_bytes(2) + _CLIENT_ID
    payload = header + (b"\0" if flexible else b"") + body
    return len(payload).to_bytes(4) + payload


def api_versions() -> PreparedFrame:
    return PreparedFrame(_request(_API_VERSIONS, 0, b"", flexible=False))


def create_topic(topic: str, partitions: int, configs: CreateConfigs) -> PreparedFrame:
    """CreateTopics version 4 for one topic, with one replica for each partition."""
    settings = b"".join(_string(name) + _string(value) for name, value in configs.items())
    body = Struct(">i").pack(1) + _string(topic) + Struct(">ihi").pack(partitions, 1, 0)
    body += Struct(">i").pack(len(configs)) + settings + Struct(">i?").pack(_TIMEOUT_MS, False)
    return PreparedFrame(_request(_CREATE_TOPICS, 4, body, flexible=False))


def delete_topic(topic: str) -> PreparedFrame:
    """DeleteTopics version 3 for one topic."""
    body = Struct(">i").pack(1) + _string(topic) + Struct(">i").pack(_TIMEOUT_MS)
    return PreparedFrame(_request(_DELETE_TOPICS, 3, body, flexible=False))


def topic_error(reply: bytes, topic: str) -> int:
    """Return the error code of the only topic in a response to CreateTopics 4 or DeleteTopics 3."""
    at = _REPLY_HEADER_BYTES + 4 + 4 + len(_string(topic))  # throttle time, array length, name
    return int.from_bytes(reply[at : at + 2], signed=True)


def produce(
    topic: str, partition: int, batch: bytes, acks: int = 1, version: int = PRODUCE_VERSION
) -> PreparedFrame:
    """Produce of one batch to one partition, in a version from 9 to 12, which have the same
    form."""
    body = b"\0" + Struct(">hi").pack(acks, _TIMEOUT_MS)
    body += b"\2" + _compact(topic.encode()) + b"\2" + Struct(">i").pack(partition)
    body += _compact(batch) + b"\0\0\0"
    return PreparedFrame(_request(_PRODUCE, version, body, flexible=True))


class ProduceReply:
    """Checks the responses to one `produce` frame.

    The first response is read in full. Later ones must be equal to it except for the correlation id
    and the base offset, which must be the expected ones. A check takes one `unpack`.
    """

    def __init__(self, topic: str, first_reply: bytes) -> None:
        """Learn the layout of the responses from the first one.

        Later responses differ only in the correlation id and the base offset, so they are compared
        byte for byte. Raise RequestFailed if the first one has an error code or a wrong size.
        """
        name = _compact(topic.encode())
        error_pos = _REPLY_HEADER_BYTES + 1 + 1 + len(name) + 1 + 4
        error = int.from_bytes(first_reply[error_pos : error_pos + 2], signed=True)
        if error:
            raise RequestFailed(f"Produce was answered with error code {error}")
        base_pos = error_pos + 2
        tail_bytes = len(first_reply) - base_pos - 8
        self.size_bytes = len(first_reply)
        self.layout = Struct(f">ii{base_pos - _REPLY_HEADER_BYTES}sq{tail_bytes}s")
        size, _, self.head, self.base_offset, self.tail = self.layout.unpack(first_reply)
        if size != len(first_reply) - 4:
            raise RequestFailed("a response has a wrong size field")
        self._size = size

    def check(self, data: bytearray, pos: int, correlation_id: int, base_offset: int) -> None:
        """Raise RequestFailed unless the response at `pos` is the expected one."""
        size, correlation, head, base, tail = self.layout.unpack_from(data, pos)
        if (
            correlation != correlation_id
            or base != base_offset
            or head != self.head
            or tail != self.tail
            or size != self._size
        ):
            raise RequestFailed(
                f"expected a response with correlation id {correlation_id} and offset"
                f" {base_offset}, got {bytes(data[pos : pos + self.size_bytes]).hex()}"
            )


def fetch(topic: str, partition: int, *, max_wait_ms: int, max_bytes: int) -> PreparedFrame:
    """Fetch version 12 of one partition without a session; the caller writes the offset into it."""
    before = Struct(">iiiibii").pack(-1, max_wait_ms, 1, max_bytes, 0, 0, -1)
    before += b"\2" + _compact(topic.encode()) + b"\2" + Struct(">ii").pack(partition, -1)
    after = Struct(">qiqi").pack(0, -1, -1, max_bytes) + b"\0\0" + b"\1\1\0"
    frame = _request(_FETCH, 12, before + after, flexible=True)
    return PreparedFrame(frame, len(frame) - len(after))


class FetchReply:
    """The positions of the error codes and of the records' size in a response to `fetch`."""

    def __init__(self, topic: str) -> None:
        """Compute the positions of the fields in a response with one partition of this topic."""
        self.session_error_pos = _REPLY_HEADER_BYTES + 1 + 4
        name = _compact(topic.encode())
        self.error_pos = self.session_error_pos + 2 + 4 + 1 + len(name) + 1 + 4
        aborted_pos = self.error_pos + 2 + 8 + 8 + 8
        self.records_pos = aborted_pos + 1 + 4  # one byte for no aborted ones; preferred replica
        self.head_bytes = self.records_pos + 5  # the records' size takes at most 5 bytes

    def records_size(self, data: bytearray) -> int:
        """Return the size of the records in bytes. Raises RequestFailed for an error code."""
        at = self.session_error_pos
        if data[at : at + 2] != b"\0\0" or data[self.error_pos : self.error_pos + 2] != b"\0\0":
            raise RequestFailed(f"Fetch was answered with {bytes(data[:80]).hex()}")
        value = shift = 0
        for byte in data[self.records_pos : self.records_pos + 5]:
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        return max(value - 1, 0)


def batch(records_count: int, value_bytes: int) -> bytes:
    """Return an uncompressed batch without keys, with the current time and varying values."""
    now_ms = time.time_ns() // 1_000_000
    pattern = bytes(range(251)) * (value_bytes // 251 + 2)
    values = (pattern[i % 251 : i % 251 + value_bytes] for i in range(records_count))
    return bytes(build(Record(0, now_ms, None, value, []) for value in values))
