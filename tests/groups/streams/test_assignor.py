"""The streams assignor returns the results of Apache Kafka 4.4.0's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kwire.groups.java import HashTable, string_hash
from kwire.groups.streams.assignor import (
    StreamsGroupSpec,
    StreamsMemberSpec,
    SubtopologySpec,
    assign,
)
from kwire.groups.streams.tasks import Tasks, TaskSets, TaskSums
from tests.kafkas_classes import asked, kept

ANSWERS = Path(__file__).parent / "data" / "assignor-4.4.0.txt"
SOURCE = Path(__file__).with_name("StreamsAssignor.java")


def tasks(text: str) -> Tasks:
    """`0=1.2,3=0`: subtopologies and partitions."""
    pairs = (each.partition("=") for each in text.split(",") if each)
    return {name: frozenset(map(int, these.split("."))) for name, _, these in pairs}


def offsets(text: str) -> TaskSums:
    """`0=1>5.2>7`: the offsets 5 and 7 of two partitions of a subtopology."""
    pairs = (each.partition("=") for each in text.split(",") if each)
    return {
        name: {int(p): int(offset) for p, offset in (each.split(">") for each in these.split("."))}
        for name, _, these in pairs
    }


def subtopology(text: str) -> SubtopologySpec:
    """`0=3s`: with three tasks that have state."""
    name, _, count = text.partition("=")
    return SubtopologySpec(name, int(count.removesuffix("s")), count.endswith("s"))


def check(line: str) -> None:
    standbys, described, members, answer = line.split("|")
    specs = {}
    for each in members.split(" "):
        member_id, process_id, active, standby, reported = each.split(":")
        has = TaskSets(tasks(active), tasks(standby))
        specs[member_id] = StreamsMemberSpec(member_id, process_id, has, offsets(reported))
    in_order = [specs[member_id] for member_id in HashTable(string_hash, specs)]
    subtopologies = [subtopology(each) for each in described.split(" ")]
    expected = {
        member_id: TaskSets(tasks(active), tasks(standby))
        for member_id, active, standby in (each.split(":") for each in answer.split(" "))
    }
    assert assign(StreamsGroupSpec(in_order, subtopologies, int(standbys))) == expected, line


def test_streams_assignor_matches_recorded_kafka_results() -> None:
    for line in kept(ANSWERS):
        check(line)


@pytest.mark.long
@pytest.mark.java
def test_recorded_streams_assignments_match_apache_kafka(rng: random.Random) -> None:
    for line in asked(SOURCE, rng):
        check(line)
