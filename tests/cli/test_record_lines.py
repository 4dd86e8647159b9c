"""Records as lines: what consume writes produce reads, byte for byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cli.records import BadLine, NewRecord, from_json, from_text, text_of, to_json
from kwire.client.fetcher import ConsumedRecord

maybe_bytes = st.none() | st.binary()
headers = st.lists(st.tuples(st.text(), maybe_bytes), max_size=4)


@given(maybe_bytes, maybe_bytes, headers, st.integers(0, 2**40))
def test_json_keeps_everything(
    key: bytes | None,
    value: bytes | None,
    header_list: list[tuple[str, bytes | None]],
    timestamp_ms: int,
) -> None:
    record = ConsumedRecord("t", 3, 7, timestamp_ms, "CreateTime", key, value, header_list)
    line = to_json(record)
    assert "\n" not in line
    assert from_json(line.encode()) == NewRecord(value, key, header_list, None, timestamp_ms)
    assert from_json(line.encode(), keep_partition=True).partition == 3


def test_json_is_readable() -> None:
    record = ConsumedRecord("t", 0, 1, 5, "CreateTime", b"k", "ä".encode(), [("h", b"\xff")])
    assert json.loads(to_json(record)) == {
        "topic": "t",
        "partition": 0,
        "offset": 1,
        "timestamp": 5,
        "key": "k",
        "value": "ä",
        "headers": [{"name": "h", "value_base64": "/w=="}],
    }


def test_json_by_hand() -> None:
    """Values that are no text are produced as JSON; headers may be an object."""
    line = b'{"key": 7, "value": {"a": [1, null]}, "headers": {"h": "x"}}'
    assert from_json(line) == NewRecord(b'{"a":[1,null]}', b"7", [("h", b"x")])
    assert from_json(b"{}") == NewRecord(None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"hello", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"value_base64": "?"}', "value_base64 is not base64"),
        (b'{"value_base64": 1}', "value_base64 is not base64"),
        (b'{"headers": [1]}', "headers are a list"),
        (b'{"headers": "x"}', "headers are a list"),
        (b'{"timestamp": "now"}', "timestamp is not a number"),
        (b'{"timestamp": true}', "timestamp is not a number"),
    ],
)
def test_lines_that_are_no_records(line: bytes, reason: str) -> None:
    with pytest.raises(BadLine, match=reason):
        from_json(line)


def test_text_lines() -> None:
    assert from_text(b"a:b:c", None) == NewRecord(b"a:b:c")
    assert from_text(b"a:b:c", b":") == NewRecord(b"b:c", b"a")
    assert from_text(b":b", b":") == NewRecord(b"b", b"")
    with pytest.raises(BadLine, match="no key separator"):
        from_text(b"abc", b":")


def test_text_for_people() -> None:
    assert (text_of(None), text_of(b"\xffa")) == ("null", r"\xffa")
