"""The share assignor returns the results of Apache Kafka 4.3.1's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kwire.groups.share.assignor import ShareSpec, assign
from tests.groups.assignments import ASSIGNORS, case_of
from tests.kafkas_classes import asked, kept

ANSWERS = Path(__file__).parent / "data" / "assignor-4.3.1.txt"


def check(line: str) -> None:
    case = case_of(line)
    readable = {
        topic_id: [int(each) for each in these.split(".") if each]
        for topic_id, these in case.topics.items()
    }
    case.check(assign(ShareSpec(case.members, case.homogeneous, readable)), ordered=True)


def test_share_assignor_matches_recorded_kafka_results() -> None:
    for line in kept(ANSWERS):
        check(line)


@pytest.mark.long
@pytest.mark.java
def test_recorded_share_assignments_match_apache_kafka(rng: random.Random) -> None:
    for line in asked(ASSIGNORS, rng, "share"):
        check(line)
