"""Keys of `kwire top`."""

from __future__ import annotations

import pytest

from kwire.cli.operating.live.choice import TopChoice
from kwire.cli.operating.live.tables import TABLES, TOPICS, TopTable
from kwire.cli.operating.live.terminal import keys_of


def after(*keys: str) -> TopChoice:
    choice = TopChoice()
    for key in keys:
        choice = choice.after(key)
    return choice


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.key)
def test_key_of_a_table_shows_it_and_o_shows_the_overview(table: TopTable) -> None:
    key = table.key
    assert after(key).table is table
    assert after(key, "o").table is None


def test_tab_goes_through_all_tables_and_begins_again() -> None:
    shown = [after(*"\t" * count).table for count in range(len(TABLES) + 2)]
    assert shown == [None, *TABLES, None]


def test_order_moves_to_the_next_column_of_the_shown_table_only() -> None:
    assert after("t", ">").order_of(TOPICS) == TOPICS.field_after(TOPICS.sorted_by)
    assert after("t", ">", "g").order_of(TOPICS) == TOPICS.field_after(TOPICS.sorted_by)
    assert after("g", ">").order_of(TOPICS) == TOPICS.sorted_by
    assert after(">").sorted_by == {}


def test_order_is_reversed_until_another_table_is_shown() -> None:
    assert after("t", "<").is_reversed
    assert not after("t", "<", "<").is_reversed
    assert not after("t", "<", "g").is_reversed


def test_filter_takes_all_keys_until_enter() -> None:
    choice = after(*"/qtx\x7f")
    assert (choice.wanted, choice.is_typing, choice.is_over) == ("qt", True, False)
    choice = choice.after("\r")
    assert (choice.wanted, choice.is_typing) == ("qt", False)
    assert choice.after("q").is_over


def test_escape_removes_the_filter() -> None:
    assert after(*"/ab\x1b") == TopChoice()
    assert after(*"/ab\r\x1b") == TopChoice()


def test_filter_takes_no_control_characters_and_ends_at_its_limit() -> None:
    assert after(*"/a\x01b").wanted == "ab"
    assert len(after("/", *"x" * 1000).wanted) == 100


def test_pause_and_help_are_switched_on_and_off() -> None:
    assert after("p").is_paused
    assert not after("p", "p").is_paused
    assert after("?").shows_help
    assert not after("?", "\x1b").shows_help


def test_key_without_a_meaning_changes_nothing() -> None:
    assert after("z", "\x00", "é") == TopChoice()


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"/ab\r", ["/", "a", "b", "\r"]),
        (b"\x1b", ["\x1b"]),
        (b"\x1b[A", []),
        ("é".encode(), ["é"]),
        (b"\xff", []),
    ],
)
def test_keys_are_characters_without_sequences_of_arrow_keys(data: bytes, keys: list[str]) -> None:
    assert keys_of(data) == keys
