"""The values of options: settings, partitions, times, separators."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cli.text.output import number_text
from kwire.cli.values import (
    duration_s,
    instant,
    instant_ms,
    iso_time,
    metrics_address,
    partitions,
    position,
    separator,
    setting,
    size_bytes,
    topic_partitions,
)
from kwire.client.ranges import ranges


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1048576.0, "1048576"),
        (0.25, "0.25"),
        (315_360_000.0, "315360000"),
        (1e19, "10000000000000000000"),
        (0.00001, "0.00001"),
        (-2.5, "-2.5"),
        (0, "0"),
    ],
)
def test_number_text_shows_all_digits(number: float, text: str) -> None:
    assert number_text(number) == text


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("9404", {"metrics.port": "9404"}),
        ("0.0.0.0:9404", {"metrics.port": "9404", "metrics.host": "0.0.0.0"}),
        ("[::1]:0", {"metrics.port": "0", "metrics.host": "::1"}),
    ],
)
def test_metrics_address_becomes_settings(text: str, settings: dict[str, str]) -> None:
    assert metrics_address(text) == settings


@pytest.mark.parametrize("text", ["", "x", ":9404", "host:", "65536", "-1", "host:x"])
def test_invalid_metrics_address_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="PORT"):
        metrics_address(text)


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("a=b", ("a", "b")),
        ("a=", ("a", "")),
        (" a = b=c ", ("a", "b=c")),
        ("listeners=PLAINTEXT://:9092", ("listeners", "PLAINTEXT://:9092")),
    ],
)
def test_setting_splits_at_the_first_equals_sign(text: str, pair: tuple[str, str]) -> None:
    assert setting(text) == pair


@pytest.mark.parametrize("text", ["", "a", "=b", " =b"])
def test_setting_refuses_text_without_a_name(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not name=value"):
        setting(text)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0", [0]), ("2,0,2", [0, 2]), ("4-7", [4, 5, 6, 7]), ("9, 1-2", [1, 2, 9])],
)
def test_partitions_parses_lists_and_ranges(text: str, numbers: list[int]) -> None:
    assert partitions(text) == numbers


@pytest.mark.parametrize("text", ["", "a", "1,", "-1", "3-1", "1-2-3", "1.5"])
def test_partitions_refuses_invalid_lists(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not like"):
        partitions(text)


@given(st.sets(st.integers(0, 60)))
def test_partitions_of_printed_ranges_are_the_same(numbers: set[int]) -> None:
    text = ranges(numbers)
    assert (partitions(text) if text else []) == sorted(numbers)


def test_ranges_joins_consecutive_numbers() -> None:
    assert ranges([5, 0, 2, 1]) == "0-2,5"


def test_topic_partitions_splits_topic_and_list() -> None:
    assert topic_partitions("orders") == ("orders", None)
    assert topic_partitions("orders:0,2") == ("orders", [0, 2])
    with pytest.raises(click.BadParameter):
        topic_partitions(":1")


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01", 1_000),
        ("2026-03-01T12:00:00.123", 1_772_366_400_123),
        ("2026-03-01 12:00", 1_772_366_400_000),
        ("2026-03-01T12:00Z", 1_772_366_400_000),
        ("2026-03-01T14:00+02:00", 1_772_366_400_000),
        ("1772366400000", 1_772_366_400_000),
        ("-90s", 910_000),
        ("-15m", 100_000),
        ("-0.5m", 970_000),
    ],
)
def test_instant_ms_parses_iso_times_milliseconds_and_times_ago(
    text: str, timestamp_ms: int
) -> None:
    assert instant_ms(text, now_ms=1_000_000) == timestamp_ms


@pytest.mark.parametrize(
    ("text", "meant"),
    [("12", 12), ("-3", -3), ("earliest", "earliest"), ("Latest", "latest"),
     ("beginning", "earliest"), ("end", "latest")],
)  # fmt: skip
def test_position_parses_names_and_offsets(text: str, meant: int | str) -> None:
    assert position(text) == meant


@pytest.mark.parametrize("text", ["", "first", "1.5", "--1", "9" * 20])
def test_position_refuses_other_text(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not earliest, latest or an offset"):
        position(text)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "-2y", "12:00", "- 2h"])
def test_instant_refuses_other_text(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a time"):
        instant(text)


def test_iso_time_formats_timestamps() -> None:
    assert iso_time(1_772_366_400_123) == "2026-03-01T12:00:00.123Z"
    assert iso_time(-1) == "-"
    assert iso_time(2**62) == f"{2**62}ms"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (":", ":"),
        (r"\t", "\t"),
        (r"a\nb", "a\nb"),
        (r"\x1f", "\x1f"),
        (r"\\t", r"\t"),
        (r"\q", r"\q"),
    ],
)
def test_separator_decodes_escapes(text: str, meant: str) -> None:
    assert separator(text) == meant


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10), ("500ms", 0.5), ("1.5m", 90), ("2h", 7200), ("1d", 86_400), ("3", 3), (" 0 ", 0)],
)
def test_duration_s_parses_units(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1 minute", "1s2"])
def test_duration_s_refuses_other_text(text: str) -> None:
    with pytest.raises(click.BadParameter):
        duration_s(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("64k", 65_536), ("128MB", 128 << 20), ("1.5 GiB", 3 << 29), ("2tb", 2 << 40)],
)
def test_size_bytes_parses_units(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "MB", "0", "-1k", "1x", "0.0001k"])
def test_size_bytes_refuses_other_text(text: str) -> None:
    with pytest.raises(click.BadParameter):
        size_bytes(text)
