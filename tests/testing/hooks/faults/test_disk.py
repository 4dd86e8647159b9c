"""What a rule asks of a disk, and which calls of the log it is about."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.testing.hooks.faults.disk import (
    EVERYTHING,
    WHAT_TAKES_ROOM,
    Call,
    Disk,
    OfDisk,
    Operation,
    touched,
)
from kwire.testing.hooks.faults.machine import Asked, Faults
from kwire.testing.hooks.faults.rules import Action, BadRule, read_rule

SEGMENT = "00000000000000000042.log"


@pytest.fixture
def faults() -> Faults:
    return Faults(lambda seed: random.Random(seed).random, lambda: 42)


@pytest.mark.parametrize(
    ("call", "folder", "name", "operation"),
    [
        (Call.WRITE, "t-0", SEGMENT, Operation.APPEND),
        (Call.WRITE, "t-0", "00000000000000000042.index", Operation.INDEX),
        (Call.WRITE, "t-0", "00000000000000000042.timeindex", Operation.INDEX),
        (Call.WRITE, "t-0", "00000000000000000042.txnindex", Operation.INDEX),
        (Call.CREATE, "t-0", SEGMENT, Operation.ROLL),
        (Call.CREATE, "t-0", "00000000000000000042.index", Operation.ROLL),
        (Call.CREATE, "", "t-0", Operation.ROLL),
        (Call.WRITE, "t-0", "00000000000000000042.snapshot", Operation.SNAPSHOT),
        (Call.WRITE, "t-0", "leader-epoch-checkpoint.tmp", Operation.CHECKPOINT),
        (Call.CREATE, "data", "recovery-point-offset-checkpoint.tmp", Operation.CHECKPOINT),
        (Call.WRITE, "data", "meta.properties.tmp", Operation.OTHER),
        (Call.WRITE, "t-0", "leader-epoch-checkpoint", Operation.CHECKPOINT),
        (Call.CREATE, "t-0", f"{SEGMENT}.tmp", Operation.ROLL),
        (Call.CREATE, "t-0", "00000000000000000042.snapshot", Operation.SNAPSHOT),
        (Call.CREATE, "t-0", "partition.metadata.tmp", Operation.OTHER),
        (Call.CREATE, "data", "meta.properties", Operation.OTHER),
        (Call.WRITE, "t-0", "00000000000000000042.snapshot.tmp", Operation.SNAPSHOT),
        (Call.FSYNC, "t-0", SEGMENT, Operation.FSYNC),
        (Call.FSYNC, "", "t-0", Operation.FSYNC),
        (Call.READ, "t-0", SEGMENT, Operation.READ),
    ],
)
def test_what_the_log_is_at(call: Call, folder: str, name: str, operation: Operation) -> None:
    assert touched(call, folder, name).operation is operation


def test_whose_file_it_is() -> None:
    of_log = touched(Call.WRITE, "a-b-7", SEGMENT)
    assert (of_log.topic, of_log.partition, of_log.file) == ("a-b", 7, f"a-b-7/{SEGMENT}")
    folder = touched(Call.FSYNC, "", "a-b-7")
    assert (folder.topic, folder.partition, folder.file) == ("a-b", 7, "a-b-7")
    beside = touched(Call.WRITE, "data-1", "recovery-point-offset-checkpoint.tmp")
    assert (beside.topic, beside.partition) == (None, None), "data-1 is no partition's folder"


@pytest.mark.parametrize(
    ("said", "of_disk"),
    [
        ({"disk": "full"}, OfDisk(Disk.FULL, WHAT_TAKES_ROOM, 1000)),
        ({"disk": "failed"}, OfDisk(Disk.FAILED, EVERYTHING, 1000)),
        ({"preset": "full-disk"}, OfDisk(Disk.FULL, WHAT_TAKES_ROOM, 1000)),
        ({"preset": "failed-disk"}, OfDisk(Disk.FAILED, EVERYTHING, 1000)),
        ({"preset": "slow-disk", "delay_ms": 7}, OfDisk(Disk.SLOW, EVERYTHING, 7)),
        (
            {"disk": "slow", "on": ["fsync", "roll"]},
            OfDisk(Disk.SLOW, frozenset({Operation.FSYNC, Operation.ROLL}), 1000),
        ),
    ],
)
def test_a_rule_about_the_disk_is_read(said: dict[str, Any], of_disk: OfDisk) -> None:
    assert read_rule(said).of_disk == of_disk


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"disk": "ful"}, "disk is one of full, failed, slow, and not 'ful'"),
        ({"disk": "full", "on": "appnd"}, "on is one of append, index, roll, .* not 'appnd'"),
        ({"disk": "full", "api": "Produce"}, "a disk has no api: such a rule takes disk, on, "),
        ({"disk": "full", "delay_ms": 9}, "a full disk has no delay_ms: try a slow one"),
        ({"on": "append", "die": True}, "it takes a disk"),
        ({"preset": "ful-disk"}, "there is no preset 'ful-disk': did you mean full-disk"),
        ({"disk": "full", "partition": 0}, "partition takes a topic"),
    ],
)
def test_what_cannot_be_is_said(said: dict[str, Any], why: str) -> None:
    with pytest.raises(BadRule, match=why):
        read_rule(said)


@pytest.mark.parametrize(
    ("rule", "call", "folder", "is_about_it"),
    [
        ({}, Call.WRITE, "t-0", True),
        ({"topic": "t"}, Call.WRITE, "t-0", True),
        ({"topic": "t", "partition": 1}, Call.WRITE, "t-0", False),
        ({"topic": "u"}, Call.WRITE, "t-0", False),
        ({}, Call.FSYNC, "t-0", False),
        ({"on": "fsync"}, Call.FSYNC, "t-0", True),
        ({"on": "fsync"}, Call.WRITE, "t-0", False),
    ],
)
def test_which_calls_are_meant(
    faults: Faults, rule: dict[str, Any], call: Call, folder: str, is_about_it: bool
) -> None:
    faults.add(read_rule({"disk": "full", **rule}))
    assert (faults.touch(touched(call, folder, SEGMENT)) is not None) is is_about_it


def test_a_rule_of_a_topic_is_not_about_what_is_beside_it(faults: Faults) -> None:
    faults.add(read_rule({"disk": "full", "topic": "data", "partition": 1}))
    assert faults.touch(touched(Call.WRITE, "data-1", "replication-offset-checkpoint.tmp")) is None


def test_how_often_and_what_is_told(faults: Faults) -> None:
    number = faults.add(read_rule({"disk": "slow", "delay_ms": 5, "skip": 1, "times": 2}))
    call = touched(Call.WRITE, "t-0", SEGMENT)
    assert [faults.touch(call) is not None for _ in range(4)] == [False, True, True, False]
    assert [each.to_json() for each in faults.happened] == 2 * [
        {
            "rule": number,
            "time_ms": 42,
            "disk": "slow",
            "on": "append",
            "file": f"t-0/{SEGMENT}",
            "partitions": [{"topic": "t", "partition": 0}],
            "delay_ms": 5,
        }
    ]


def test_requests_and_disks_have_rules_of_their_own(faults: Faults) -> None:
    faults.add(read_rule({"disk": "full", "times": 1}))
    request = HeartbeatRequest(group_id="g")
    assert request.API_KEY is not None
    asked = Asked(request.API_KEY, 1, "c", request, lambda _: None)
    assert faults.decide(asked) is None
    faults.add(read_rule({"disconnect": True}))
    assert faults.decide(asked) is not None
    assert faults.touch(touched(Call.WRITE, "t-0", SEGMENT)) is not None
    assert faults.touch(touched(Call.WRITE, "t-0", SEGMENT)) is None


@pytest.mark.parametrize(
    "name",
    [
        SEGMENT,
        f"{SEGMENT}.tmp",
        "42.index",
        "42.timeindex",
        "42.txnindex",
        "42.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata.tmp",
    ],
)
def test_files_of_a_partition_are_told_with_its_folder(name: str) -> None:
    found = touched(Call.WRITE, "t-12", name)
    assert (found.file, found.topic, found.partition) == (f"t-12/{name}", "t", 12)


@pytest.mark.parametrize("folder", ["t", "7", "t-x", "t-"])
def test_folder_whose_name_is_no_partitions_has_none(folder: str) -> None:
    for found, file in (
        (touched(Call.WRITE, folder, SEGMENT), SEGMENT),
        (touched(Call.CREATE, "", folder), folder),
    ):
        assert (found.file, found.topic, found.partition) == (file, None, None)


def test_file_beside_the_partitions_is_told_by_its_name_alone() -> None:
    assert touched(Call.WRITE, "data-1", "meta.properties").file == "meta.properties"


def test_rule_of_a_disk_keeps_what_was_asked_for() -> None:
    rule = read_rule({"preset": "slow-disk", "delay_ms": 7, "topic": "t", "partition": 2})
    assert rule.said == {
        "disk": "slow", "preset": "slow-disk", "delay_ms": 7, "topic": "t", "partition": 2,
    }  # fmt: skip
    assert (rule.topic, rule.partition, rule.times, rule.apis) == ("t", 2, None, frozenset())
    assert rule.steps == (Action(delay_ms=7),)


def test_first_rule_whose_turn_it_is_decides_about_a_call(faults: Faults) -> None:
    call = touched(Call.WRITE, "t-0", SEGMENT)
    faults.add(read_rule({"disconnect": True}))
    faults.add(read_rule({"disk": "failed", "topic": "u"}))
    faults.add(read_rule({"disk": "full", "times": 1}))
    faults.add(read_rule({"disk": "failed", "skip": 1, "times": 1}))
    faults.add(read_rule({"disk": "slow", "delay_ms": 0}))
    found = [faults.touch(call) for _ in range(4)]
    disks = [Disk.FULL, Disk.SLOW, Disk.FAILED, Disk.SLOW]
    assert [each and each.disk for each in found] == disks
    assert [each.rule for each in faults.happened] == [3, 5, 4, 5]
