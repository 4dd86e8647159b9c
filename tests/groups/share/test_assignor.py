"""Members of share groups read what Apache Kafka 4.3.1's own assignor gives them."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from kwire.conformance import java
from kwire.conformance.apache_kafka import libs
from kwire.groups.consumer.assignors.spec import MemberSpec, as_read, in_java_order
from kwire.groups.java import HashTable, uuid_hash
from kwire.groups.share.assignor import ShareSpec, assign

ANSWERS = Path(__file__).parent / "data" / "assignor-4.3.1.txt"
SOURCE = Path(__file__).with_name("ShareAssignor.java")

Listed = list[tuple[bytes, list[int]]]


def listed(text: str, topics: list[bytes]) -> Listed:
    """`0=1.2,3=0`: topics by their place, and their partitions in the order that Java has them."""
    pairs = [each.partition("=") for each in text.split(",") if each]
    return [(topics[int(t)], [int(p) for p in ps.split(".") if p]) for t, _, ps in pairs]


def member_of(text: str, topics: list[bytes]) -> MemberSpec:
    member_id, subscribed, assignment = text.split(":")
    topic_ids = HashTable(uuid_hash, (topics[int(each)] for each in subscribed.split(",") if each))
    return MemberSpec(
        member_id, None, dict.fromkeys(topic_ids), as_read(listed(assignment, topics))
    )


def check(line: str) -> None:
    described, members, answer = line.split("|")
    readable = {
        bytes.fromhex(topic_id): [int(each) for each in these.split(".") if each]
        for topic_id, _, these in (each.partition("=") for each in described.split(" "))
    }
    topics = list(readable)
    specs = in_java_order(member_of(each, topics) for each in members.split(" "))
    homogeneous = len({frozenset(each.topic_ids) for each in specs}) == 1
    assigned = assign(ShareSpec(specs, homogeneous, readable))
    pairs = [each.partition(":") for each in answer.split()]
    expected = {member_id: as_read(listed(rest, topics)) for member_id, _, rest in pairs}
    assert {member_id: as_read(it.items()) for member_id, it in assigned.items()} == expected, line
    for member_id, assignment in assigned.items():  # the next assignment goes by its order, too
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
