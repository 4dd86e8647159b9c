"""Members get what Apache Kafka 4.3.1's own assignors give them (Assignors.java asks them)."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from kwire.conformance import java
from kwire.conformance.apache_kafka import libs
from kwire.groups.consumer.assignors import range as range_assignor
from kwire.groups.consumer.assignors import uniform
from kwire.groups.consumer.assignors.spec import (
    Assignment,
    GroupSpec,
    MemberSpec,
    as_read,
    in_java_order,
)
from kwire.groups.java import HashTable, uuid_hash

ANSWERS = Path(__file__).parent / "data" / "assignors-4.3.1.txt"
SOURCE = Path(__file__).with_name("Assignors.java")
ASSIGNORS = {uniform.NAME: uniform.assign, range_assignor.NAME: range_assignor.assign}

Listed = list[tuple[bytes, list[int]]]


def listed(text: str, topics: list[bytes]) -> Listed:
    """`0=1.2,3=0`: topics by their place, and their partitions in the order that Java has them."""
    pairs = [each.partition("=") for each in text.split(",") if each]
    return [(topics[int(t)], [int(p) for p in ps.split(".") if p]) for t, _, ps in pairs]


def member_of(text: str, topics: list[bytes]) -> MemberSpec:
    member_id, instance_id, subscribed, assignment = text.split(":")
    topic_ids = HashTable(uuid_hash, (topics[int(each)] for each in subscribed.split(",") if each))
    return MemberSpec(
        member_id,
        instance_id or None,
        dict.fromkeys(topic_ids),
        as_read(listed(assignment, topics)),
    )


def answers(text: str, topics: list[bytes]) -> dict[str, Assignment]:
    pairs = [each.partition(":") for each in text.split()]
    return {member_id: as_read(listed(rest, topics)) for member_id, _, rest in pairs}


def check(line: str) -> None:
    name, described, members, answer = line.split("|")
    counts = {
        bytes.fromhex(topic_id): int(count)
        for topic_id, _, count in (each.partition("=") for each in described.split())
    }
    topics = list(counts)
    specs = in_java_order(member_of(each, topics) for each in members.split(" "))
    homogeneous = len({frozenset(each.topic_ids) for each in specs}) == 1
    assigned = ASSIGNORS[name](GroupSpec(specs, homogeneous, counts))
    expected = answers(answer, topics)
    assert {member_id: as_read(it.items()) for member_id, it in assigned.items()} == expected, line
    # Also the order, for the next assignment goes by it.
    for member_id, assignment in assigned.items():
        if name == uniform.NAME:
            read = as_read(assignment.items())
            assert list(read.items()) == list(expected[member_id].items()), line


def test_as_they_were_kept() -> None:
    lines = ANSWERS.read_text().splitlines()
    assert len(lines) == 300
    for line in lines:
        check(line)


@pytest.mark.long
@pytest.mark.java
def test_as_they_are_now(rng: random.Random) -> None:
    command = [str(java.executable()), "-cp", f"{libs()}/*", str(SOURCE), str(rng.getrandbits(60))]
    done = subprocess.run([*command, "10000"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 10_000
    for line in lines:
        check(line)
