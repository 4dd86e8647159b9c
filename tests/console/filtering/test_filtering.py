"""The language of filter expressions."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kwire.client.fetcher import ConsumedRecord
from kwire.console.decoding.decoder import Decoder
from kwire.console.filtering.parsing import parsed, time_of
from kwire.console.filtering.tokens import BadExpression, quoted, tokens
from kwire.console.messages.record import MessageRecord


def record(
    key: bytes | None = b"user-7",
    value: object = None,
    headers: Sequence[tuple[str, bytes | None]] = (),
    **fields: Any,  # noqa: ANN401 - fields of the record
) -> MessageRecord:
    data = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    given = {"partition": 3, "offset": 41, "timestamp_ms": 1_700_000_000_000, **fields}
    own = ConsumedRecord(
        "orders", given["partition"], given["offset"], given["timestamp_ms"], "CreateTime", key,
        data, list(headers),
    )  # fmt: skip
    return MessageRecord(own, Decoder(), "auto", "auto")


ROOT = Path(__file__).resolve().parents[3]

ORDER = record(
    value={
        "id": 7, "name": "Ada", "total": 12.5, "paid": True, "note": None,
        "lines": [{"sku": "a-1", "count": 2}, {"sku": "b-2", "count": 1}], "and": 1, "zip": "0123",
    },
    headers=[("trace", b"first"), ("trace", b"abc-7"), ("empty", None)],
)  # fmt: skip


@pytest.mark.parametrize(
    "expression",
    [
        'key = "user-7"',
        "key starts 'user-' and key ends \"-7\"",
        'key contains "ser" or value.id = 0',
        'KEY = "x" or key != "x"'.replace("KEY", "key"),
        "value.total > 12 and value.total <= 12.5",
        "value.total >= 1.25e1",
        'value.id = "7"',
        "value.paid",
        "value.paid = true",
        'value.paid = "true"',
        "not value.missing",
        "value.note is null and value.missing is null and value.id is not null",
        "value.missing is absent and value.note is not absent",
        'value.lines[0].sku = "a-1"',
        "value.lines[-1].count == 1",
        "value.lines[9].count is absent",
        'value["and"] = 1',
        "value.and = 1",
        'value.name in ("Bob", "Ada")',
        "value.id not in (1, 2)",
        'value.name matches "^A.a$"',
        'value.name ~ "d"',
        'value contains "\\"sku\\""',
        'header.trace = "abc-7"',
        'headers["trace"] contains "abc"',
        "header.empty is null and header.empty is not absent and header.none is absent",
        "partition = 3 && offset >= 41",
        'timestamp > "2023-11-14" and timestamp < "2023-11-14T23:00"',
        "timestamp = 1700000000000",
        'timestamp >= "2023-11-14T23:13:20+01:00"',
        "size > 10",
        "(((value.id = 7)))",
        "! value.id = 8",
        "value.missing != 1",
        "value.lines contains 'b-2'",
        'value.name < "B"',
        'value.zip = 123',
    ],
)  # fmt: skip
def test_expression_is_true_of_a_record(expression: str) -> None:
    assert parsed(expression).test(ORDER) is True
    assert parsed(f"not ({expression})").test(ORDER) is False


@pytest.mark.parametrize(
    "expression",
    [
        "value.missing = 1",
        "value.missing < 1",
        'value.name < 1',
        "value.note = 0",
        "value.paid = 1",
        "value.name.first is not absent",
        'key = "USER-7"',
        'value.name matches "^d"',
        "header.none = 'x'",
    ],
)  # fmt: skip
def test_expression_is_false_of_a_record(expression: str) -> None:
    assert parsed(expression).test(ORDER) is False


def test_tombstone_and_null_key_are_found() -> None:
    tombstone = record(key=None, value=None)
    assert parsed("key is null and value is null").test(tombstone)
    assert not parsed("value.id is not absent").test(tombstone)
    assert not parsed('value contains ""').test(tombstone)
    assert parsed('value = ""').test(record(value=b""))


def test_not_a_number_is_no_number() -> None:
    assert parsed('value = "nan"').test(record(value=b"nan"))
    assert not parsed("value > 1").test(record(value=b"inf"))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "is expected, not the end"),
        ("value.id =", "is expected, not the end"),
        ("valu.id = 1", "one of key, value"),
        ("value.id = 1 value.id = 2", "and, or, or the end is expected"),
        ('value.name = "Ada', "the quote has no end (at character 14)"),
        ("value.id = 1 and", "at character 17"),
        ("value.id # 1", "'#' is not expected (at character 10)"),
        ("(value.id = 1", ") is expected"),
        ("value.id in (key)", "literals only"),
        ("partition.x = 1", "partition has no fields"),
        ("header = 1", "a header has a name"),
        ("1", "a literal alone is no condition"),
        ('value matches "("', "the regular expression"),
        ("value matches 1", "a regular expression in quotes"),
        ('timestamp > "yesterday"', "a time is like"),
        ("value.lines[x] = 1", "an index or a name in quotes"),
        ("value.lines[99999999999] = 1", "an index or a name in quotes"),
        ("value.name not null", "in is expected"),
        ("(" * 50 + "value" + ")" * 50, "nested too deeply"),
        ("not " * 50 + "value", "nested too deeply"),
        ("value.a = 1 or " * 100 + "key", "at most 400 words"),
        ("x" * 3000, "at most 2000 characters"),
        ("__import__('os')", "one of key, value"),
    ],
)
def test_mistake_is_told_with_its_place(expression: str, message: str) -> None:
    with pytest.raises(BadExpression) as problem:
        parsed(expression)
    assert message in str(problem.value)
    assert 0 <= problem.value.position <= len(expression)


@pytest.mark.parametrize("text", ["", "plain", 'a "quote" and a \\', "line\nend\ttab\r", "ünï漢"])
def test_quoted_text_is_read_as_it_was(text: str) -> None:
    assert tokens(quoted(text))[0].text == text


@pytest.mark.parametrize(
    ("expression", "needles"),
    [
        ('value contains "abc" and key = "k"', ("abc", "k")),
        ('value contains "abc" or key = "k"', ()),
        ('not value contains "abc"', ()),
        ('(value starts "abc") and offset > 1', ("abc",)),
        ('value.name = "abc"', ("abc",)),
        ('value.name = "a b"', ()),
        ('value.name contains "1e"', ()),
        ('value.name = "naïve"', ()),
        ('header.name = "abc"', ()),
        ('"abc" = value', ()),
        ("value.id = 1500", ("1500",)),
        ("value.id = -15", ("15",)),
        ("value.id > 1500", ()),
        ("value.id contains 1500", ()),
        ("value.id = 1.5", ()),
        ("value.paid = true", ()),
        ("offset = 15", ()),
        ('value = "100"', ()),
        ('value != "abc"', ()),
        ('value contains ""', ()),
        ('key in ("a")', ()),
    ],
)
def test_needles_are_what_each_wanted_record_has(expression: str, needles: tuple[str, ...]) -> None:
    assert tuple(needle.text for needle in parsed(expression).needles) == needles


def test_random_words_are_an_expression_or_a_mistake(rng: random.Random) -> None:
    words = [
        "key", "value", ".a", "[0]", "header.x", "offset", "=", "!=", "<", "contains", "matches",
        "in", "(", ")", ",", "and", "or", "not", "is", "null", "absent", "1", "-2.5", '"t"', "'(a'",
        "timestamp", '"2026-01-01"', "true", "~", "!", '"', "\\", "\u202e", "9" * 30,
    ]  # fmt: skip
    valid = 0
    for _ in range(3000):
        text = " ".join(rng.choice(words) for _ in range(rng.randrange(1, 9)))
        try:
            expression = parsed(text)
        except BadExpression:
            continue
        valid += 1
        assert expression.test(ORDER) in (True, False), text
        expression.test(record(key=None, value=b"\x00\xff"))
    assert valid > 50


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01.5", 1500),
        ("1970-01-01T01:00+01:00", 0),
        ("soon", None),
        ("9999-12-31T23:59:59.999999", 253_402_300_800_000),
        ("0001-01-01T00:00+14:00", -62_135_647_200_000),
        ("", None),
    ],
)
def test_time_is_utc_unless_it_names_a_zone(text: str, time_ms: int | None) -> None:
    assert time_of(text) == time_ms


def test_expressions_of_the_pages_are_parsed() -> None:
    pages = ("docs/console-filters.md", "docs/console.md")
    blocks = [
        block
        for page in pages
        for block in re.findall(r"^```text\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    ]
    expressions = [line for block in blocks for line in block.splitlines()]
    assert len(expressions) == 5
    for expression in expressions:
        parsed(expression)
