"""What a rule asks of a disk, and which calls of the log it is about."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.testing.hooks.faults.disk import (
    EVERYTHING,
    NEEDS_SPACE,
    DiskAction,
    DiskFault,
    LogOperation,
    SystemCall,
    log_call,
)
from kwire.testing.hooks.faults.machine import FaultMachine, RequestInfo
from kwire.testing.hooks.faults.rules import Action, BadRule, read_rule

SEGMENT = "00000000000000000042.log"


@pytest.fixture
def faults() -> FaultMachine:
    return FaultMachine(lambda seed: random.Random(seed).random, lambda: 42)


@pytest.mark.parametrize(
    ("call", "folder", "name", "operation"),
    [
        (SystemCall.WRITE, "t-0", SEGMENT, LogOperation.APPEND),
        (SystemCall.WRITE, "t-0", "00000000000000000042.index", LogOperation.INDEX),
        (SystemCall.WRITE, "t-0", "00000000000000000042.timeindex", LogOperation.INDEX),
        (SystemCall.WRITE, "t-0", "00000000000000000042.txnindex", LogOperation.INDEX),
        (SystemCall.CREATE, "t-0", SEGMENT, LogOperation.ROLL),
        (SystemCall.CREATE, "t-0", "00000000000000000042.index", LogOperation.ROLL),
        (SystemCall.CREATE, "", "t-0", LogOperation.ROLL),
        (SystemCall.WRITE, "t-0", "00000000000000000042.snapshot", LogOperation.SNAPSHOT),
        (SystemCall.WRITE, "t-0", "leader-epoch-checkpoint.tmp", LogOperation.CHECKPOINT),
        (
            SystemCall.CREATE,
            "data",
            "recovery-point-offset-checkpoint.tmp",
            LogOperation.CHECKPOINT,
        ),
        (SystemCall.WRITE, "data", "meta.properties.tmp", LogOperation.OTHER),
        (SystemCall.WRITE, "t-0", "leader-epoch-checkpoint", LogOperation.CHECKPOINT),
        (SystemCall.CREATE, "t-0", f"{SEGMENT}.tmp", LogOperation.ROLL),
        (SystemCall.CREATE, "t-0", "00000000000000000042.snapshot", LogOperation.SNAPSHOT),
        (SystemCall.CREATE, "t-0", "partition.metadata.tmp", LogOperation.OTHER),
        (SystemCall.CREATE, "data", "meta.properties", LogOperation.OTHER),
        (SystemCall.WRITE, "t-0", "00000000000000000042.snapshot.tmp", LogOperation.SNAPSHOT),
        (SystemCall.FSYNC, "t-0", SEGMENT, LogOperation.FSYNC),
        (SystemCall.FSYNC, "", "t-0", LogOperation.FSYNC),
        (SystemCall.READ, "t-0", SEGMENT, LogOperation.READ),
    ],
)
def test_operation_is_found_by_call_and_file_name(
    call: SystemCall, folder: str, name: str, operation: LogOperation
) -> None:
    assert log_call(call, folder, name).operation is operation


def test_partition_is_found_by_folder_and_file_name() -> None:
    of_log = log_call(SystemCall.WRITE, "a-b-7", SEGMENT)
    assert (of_log.topic, of_log.partition, of_log.file) == ("a-b", 7, f"a-b-7/{SEGMENT}")
    folder = log_call(SystemCall.FSYNC, "", "a-b-7")
    assert (folder.topic, folder.partition, folder.file) == ("a-b", 7, "a-b-7")
    beside = log_call(SystemCall.WRITE, "data-1", "recovery-point-offset-checkpoint.tmp")
    assert (beside.topic, beside.partition) == (None, None), "data-1 is no partition's folder"


@pytest.mark.parametrize(
    ("said", "of_disk"),
    [
        ({"disk": "full"}, DiskAction(DiskFault.FULL, NEEDS_SPACE, 1000)),
        ({"disk": "failed"}, DiskAction(DiskFault.FAILED, EVERYTHING, 1000)),
        ({"preset": "full-disk"}, DiskAction(DiskFault.FULL, NEEDS_SPACE, 1000)),
        ({"preset": "failed-disk"}, DiskAction(DiskFault.FAILED, EVERYTHING, 1000)),
        ({"preset": "slow-disk", "delay_ms": 7}, DiskAction(DiskFault.SLOW, EVERYTHING, 7)),
        (
            {"disk": "slow", "on": ["fsync", "roll"]},
            DiskAction(DiskFault.SLOW, frozenset({LogOperation.FSYNC, LogOperation.ROLL}), 1000),
        ),
    ],
)
def test_disk_rule_is_parsed(said: dict[str, Any], of_disk: DiskAction) -> None:
    assert read_rule(said).of_disk == of_disk


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"disk": "ful"}, "disk must be one of full, failed, slow, not 'ful'"),
        ({"disk": "full", "on": "appnd"}, "on must be one of append, index, roll, .* not 'appnd'"),
        (
            {"disk": "full", "api": "Produce"},
            "a rule about a disk cannot have api: it can have disk, on, ",
        ),
        ({"disk": "full", "delay_ms": 9}, "delay_ms is for a slow disk, not for a full one"),
        ({"on": "append", "die": True}, "only together with disk"),
        ({"preset": "ful-disk"}, "there is no preset 'ful-disk': did you mean full-disk"),
        ({"disk": "full", "partition": 0}, "partition takes effect only together with topic"),
    ],
)
def test_invalid_disk_rule_is_refused_with_a_reason(said: dict[str, Any], why: str) -> None:
    with pytest.raises(BadRule, match=why):
        read_rule(said)


@pytest.mark.parametrize(
    ("rule", "call", "folder", "is_about_it"),
    [
        ({}, SystemCall.WRITE, "t-0", True),
        ({"topic": "t"}, SystemCall.WRITE, "t-0", True),
        ({"topic": "t", "partition": 1}, SystemCall.WRITE, "t-0", False),
        ({"topic": "u"}, SystemCall.WRITE, "t-0", False),
        ({}, SystemCall.FSYNC, "t-0", False),
        ({"on": "fsync"}, SystemCall.FSYNC, "t-0", True),
        ({"on": "fsync"}, SystemCall.WRITE, "t-0", False),
    ],
)
def test_disk_rule_matches_operations_topics_and_partitions(
    faults: FaultMachine, rule: dict[str, Any], call: SystemCall, folder: str, is_about_it: bool
) -> None:
    faults.add(read_rule({"disk": "full", **rule}))
    assert (faults.decide_disk(log_call(call, folder, SEGMENT)) is not None) is is_about_it


def test_topic_rule_does_not_match_files_outside_partitions(faults: FaultMachine) -> None:
    faults.add(read_rule({"disk": "full", "topic": "data", "partition": 1}))
    assert (
        faults.decide_disk(
            log_call(SystemCall.WRITE, "data-1", "replication-offset-checkpoint.tmp")
        )
        is None
    )


def test_disk_rule_counts_calls_and_records_injections(faults: FaultMachine) -> None:
    number = faults.add(read_rule({"disk": "slow", "delay_ms": 5, "skip": 1, "times": 2}))
    call = log_call(SystemCall.WRITE, "t-0", SEGMENT)
    assert [faults.decide_disk(call) is not None for _ in range(4)] == [False, True, True, False]
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


def test_disk_rules_do_not_match_requests_nor_request_rules_calls(faults: FaultMachine) -> None:
    faults.add(read_rule({"disk": "full", "times": 1}))
    request = HeartbeatRequest(group_id="g")
    assert request.API_KEY is not None
    asked = RequestInfo(request.API_KEY, 1, "c", request, lambda _: None)
    assert faults.decide(asked) is None
    faults.add(read_rule({"disconnect": True}))
    assert faults.decide(asked) is not None
    assert faults.decide_disk(log_call(SystemCall.WRITE, "t-0", SEGMENT)) is not None
    assert faults.decide_disk(log_call(SystemCall.WRITE, "t-0", SEGMENT)) is None


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
def test_file_of_a_partition_is_reported_with_its_folder(name: str) -> None:
    found = log_call(SystemCall.WRITE, "t-12", name)
    assert (found.file, found.topic, found.partition) == (f"t-12/{name}", "t", 12)


@pytest.mark.parametrize("folder", ["t", "7", "t-x", "t-"])
def test_folder_without_partition_name_has_no_partition(folder: str) -> None:
    for found, file in (
        (log_call(SystemCall.WRITE, folder, SEGMENT), SEGMENT),
        (log_call(SystemCall.CREATE, "", folder), folder),
    ):
        assert (found.file, found.topic, found.partition) == (file, None, None)


def test_file_outside_partitions_is_reported_by_name_only() -> None:
    assert log_call(SystemCall.WRITE, "data-1", "meta.properties").file == "meta.properties"


def test_disk_rule_keeps_its_json() -> None:
    rule = read_rule({"preset": "slow-disk", "delay_ms": 7, "topic": "t", "partition": 2})
    assert rule.said == {
        "disk": "slow", "preset": "slow-disk", "delay_ms": 7, "topic": "t", "partition": 2,
    }  # fmt: skip
    assert (rule.topic, rule.partition, rule.times, rule.apis) == ("t", 2, None, frozenset())
    assert rule.steps == (Action(delay_ms=7),)


def test_first_matching_disk_rule_that_is_not_skipping_decides(faults: FaultMachine) -> None:
    call = log_call(SystemCall.WRITE, "t-0", SEGMENT)
    faults.add(read_rule({"disconnect": True}))
    faults.add(read_rule({"disk": "failed", "topic": "u"}))
    faults.add(read_rule({"disk": "full", "times": 1}))
    faults.add(read_rule({"disk": "failed", "skip": 1, "times": 1}))
    faults.add(read_rule({"disk": "slow", "delay_ms": 0}))
    found = [faults.decide_disk(call) for _ in range(4)]
    disks = [DiskFault.FULL, DiskFault.SLOW, DiskFault.FAILED, DiskFault.SLOW]
    assert [each and each.disk for each in found] == disks
    assert [each.rule for each in faults.happened] == [3, 5, 4, 5]
