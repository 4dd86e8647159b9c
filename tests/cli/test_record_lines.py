"""Records as lines: what consume writes produce reads, byte for byte."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cli.text.output import UNPRINTABLE, printable
from kwire.cli.text.records import BadLine, NewRecord, from_json, from_text, text_of, to_json
from kwire.client.fetcher import ConsumedRecord

maybe_bytes = st.none() | st.binary()
headers = st.lists(st.tuples(st.text(), maybe_bytes), max_size=4)


@given(maybe_bytes, maybe_bytes, headers, st.integers(0, 2**40))
def test_record_as_json_and_back_is_the_same_record(
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


def test_json_of_a_record_always_has_the_same_fields() -> None:
    """Programs ask for the same fields of every record, whatever its bytes are."""
    text = ConsumedRecord("t", 0, 1, 5, "CreateTime", b"k", "ä".encode(), [("h", b"\xff")])
    assert json.loads(to_json(text)) == {
        "topic": "t",
        "partition": 0,
        "offset": 1,
        "timestamp": 5,
        "key": "k",
        "key_encoding": "utf-8",
        "value": "ä",
        "value_encoding": "utf-8",
        "headers": [{"name": "h", "value": "/w==", "value_encoding": "base64"}],
    }
    binary = ConsumedRecord("t", 0, 1, 5, "CreateTime", None, b"\xff", [])
    found = json.loads(to_json(binary))
    assert list(found) == list(json.loads(to_json(text)))
    assert (found["key"], found["key_encoding"]) == (None, None)
    assert (found["value"], found["value_encoding"]) == ("/w==", "base64")


def test_json_of_a_record_escapes_control_characters() -> None:
    nasty = "\x1b[31m \x7f \x9b \u2028 \u202e ä \U0001f600"
    line = to_json(ConsumedRecord("t", 0, 1, 5, "CreateTime", None, nasty.encode(), []))
    assert not UNPRINTABLE.search(line)
    assert "ä \U0001f600" in line
    assert json.loads(line)["value"] == nasty


def test_from_json_accepts_short_forms() -> None:
    """Values that are no text are produced as JSON; headers may be an object."""
    line = b'{"key": 7, "value": {"a": [1, null]}, "headers": {"h": "x"}}'
    assert from_json(line) == NewRecord(b'{"a":[1,null]}', b"7", [("h", b"x")])
    assert from_json(b'{"value": null}') == NewRecord(None)
    assert from_json(b'{"value": "", "headers": null}') == NewRecord(b"")
    assert from_json(b'{"value": "x", "timestamp": -1}') == NewRecord(b"x")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"hello", "not JSON"),
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"value": NaN}', "NaN is not a JSON number"),
        (b'{"value": 1e999}', "too large"),
        (rb'{"value": "\ud800"}', "half a surrogate pair"),
        (rb'{"value": "", "headers": {"\ud800": ""}}', "half a surrogate pair"),
        (b"[1]", "not a JSON object"),
        (b"{}", 'it has no "value"'),
        (b'{"key": "k"}', 'it has no "value"'),
        (b'{"a": 1}', 'unknown field "a": there are topic, '),
        (b'{"key": "k", "valeu": "typo"}', 'unknown field "valeu": did you mean value?'),
        (b'{"Value": "x"}', 'unknown field "Value": did you mean value?'),
        (b'{"value": "?", "value_encoding": "base64"}', "value is not base64"),
        (b'{"value": 1, "value_encoding": "base64"}', "value is not base64"),
        (b'{"value": "x", "value_encoding": "latin-1"}', "value_encoding is utf-8 or base64"),
        (b'{"value": "", "headers": [1]}', "headers are a list"),
        (b'{"value": "", "headers": "x"}', "headers are a list"),
        (b'{"value": "", "headers": [{"name": "h"}]}', "headers are a list"),
        (b'{"value": "", "headers": [{"name": "h", "value": "", "v": 1}]}', 'unknown field "v"'),
        (b'{"value": "", "timestamp": "now"}', "timestamp is not a number"),
        (b'{"value": "", "timestamp": true}', "timestamp is not a number"),
        (b'{"value": "", "timestamp": 92233720368547758070}', "timestamp is not a number"),
        (b'{"value": "", "partition": -1}', "partition is not a number"),
    ],
)
def test_from_json_refuses_lines_that_are_not_records(line: bytes, reason: str) -> None:
    with pytest.raises(BadLine, match=re.escape(reason)):
        from_json(line)


def test_text_parser_splits_key_and_value() -> None:
    assert from_text(b"a:b:c", None) == NewRecord(b"a:b:c")
    assert from_text(b"a:b:c", b":") == NewRecord(b"b:c", b"a")
    assert from_text(b":b", b":") == NewRecord(b"b", b"")
    with pytest.raises(BadLine, match="no key separator"):
        from_text(b"abc", b":")


def test_text_of_escapes_invalid_utf_8() -> None:
    assert (text_of(None), text_of(b"\xffa")) == ("null", r"\xffa")
    assert printable("a\x1b[31m\n\t\x9b\u202eä") == r"a\x1b[31m\n\t\x9b\u202eä"
