"""Record batches with contradictions: in a record, the header, the compressed data, or a size.

Each one is a function of the run's time in milliseconds. Unless the name says otherwise, the length
and the CRC of the batch are right, so that only one thing is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from struct import pack
from typing import Any

from kwire.codecs.batches import Compression
from kwire.codecs.compression import compress
from kwire.conformance.hostile.raw_batch import (
    SOUND,
    batch,
    compressed,
    message,
    message_set,
    record,
)

Lie = Callable[[int], bytes | bytearray | None]
"""A function of the time in ms that returns the records field of a Produce request."""

INT32_MAX, INT64_MAX = (1 << 31) - 1, (1 << 63) - 1
OVERLONG = b"\x80" * 10 + b"\x00"
BIG_VALUE = bytes(3_000_000)

RECORDS: Mapping[str, bytes] = {
    "sound": SOUND,
    "size one too small": record(0) + record(1, more=-1),
    "size one too large": record(0) + record(1, more=1),
    "first size too large": record(0, more=1) + record(1),
    "first size takes in the second": record(0, size=len(SOUND) - 1) + record(1),
    "size 0": record(0) + record(1, size=0),
    "size negative": record(0) + record(1, size=-1),
    "size huge": record(0) + record(1, size=INT32_MAX),
    "size of five bytes more than it needs": record(0) + b"\x8e\x80\x80\x80\x00" + record(1)[1:],
    "size overlong": record(0) + OVERLONG + record(1)[1:],
    "attributes": record(0, attributes=0x7F) + record(1, attributes=0x80),
    "timestamps fall": record(0) + record(1, timestamp_delta=-1000),
    "timestamps above the highest": record(0) + record(1, timestamp_delta=60_000),
    "timestamps a day ahead": record(0) + record(1, timestamp_delta=86_400_000),
    "a timestamp that overflows": record(0) + record(1, timestamp_delta=INT64_MAX),
    "a timestamp below zero": record(0) + record(1, timestamp_delta=-(1 << 62)),
    "a timestamp overlong": record(0) + record(1, timestamp_delta=OVERLONG),
    "offset twice": record(0) + record(0),
    "offset leaps": record(0) + record(7),
    "offsets swapped": record(1) + record(0),
    "offsets begin at one": record(1) + record(2),
    "offset negative": record(-5) + record(1),
    "offset huge": record(0) + record(INT32_MAX),
    "key null": record(0) + record(1, key=None),
    "key size -2": record(0) + record(1, key=b"", key_size=-2),
    "key longer than the record": record(0) + record(1, key_size=60),
    "key longer than the batch": record(0) + record(1, key_size=INT32_MAX),
    "value null": record(0) + record(1, value=None),
    "value size -2": record(0) + record(1, value=b"", value_size=-2),
    "value one too long": record(0) + record(1, value_size=2),
    "value one too short": record(0) + record(1, value=b"vv", value_size=1),
    "value longer than the batch": record(0) + record(1, value_size=INT32_MAX),
    "first value takes in the second record": record(0, value_size=8) + record(1),
    "headers negative": record(0) + record(1, headers_count=-1),
    "headers announced": record(0) + record(1, headers_count=1),
    "headers huge": record(0) + record(1, headers_count=INT32_MAX),
    "headers not announced": record(0) + record(1, headers=((b"h", b"x"),), headers_count=0),
    "header without a name": record(0) + record(1, headers_count=1, tail=b"\x01\x01"),
    "header value size -2": record(0) + record(1, headers_count=1, tail=b"\x02h\x03"),
    "header name is no UTF-8": record(0) + record(1, headers=((b"\xff\xfe", b""),)),
    "bytes behind the last field": record(0) + record(1, tail=b"\0\0"),
    "bytes behind the last record": SOUND + b"\0\0\0",
    "a third record": SOUND + record(2),
    "the second record is missing": record(0),
    "the last byte is missing": SOUND[:-1],
    "only a size": record(0) + b"\x0e",
    "no records at all": b"",
    "nothing but zeros": bytes(len(SOUND)),
    "nothing but ones": b"\xff" * len(SOUND),
}
"""Payloads of a batch whose header says that it has two records."""


def _lie_about_payload(payload: bytes) -> Lie:
    return lambda now_ms: batch(payload, now_ms)


def _claim(**claims: Any) -> Lie:  # noqa: ANN401 - fields of the header
    """Return a batch of valid records whose header has other values."""
    return lambda now_ms: batch(SOUND, now_ms, **claims)


HEADERS: Mapping[str, Lie] = {
    "base offset 5": _claim(base_offset=5),
    "base offset negative": _claim(base_offset=-1),
    "base offset huge": _claim(base_offset=INT64_MAX),
    "length one too small": _claim(length=48 + len(SOUND)),
    "length one too large": _claim(length=50 + len(SOUND)),
    "length of the header alone": _claim(length=49),
    "length less than a header": _claim(length=30),
    "length 0": _claim(length=0),
    "length negative": _claim(length=-1),
    "length huge": _claim(length=INT32_MAX),
    "leader epoch": _claim(partition_leader_epoch=9),
    "magic 0": _claim(magic=0),
    "magic 1": _claim(magic=1),
    "magic 3": _claim(magic=3),
    "magic negative": _claim(magic=-1),
    "codec 5": _claim(attributes=5),
    "codec 7": _claim(attributes=7),
    "log append time": _claim(attributes=8),
    "transactional": _claim(attributes=0x10),
    "control": _claim(attributes=0x20),
    "transactional control": _claim(attributes=0x30, producer_id=1, producer_epoch=0),
    "delete horizon": _claim(attributes=0x40),
    "unknown attributes": _claim(attributes=0x7F80),
    "last offset delta 0": _claim(last_offset_delta=0),
    "last offset delta 2": _claim(last_offset_delta=2),
    "last offset delta negative": _claim(last_offset_delta=-1),
    "last offset delta huge": _claim(last_offset_delta=INT32_MAX),
    "no base timestamp": _claim(base_timestamp=-1),
    "base timestamp negative": _claim(base_timestamp=-1000),
    "base timestamp huge": _claim(base_timestamp=INT64_MAX),
    "no highest timestamp": _claim(max_timestamp=-1),
    "highest timestamp 0": _claim(max_timestamp=0),
    "highest timestamp huge": _claim(max_timestamp=INT64_MAX),
    "no timestamps": _claim(base_timestamp=-1, max_timestamp=-1),
    "timestamps of long ago": _claim(base_timestamp=1, max_timestamp=1),
    "producer without an epoch": _claim(producer_id=7, base_sequence=0),
    "producer without a sequence": _claim(producer_id=7, producer_epoch=0),
    "producer negative": _claim(producer_id=-9, producer_epoch=0, base_sequence=0),
    "epoch without a producer": _claim(producer_epoch=3),
    "sequence without a producer": _claim(base_sequence=3),
    "sequence negative": _claim(producer_id=7, producer_epoch=0, base_sequence=-2),
    "sequence at its end": _claim(producer_id=7, producer_epoch=0, base_sequence=INT32_MAX),
    "epoch negative": _claim(producer_id=7, producer_epoch=-2, base_sequence=0),
    "count 0": _claim(records_count=0),
    "count 1": _claim(records_count=1),
    "count 3": _claim(records_count=3),
    "count 3 and last offset delta 2": _claim(records_count=3, last_offset_delta=2),
    "count 1 and last offset delta 0": _claim(records_count=1, last_offset_delta=0),
    "count negative": _claim(records_count=-1),
    "count and last offset delta huge": _claim(
        records_count=INT32_MAX, last_offset_delta=INT32_MAX - 1
    ),
}


def _wrong_crc(now_ms: int) -> bytearray:
    wrong = batch(SOUND, now_ms)
    wrong[-1] ^= 1
    return wrong


def _flip_byte(payload: bytes, position: int) -> bytes:
    return payload[:position] + bytes([payload[position] ^ 0x40]) + payload[position + 1 :]


MANY = 40
"""A number of records whose sizes no broker adds up in passing."""


def _many(*, missing: int = 0, more: int = 0) -> bytes:
    """That many records, or fewer; the size of the last one is wrong by `more`."""
    records = [record(i) for i in range(MANY - missing - 1)]
    return b"".join([*records, record(MANY - missing - 1, more=more)])


LARGE: Mapping[str, Lie] = {
    "sound": lambda now_ms: batch(_many(), now_ms, MANY),
    "one is missing": lambda now_ms: batch(_many(missing=1), now_ms, MANY),
    "one more": lambda now_ms: batch(_many(), now_ms, MANY - 1),
    "a size that lies": lambda now_ms: batch(_many(more=1), now_ms, MANY),
    "ten times as many": lambda now_ms: batch(_many(), now_ms, 10 * MANY),
}


def _codec_lies() -> Iterator[tuple[str, Lie]]:
    """Yield contradictions in a compressed batch, for each codec."""
    for codec in list(Compression)[1:]:
        packed = compress(codec, SOUND)
        payloads = {
            "sound": packed,
            "plain all the same": SOUND,
            "cut short by one": packed[:-1],
            "cut in half": packed[: len(packed) // 2],
            "bytes behind it": packed + b"\0\0\0\0\0",
            "twice": packed + packed,
            "empty": b"",
            "of nothing": compress(codec, b""),
            "a bit in its header": _flip_byte(packed, 1),
            "a bit in the middle": _flip_byte(packed, len(packed) // 2),
            "a bit at its end": _flip_byte(packed, len(packed) - 2),
            "a third record": compress(codec, SOUND + record(2)),
            "a record less": compress(codec, record(0)),
            "bytes behind the records": compress(codec, SOUND + b"\0\0\0"),
            "a record cut short": compress(codec, SOUND[:-1]),
            "offsets that leap": compress(codec, record(0) + record(7)),
            "a size that lies": compress(codec, record(0) + record(1, more=1)),
            "a value that lies": compress(codec, record(0) + record(1, value_size=2)),
            "timestamps above the highest": compress(
                codec, record(0) + record(1, timestamp_delta=60_000)
            ),
        }
        for name, payload in payloads.items():
            yield (
                f"{codec.name.lower()}: {name}",
                partial(_compressed_batch, payload=payload, codec=codec),
            )
        other = Compression.ZSTD if codec is Compression.GZIP else Compression.GZIP
        yield (
            f"{codec.name.lower()}: another codec",
            partial(_compressed_batch, payload=compress(other, SOUND), codec=codec),
        )
        yield f"{codec.name.lower()}: 3 MB of zeros", partial(_bomb, codec=codec)


def _compressed_batch(now_ms: int, payload: bytes, codec: Compression) -> bytearray:
    return batch(payload, now_ms, codec=codec)


def _bomb(now_ms: int, codec: Compression) -> bytearray:
    return compressed(record(0, value=BIG_VALUE) + record(1), now_ms, codec)


SNAPPY_FRAME = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
SIZES: Mapping[str, Lie] = {
    "snappy: a raw block": lambda now_ms: batch(
        compress(Compression.SNAPPY, SOUND)[len(SNAPPY_FRAME) + 4 :],
        now_ms,
        codec=Compression.SNAPPY,
    ),
    "snappy: an inflated size that lies": lambda now_ms: batch(
        SNAPPY_FRAME + pack(">i", 6) + b"\xff\xff\xff\xff\x07\x00",
        now_ms,
        codec=Compression.SNAPPY,
    ),
    "snappy: a block size that lies": lambda now_ms: batch(
        SNAPPY_FRAME + pack(">i", INT32_MAX) + SOUND, now_ms, codec=Compression.SNAPPY
    ),
    "snappy: a negative block size": lambda now_ms: batch(
        SNAPPY_FRAME + pack(">i", -1) + SOUND, now_ms, codec=Compression.SNAPPY
    ),
    "zstd: a content size that lies": lambda now_ms: batch(
        bytes.fromhex("28b52ffd20ff") + compress(Compression.ZSTD, SOUND)[6:],
        now_ms,
        codec=Compression.ZSTD,
    ),
    "gzip: a trailer that lies": lambda now_ms: batch(
        compress(Compression.GZIP, SOUND)[:-4] + b"\0\0\0\1", now_ms, codec=Compression.GZIP
    ),
    "codec none, but gzip": lambda now_ms: batch(compress(Compression.GZIP, SOUND), now_ms),
}

SETS: Mapping[str, Lie] = {
    "null": lambda now_ms: None,
    "empty": lambda now_ms: b"",
    "one byte": lambda now_ms: b"\0",
    "a batch cut in its header": lambda now_ms: batch(SOUND, now_ms)[:40],
    "a batch cut before its magic": lambda now_ms: batch(SOUND, now_ms)[:16],
    "a batch cut behind its magic": lambda now_ms: batch(SOUND, now_ms)[:17],
    "a batch cut in its records": lambda now_ms: batch(SOUND, now_ms)[:-1],
    "one byte behind the batch": lambda now_ms: batch(SOUND, now_ms) + b"\0",
    "seventeen bytes behind the batch": lambda now_ms: batch(SOUND, now_ms) + bytes(17),
    "a cut batch behind the batch": lambda now_ms: batch(SOUND, now_ms) + batch(SOUND, now_ms)[:-3],
    "two batches": lambda now_ms: batch(SOUND, now_ms) * 2,
    "three batches": lambda now_ms: batch(SOUND, now_ms) * 3,
    "an older message behind the batch": lambda now_ms: (
        batch(SOUND, now_ms) + message(1, first_ms=now_ms)
    ),
    "a batch behind an older message": lambda now_ms: (
        message(1, first_ms=now_ms) + batch(SOUND, now_ms)
    ),
    "wrong CRC": _wrong_crc,
}


OLD_MESSAGES: Mapping[str, Mapping[str, int | bytes | None]] = {
    "one": {},
    "wrong CRC": {"crc": 1},
    "length too small": {"length": 13},
    "length lies": {"length": 500},
    "value lies": {"value_size": 500},
    "null value": {"value": None},
    "codec 7": {"attributes": 7},
}


def _old_messages() -> Iterator[tuple[str, Lie]]:
    """Yield message sets in the formats that Kafka 4 no longer accepts."""
    for magic in (0, 1):
        for name, claims in OLD_MESSAGES.items():
            yield f"format {magic}: {name}", partial(_message, magic=magic, claims=claims)
        yield f"format {magic}: two", partial(_two_messages, magic=magic)
        for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4):
            name = f"format {magic}: wrapped by {codec.name.lower()}"
            yield name, partial(_wrap_message, magic=magic, codec=codec)


def _message(now_ms: int, magic: int, claims: Mapping[str, Any]) -> bytes:
    return message(magic, first_ms=now_ms, **claims)


def _two_messages(now_ms: int, magic: int) -> bytes:
    return message(magic, first_ms=now_ms) + message(magic, first_ms=now_ms, offset=1)


def _wrap_message(now_ms: int, magic: int, codec: Compression) -> bytes:
    return message_set(magic, now_ms, codec)


LIES: Mapping[str, Lie] = {
    **{f"record: {name}": _lie_about_payload(payload) for name, payload in RECORDS.items()},
    **{f"header: {name}": lie for name, lie in HEADERS.items()},
    **{f"many records: {name}": lie for name, lie in LARGE.items()},
    **dict(_codec_lies()),
    **SIZES,
    **{f"set: {name}": lie for name, lie in SETS.items()},
    **dict(_old_messages()),
}
