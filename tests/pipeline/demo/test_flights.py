"""The demo's rows and messages of flights, its statistics, and its report of differences."""

from __future__ import annotations

import json

import pytest

from kwire.pipeline.demo import flights, results
from kwire.pipeline.demo.flights import Delays

ROW = {
    "year": "2013",
    "month": "1",
    "dep_time": "NA",
    "arr_delay": "NA",
    "carrier": "AA",
    "tailnum": "N3EHAA",
}


def late(minutes: str, carrier: str = "AA") -> dict[str, str]:
    return ROW | {"dep_time": "517", "arr_delay": minutes, "carrier": carrier}


def test_message_has_null_for_unknown_values_and_numbers_as_numbers() -> None:
    key, value = flights.encode(ROW)
    assert key == b"AA"
    assert json.loads(value) == {
        "year": 2013,
        "month": 1,
        "dep_time": None,
        "arr_delay": None,
        "carrier": "AA",
        "tailnum": "N3EHAA",
    }


def test_statistics_of_a_carrier_and_month() -> None:
    found = flights.statistics([ROW, late("16"), late("15"), late("-3"), late("7", "UA")])
    assert found == {
        ("AA", 1): Delays(4, 1, 3, 28, -3, 16, 1),
        ("UA", 1): Delays(1, 0, 1, 7, 7, 7, 0),
    }


def test_carrier_without_arrivals_has_no_extremes() -> None:
    assert flights.statistics([ROW]) == {("AA", 1): Delays(1, 1, 0, 0, None, None, 0)}
    assert flights.statistics([ROW])["AA", 1].mean_min is None


@pytest.mark.parametrize("row", [ROW, late("5")])
def test_result_is_read_in_the_form_that_spark_writes(row: dict[str, str]) -> None:
    (group, delays), *_ = flights.statistics([row]).items()
    fields = {"carrier": group[0], "month": group[1]}
    fields |= {name: getattr(delays, name) for name in Delays.__slots__}
    without_nulls = {name: value for name, value in fields.items() if value is not None}
    assert flights.read_result(json.dumps(without_nulls).encode()) == (group, delays)


def test_differences_name_the_group_and_both_figures() -> None:
    expected = flights.statistics([late("5"), late("7", "UA")])
    found = flights.statistics([late("6"), late("7", "UA")])
    (only,) = results.differences(expected, found, "Parquet")
    assert only.startswith("Parquet: AA in Jan: ")
    assert "delay_sum=6" in only
    assert "delay_sum=5" in only
    assert results.differences(expected, expected, "Parquet") == []


def test_sample_has_every_nth_flight_of_the_file() -> None:
    sample = list(flights.rows(every=100_000))
    assert len(sample) == 4
    assert sample[0]["carrier"] == "UA"
