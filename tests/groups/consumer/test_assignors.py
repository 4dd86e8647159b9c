"""The assignors return the results of Apache Kafka 4.3.1's (Assignors.java calls them)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kwire.groups.consumer.assignors import range as range_assignor
from kwire.groups.consumer.assignors import uniform
from kwire.groups.consumer.assignors.spec import ConsumerGroupSpec
from tests.groups.assignments import ASSIGNORS, case_of
from tests.kafkas_classes import asked, kept

ANSWERS = Path(__file__).parent / "data" / "assignors-4.3.1.txt"
OURS = {uniform.NAME: uniform.assign, range_assignor.NAME: range_assignor.assign}


def check(line: str) -> None:
    case = case_of(line)
    counts = {topic_id: int(count) for topic_id, count in case.topics.items()}
    assigned = OURS[case.assignor](ConsumerGroupSpec(case.members, case.homogeneous, counts))
    case.check(assigned, ordered=case.assignor == uniform.NAME)


def test_consumer_assignors_match_recorded_kafka_results() -> None:
    for line in kept(ANSWERS):
        check(line)


@pytest.mark.long
@pytest.mark.java
def test_recorded_consumer_assignments_match_apache_kafka(rng: random.Random) -> None:
    for line in asked(ASSIGNORS, rng):
        check(line)
