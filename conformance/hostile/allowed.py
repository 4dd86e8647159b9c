"""Known differences of hostile cases between two correct brokers, with the reason for each.

Differences that are allowed in every response (ids, addresses, clocks) are in
kwire.testing.comparing.rules. Any other difference is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from fnmatch import fnmatchcase
from typing import NamedTuple

from kwire.codecs.errors import ErrorCode


class HostileExcuse(NamedTuple):
    """An allowed difference; `case` and `where` are patterns, for names and for paths without
    indexes.

    The path is empty if one broker answered and the other did not; the pattern `?*` does not match
    it. With a `code`, it applies only to responses in which the oracle has that error.
    """

    case: str
    where: str
    reason: str
    code: ErrorCode | None = None


_UNREAD = (
    "kwire believes a header whose checksum holds and whose claims fit together, and reads the"
    " records only where the answer depends on them or they cannot be as many as it says: a"
    " producer that lies about its own records hurts its own readers, and a batch costs the same"
    " whatever it holds"
)
_UNREAD_RECORDS = (
    "timestamps above the highest",
    "timestamps a day ahead",
    "a timestamp that overflows",
    "a timestamp below zero",
    "a timestamp overlong",
    "key longer than the record",
    "key longer than the batch",
    "value one too long",
    "value one too short",
    "value longer than the batch",
    "headers negative",
    "headers announced",
    "headers huge",
    "headers not announced",
    "header without a name",
    "bytes behind the last field",
    "first value takes in the second record",
)
_UNREAD_LARGE = ("one is missing", "one more", "a size that lies")
_UNREAD_PAYLOADS = (
    "plain all the same",
    "cut short by one",
    "cut in half",
    "twice",
    "of nothing",
    "a bit in its header",
    "a bit in the middle",
    "a bit at its end",
    "a third record",
    "a record less",
    "bytes behind the records",
    "a record cut short",
    "offsets that leap",
    "a value that lies",
    "timestamps above the highest",
    "another codec",
)
_UNREAD_BY_CODEC = {
    "gzip": {*_UNREAD_PAYLOADS, "empty", "a trailer that lies"},
    "snappy": {
        *_UNREAD_PAYLOADS,
        "empty",
        "bytes behind it",
        "an inflated size that lies",
        "a block size that lies",
        "a negative block size",
    }
    - {"a bit at its end"},
    "lz4": {*_UNREAD_PAYLOADS, "empty"} - {"twice", "a bit in the middle"},
    "zstd": {*_UNREAD_PAYLOADS, "bytes behind it", "a content size that lies"},
}


def _unread() -> Iterator[HostileExcuse]:
    """Contradictions that kwire does not detect; it does on compacted topics and when it
    recompresses."""
    for name in _UNREAD_RECORDS:
        yield HostileExcuse(f"batch/record: {name}", "?*", _UNREAD)
    for name in _UNREAD_LARGE:
        yield HostileExcuse(f"batch/many records: {name}", "?*", _UNREAD)
    for codec, names in _UNREAD_BY_CODEC.items():
        for name in sorted(names):
            yield HostileExcuse(f"batch/{codec}: {name}", "?*", _UNREAD)


_FAILS_INSIDE = "Apache Kafka fails inside (UNKNOWN_SERVER_ERROR); kwire says what is wrong"
EXCUSED: tuple[HostileExcuse, ...] = (
    *_unread(),
    HostileExcuse("*", "*.error_*", _FAILS_INSIDE, ErrorCode.UNKNOWN_SERVER_ERROR),
    *(
        HostileExcuse(
            f"batch/{case}", "", "Apache Kafka fails inside and never answers null records"
        )
        for case in ("set: null", "v3, set: null")
    ),
    *(
        HostileExcuse(
            f"batch/{codec}: a size that lies",
            "?*",
            "Apache Kafka does not compare the sizes of compressed records with what they hold when"
            " it only checks them, though its consumers do; kwire refuses what it finds unreadable",
        )
        for codec in _UNREAD_BY_CODEC
    ),
    *(
        HostileExcuse(
            f"batch/header: {case}",
            "?*",
            "Apache Kafka cannot build a batch of the same header when it recompresses one, and"
            " fails inside; kwire can",
        )
        for case in ("base timestamp negative", "producer without an epoch")
    ),
    HostileExcuse(
        "batch/record: header name is no UTF-8",
        "*.records.*",
        "when Apache Kafka recompresses a batch, what is no UTF-8 in a header's name becomes"
        " U+FFFD; kwire keeps the bytes",
    ),
)

_INDEX = re.compile(r"\[\d+\]")


def excuse_of(case: str, path: str, codes: Set[int]) -> HostileExcuse | None:
    """Return the entry that allows a difference at `path`; `codes` are the error codes of the
    oracle."""
    path_without_indexes = _INDEX.sub("", path)
    for excuse in EXCUSED:
        if (
            fnmatchcase(case, excuse.case)
            and fnmatchcase(path_without_indexes, excuse.where)
            and (excuse.code is None or excuse.code in codes)
        ):
            return excuse
    return None
