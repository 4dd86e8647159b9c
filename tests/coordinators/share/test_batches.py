"""Merged state batches equal those of Apache Kafka 4.4.0 (Combiner.java calls its class)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.coordinators.share.batches import StateBatch, combine
from tests.kafkas_classes import asked, kept

ANSWERS = Path(__file__).parent / "data" / "combined-4.4.0.txt"
SOURCE = Path(__file__).with_name("Combiner.java")


def batches_of(text: str) -> list[StateBatch]:
    found = []
    for each in text.split():
        offsets, count, state = each.split(":")
        first, last = offsets.split("-")
        found.append(StateBatch(int(first), int(last), int(count), int(state)))
    return found


def check(line: str) -> None:
    before, later, start, combined = line.split("|")
    given_batches = [*batches_of(before), *batches_of(later)]
    assert combine(given_batches, int(start)) == batches_of(combined), line


def test_combine_matches_recorded_kafka_results() -> None:
    for line in kept(ANSWERS):
        check(line)


@pytest.mark.long
@pytest.mark.java
def test_recorded_results_match_apache_kafka(rng: random.Random) -> None:
    for line in asked(SOURCE, rng):
        check(line)


drawn = st.builds(
    lambda first, more, count, state: StateBatch(first, first + more, count, state),
    st.integers(0, 30),
    st.integers(0, 9),
    st.integers(1, 3),
    st.sampled_from([0, 2, 4]),
)


@given(st.lists(drawn, min_size=2, max_size=9), st.integers(-1, 30))
def test_combine_keeps_the_highest_delivery_of_each_offset(
    batches: list[StateBatch], start: int
) -> None:
    expected: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(max(batch.first, start), batch.last + 1):
            expected[offset] = max(expected.get(offset, (0, 0)), batch.delivery)
    combined = combine(batches, start)
    found = [(o, batch.delivery) for batch in combined for o in range(batch.first, batch.last + 1)]
    assert found == sorted(found), "in order, and nothing twice"
    if len([batch for batch in batches if batch.last >= start]) > 1 or start == -1:
        assert dict(found) == expected
        assert len(found) == len(expected)
