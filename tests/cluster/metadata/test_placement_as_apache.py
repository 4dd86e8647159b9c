"""Replicas are placed as by Apache Kafka 3.9.2: Placement.java asked its AdminUtils."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from kwire.cluster.metadata.image import BrokerImage
from kwire.cluster.metadata.placement import assign_replicas, new_partition, place_more_partitions
from kwire.conformance.apache_kafka import libs, source_command

ANSWERS = Path(__file__).parent / "data" / "placement-3.9.2.txt"
SOURCE = Path(__file__).with_name("Placement.java")
VERSION = "3.9.2"


def brokers_of(text: str) -> dict[int, BrokerImage]:
    pairs = [each.partition(":") for each in text.split()]
    return {int(number): BrokerImage(int(number), (), rack or None) for number, _, rack in pairs}


def check(line: str) -> None:
    described, numbers, answer = line.split(" | ")
    brokers = brokers_of(described)
    count, factor, start, shift, first = map(int, numbers.split())
    expected = [[int(each) for each in replicas.split()] for replicas in answer.split("/")]
    assert (
        assign_replicas(brokers, count, factor, start=start, shift=shift, first=first) == expected
    ), line


def test_placement_matches_recorded_kafka_placements() -> None:
    lines = ANSWERS.read_text().splitlines()
    assert len(lines) == 300
    for line in lines:
        check(line)


def test_added_partitions_continue_from_the_first_partitions_leader() -> None:
    """As in AdminZkClient: from the first broker whose id is not smaller."""
    brokers = brokers_of("0 2 5 7")
    had = [new_partition([3, 5]), new_partition([2, 5])]
    added = place_more_partitions(brokers, 3, had)
    assert [list(each.replicas) for each in added] == assign_replicas(
        brokers, 3, 2, start=2, shift=2, first=2
    )
    assert [
        each.replicas for each in place_more_partitions(brokers, 1, [new_partition([9, 5])])
    ] == [tuple(assign_replicas(brokers, 1, 2, start=0, shift=0, first=1)[0])]


@pytest.mark.long
@pytest.mark.java
def test_placement_matches_random_kafka_placements(rng: random.Random) -> None:
    command = source_command(SOURCE, [str(rng.getrandbits(60)), "5000"], libs(VERSION))
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 5000
    for line in lines:
        check(line)
