"""The tables of `kwire top`: texts, order and filter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from kwire.cli.operating.live import rows, tables
from kwire.cli.operating.live.tables import (
    BROKERS,
    GROUPS,
    TABLES,
    TOPICS,
    byte_rate_text,
    chosen,
    left_text,
    ms_text,
    phases_text,
    rate_text,
    used_columns,
)
from kwire.cli.operating.live.view import view_of
from tests.cli.operating.live.samples import A0, A1, B0, group, sample

VIEW = view_of(
    sample(0, {A0: 0, A1: 0, B0: 0}, group("slow", {A0: 0}), group("done", {B0: 0})),
    sample(1, {A0: 5, A1: 5, B0: 50}, group("slow", {A0: 0}), group("done", {B0: 50})),
)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.key)
def test_columns_of_a_table_are_fields_of_its_rows(table: tables.TopTable) -> None:
    kinds = {
        "topics": rows.TopTopic, "groups": rows.TopGroup, "brokers": rows.TopBroker,
        "requests": rows.TopRequest, "slow": rows.TopSlowest, "clients": rows.TopClient,
    }  # fmt: skip
    names = {each.name for each in fields(kinds[table.rows])}
    shown = {each.field for each in table.columns}
    assert shown <= names
    assert {table.sorted_by, table.name} <= shown


def test_keys_of_tables_differ() -> None:
    assert len({each.key for each in TABLES}) == len(TABLES)


def names(
    table: tables.TopTable, field: str, *, is_reversed: bool = False, wanted: str = ""
) -> list[str]:
    found = chosen(VIEW, table, field, is_reversed=is_reversed, wanted=wanted)
    return [getattr(row, table.name) for row in found]


def test_numbers_are_sorted_from_the_largest_and_names_alphabetically() -> None:
    assert names(TOPICS, "records_in_per_s") == ["b", "a"]
    assert names(TOPICS, "records_in_per_s", is_reversed=True) == ["a", "b"]
    assert names(TOPICS, "topic") == ["a", "b"]
    assert names(TOPICS, "topic", is_reversed=True) == ["b", "a"]
    assert names(BROKERS, "broker") == ["h:9091", "h:9092"]


def test_unknown_values_are_last_in_both_orders() -> None:
    assert (
        names(GROUPS, "seconds_left", is_reversed=True)[-1:] == names(GROUPS, "seconds_left")[-1:]
    )
    assert names(GROUPS, "worst") == ["slow", "done"]
    assert names(GROUPS, "worst", is_reversed=True) == ["slow", "done"]


def test_filter_takes_names_that_contain_it_in_any_case() -> None:
    assert names(GROUPS, "lag", wanted="LO") == ["slow"]
    assert names(GROUPS, "lag", wanted="nobody") == []


def test_columns_in_which_nothing_is_known_are_left_out() -> None:
    titles = [each.title for each in used_columns(VIEW.topics, TOPICS)]
    assert titles == ["topic", "records/s", "lag", "groups", "partitions"]
    assert len(used_columns([], TOPICS)) == len(TOPICS.columns)


def test_field_after_the_last_one_is_the_first() -> None:
    order = [TOPICS.columns[0].field]
    for _ in TOPICS.columns:
        order.append(TOPICS.field_after(order[-1]))
    assert order[0] == order[-1]
    assert len(set(order)) == len(TOPICS.columns)


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        (rate_text, None, "-"),
        (rate_text, 0.0, "0"),
        (rate_text, 0.254, "0.25"),
        (rate_text, 12345.6, "12,346"),
        (rate_text, -5.0, "-5.00"),
        (byte_rate_text, 1536.0, "1.5 kB/s"),
        (byte_rate_text, -1536.0, "-1.5 kB/s"),
        (byte_rate_text, -0.2, "0 B/s"),
        (ms_text, 0.1234, "0.12"),
        (ms_text, 12.34, "12.3"),
        (ms_text, 1234.5, "1,234"),
        (left_text, 5.4, "5s"),
        (left_text, 600.0, "10m"),
        (left_text, 7200.0, "2h"),
        (left_text, 864_000.0, "10d"),
        (phases_text, {"local": 9.0, "remote": 90.0, "queue": 1.0}, "remote 90.0"),
        (phases_text, {"local": 0.0}, ""),
    ],
)
def test_values_are_shown_with_few_digits(
    text: Callable[[Any], str], value: object, shown: str
) -> None:
    assert text(value) == shown
