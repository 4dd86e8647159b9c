"""Values of a cluster as text for a page."""

from __future__ import annotations

import pytest

from kwire.console import text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain ünïcode 漢字 🎈", "plain ünïcode 漢字 🎈"),
        ("a\x00b\tc\n\x1b[31m\x7f", "a␀b␉c␊␛[31m␡"),
        ("user\u202egnp.exe", "user⟨U+202E⟩gnp.exe"),
        ("zero\u200bwidth\ufeff", "zero⟨U+200B⟩width⟨U+FEFF⟩"),
        ("half \ud800", "half ⟨U+D800⟩"),
        ("line\u2028end\x85", "line⟨U+2028⟩end⟨U+0085⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
        (17, "17"),
    ],
)
def test_visible_shows_what_a_browser_would_obey(value: object, shown: str) -> None:
    assert text.visible(value) == shown


def test_visible_cuts_long_text_and_says_its_length() -> None:
    assert text.visible("x" * 1_000_000, 5) == "xxxxx… (1,000,000 characters)"
    assert text.visible("x" * 5, 5) == "xxxxx"


def test_visible_lines_keeps_line_ends_and_tabs() -> None:
    assert text.visible_lines("a\n\tb\r\x00") == "a\n\tb␍␀"
    assert text.visible_lines("abc", 2) == "ab… (3 characters)"


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (43_700, "43.7 kB"), (999_600, "1.0 MB"),
        (123_456_789, "123 MB"), (5 * 10**12, "5.0 TB"), (2**63, "9.2 EB"),
    ],
)  # fmt: skip
def test_size_has_the_unit_that_people_read(size_bytes: int, shown: str) -> None:
    assert text.size_text(size_bytes) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0"), (9999, "9,999"), (12_345, "12.3 k"), (10_000_000, "10.0 M"), (-20_000, "-20.0 k")],
)
def test_count_is_exact_up_to_9999(number: int, shown: str) -> None:
    assert text.count_text(number) == shown


@pytest.mark.parametrize(
    ("per_second", "shown"), [(0.0, "0"), (0.25, "0.25"), (2.0, "2"), (31.4, "31"), (5e4, "50.0 k")]
)
def test_rate_has_decimals_where_it_is_small(per_second: float, shown: str) -> None:
    assert text.rate_text(per_second) == shown


def test_exact_number_is_the_title() -> None:
    assert str(text.size(1_234_567)) == '<span title="1,234,567 bytes">1.2 MB</span>'
    assert "unknown" in text.count(None)


def test_time_that_no_calendar_has_is_shown_as_a_number() -> None:
    assert text.time_text(1_700_000_000_123) == "2023-11-14 22:13:20.123"
    assert text.time_text(2**63 - 1) == "9223372036854775807 ms"


@pytest.mark.parametrize(
    ("duration_ms", "shown"),
    [
        (250, "250 ms"), (3500, "3.5 s"), (120_000, "2 min"), (7_200_000, "2 h"),
        (86_400_000, "1 day"), (604_800_000, "7 days"),
    ],
)  # fmt: skip
def test_duration_has_the_largest_unit_that_fits(duration_ms: int, shown: str) -> None:
    assert text.duration_text(duration_ms) == shown


def test_marked_escapes_what_it_marks_and_what_it_does_not() -> None:
    assert str(text.marked("<b>Ada</b>", "ADA")) == "&lt;b&gt;<mark>Ada</mark>&lt;/b&gt;"
    assert str(text.marked("<i>", "<")) == "<mark>&lt;</mark>i&gt;"
    assert str(text.marked("<i>", "")) == "&lt;i&gt;"
