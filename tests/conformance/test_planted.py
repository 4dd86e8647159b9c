"""Tests that the suite finds faults which are planted in kwire's own code."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kwire.conformance.parts import Suite
from kwire.conformance.pytest_apache import ApacheKafkaNode
from kwire.conformance.selection import parse
from kwire.testing import BrokerProcess
from tests.conformance.planted import broker as planted

BROKER = Path(planted.__file__)


class PlantedBroker(BrokerProcess):
    """A kwire broker with one of the planted faults."""

    def __init__(self, directory: Path, fault: str) -> None:
        super().__init__(directory)
        self.fault = fault

    def command(self) -> list[str]:
        _, _, _, *arguments = super().command()  # python -m kwire.cli serve ...
        return [sys.executable, str(BROKER), self.fault, *arguments]


FOUND_BY: dict[str, tuple[str, str]] = {
    "wrong_error_code": ("Heartbeat:4", "a stable group"),
    "wrong_generation_accepted": ("Heartbeat:4", "a stable group"),
    "high_watermark_one_too_high": ("Fetch:12", "from every offset"),
    "field_missing_in_one_version": ("Fetch:5", "from every offset"),
    "throttle_time_missing": ("Heartbeat:1", "an unknown group"),
    "wrong_timestamp_of_the_earliest_offset": ("ListOffsets:5", "every special timestamp"),
    "sequence_not_checked": ("behaviour:producing.out_of_order", "producing.out_of_order"),
    "large_first_batch_not_returned": ("Fetch:12", "the first batch is whole"),
    "session_epoch_not_checked": ("Fetch:12", "a session: full, nothing new"),
    "wrong_default": ("DescribeConfigs:4", "a topic"),
    "long_poll_returns_immediately": ("behaviour:framing.a_long_poll", "framing.a_long_poll"),
    "deleted_records_remain": ("DeleteRecords:2", "all of them by -1"),
    "append_time_from_the_client": ("behaviour:listing.log_append_time", "log_append_time"),
    "checksum_not_checked": ("hostile:batch/beside a sound one, set: wrong CRC", "wrong CRC"),
    "record_count_not_checked": ("hostile:batch/beside a sound one, record", "no records at all"),
}
"""For each fault, the selection to run and the line that must be red."""


@contextmanager
def running(directory: Path, fault: str) -> Iterator[str]:
    with PlantedBroker(directory, fault) as broker:
        yield broker.bootstrap


def red_lines(subject: str, oracle: str, only: Sequence[str]) -> list[str]:
    chosen = parse(only)
    suite = Suite(subject, oracle, brisk=False, short=False, workers=4, seed="1")
    lines: list[str] = []
    for part in sorted(chosen.parts):
        lines += suite.run(part, chosen, lambda *_: None).words()
    return lines


def test_every_planted_fault_has_a_selection() -> None:
    assert set(FOUND_BY) == set(planted.FAULTS) - {"nothing"}
    assert len(FOUND_BY) >= 10


@pytest.mark.long
def test_suite_finds_nothing_without_a_fault(apache_kafka: ApacheKafkaNode, tmp_path: Path) -> None:
    only = sorted({only for only, _ in FOUND_BY.values()})
    with running(tmp_path, "nothing") as subject:
        assert red_lines(subject, apache_kafka.bootstrap, only) == []


@pytest.mark.long
@pytest.mark.parametrize("fault", FOUND_BY)
def test_suite_finds_the_planted_fault(
    fault: str, apache_kafka: ApacheKafkaNode, tmp_path: Path
) -> None:
    only, case = FOUND_BY[fault]
    with running(tmp_path, fault) as subject:
        lines = red_lines(subject, apache_kafka.bootstrap, [only])
    assert any(case in line for line in lines), "\n".join(lines) or "nothing is red"
