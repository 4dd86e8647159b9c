"""Findings about clocks and timestamps."""

from __future__ import annotations

import pytest

from kwire.client.checkup.clocks import (
    TIME,
    ClockReading,
    NewestRecord,
    clock_findings,
    duration_text,
    reading_of,
    unknown_clocks,
)
from kwire.client.checkup.finding import CheckGrade
from kwire.client.metrics.scrape import BrokerScrape, MetricValue


@pytest.mark.parametrize(
    ("ahead_s", "taken_s", "grades"),
    [
        (1.9, 0.0, []),
        (2.0, 0.0, [CheckGrade.NOTE]),
        (-2.0, 0.0, [CheckGrade.NOTE]),
        (2.0, 0.1, []),  # The answer may be of the beginning or the end of the request.
        (30.0, 0.0, [CheckGrade.RISK]),
    ],
)
def test_clock_that_is_seconds_off_is_a_finding(
    ahead_s: float, taken_s: float, grades: list[CheckGrade]
) -> None:
    found = clock_findings([ClockReading("broker 1", ahead_s, taken_s)], [])
    assert [each.grade for each in found] == grades


def test_clock_finding_says_which_way_it_is_off() -> None:
    ahead, behind = clock_findings([ClockReading("a", 90.0), ClockReading("b", -3600.0 * 5)], [])
    assert "90.0 s ahead of this machine's" in ahead.says
    assert "5.0 h behind this machine's" in behind.says


def test_records_of_a_brokers_coordinator_in_our_future_show_that_its_clock_is_ahead() -> None:
    newest = [
        NewestRecord("__consumer_offsets", 50.0, 2, is_internal=True),
        NewestRecord("__consumer_offsets", -9.0, 2, is_internal=True),
        NewestRecord("__consumer_offsets", -9.0, 3, is_internal=True),
    ]
    [each] = clock_findings([], newest)
    assert (each.about, each.grade) == ("broker 2", CheckGrade.RISK)
    read = [ClockReading("broker 2", 0.0)]
    assert list(clock_findings(read, newest)) == [], "it was ahead, and is not now"


def test_clock_is_read_off_the_metrics_or_else_off_the_header_date() -> None:
    both = BrokerScrape(
        0.0, {TIME: [MetricValue({}, 107.0)]}, server_ahead_s=9.0, taken_s=0.2, middle_s=100.0
    )
    assert reading_of("broker 1", both) == ClockReading("broker 1", 7.0, 0.2)
    header = BrokerScrape(0.0, {}, server_ahead_s=9.0, taken_s=0.25, middle_s=100.0)
    assert reading_of("broker 1", header) == ClockReading("broker 1", 9.0, 1.25)
    assert reading_of("broker 1", BrokerScrape(0.0)) is None


def test_timestamps_of_the_future_are_a_risk_that_names_the_topics() -> None:
    newest = [
        NewestRecord("soon", 3599.0, 1),
        NewestRecord("far", 3600.0, 1),
        NewestRecord("far", 3600.0 * 24 * 365.25 * 55, 1),
        NewestRecord("later", 3600.0, 1),
    ]
    [each] = clock_findings([], newest)
    assert (each.check, each.grade) == ("future-timestamps", CheckGrade.RISK)
    assert each.about == "topics far, later"
    assert "of far is 55 years in the future" in each.says


def test_brokers_whose_clocks_are_unknown_are_unchecked() -> None:
    [each] = unknown_clocks([1, 2, 3], [ClockReading("broker 2", 0.0)])
    assert (each.grade, each.about) == (CheckGrade.UNCHECKED, "brokers 1, 3")
    assert list(unknown_clocks([2], [ClockReading("broker 2", 0.0)])) == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.04, "2.0 s"), (600, "10 min"), (7200, "2.0 h"), (864_000, "10 days"), (1e9, "32 years")],
)
def test_duration_has_a_unit_that_suits_it(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
