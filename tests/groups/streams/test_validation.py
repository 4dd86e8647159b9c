"""Invalid heartbeats of streams groups get the errors of Apache Kafka 4.4.0."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_heartbeat import (
    CopartitionGroup,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kwire.groups.streams.topology import InvalidTopology, topology_of
from kwire.groups.streams.validation import refused, refused_topics

JOINING: dict[str, Any] = {
    "group_id": "g",
    "member_id": "m",
    "rebalance_timeout_ms": 1_000,
    "topology": Topology(0, [Subtopology("0", source_topics=["t"])]),
    "active_tasks": [],
    "standby_tasks": [],
    "warmup_tasks": [],
}
LIVING: dict[str, Any] = {
    "member_epoch": 3,
    "topology": None,
    "rebalance_timeout_ms": -1,
    "active_tasks": None,
    "standby_tasks": None,
    "warmup_tasks": None,
}
TASKS = [TaskIds("0", [0])]
COUNTED = Topology(0, [Subtopology("0", state_changelog_topics=[TopicInfo("c", partitions=2)])])
BY_PATTERN = Topology(0, [Subtopology("0", source_topic_regex=["t.*"])])


def refusal(**fields: object) -> tuple[ErrorCode, str | None] | None:
    found = refused(StreamsGroupHeartbeatRequest(**{**JOINING, **fields}))
    return None if found is None else (found.error, found.message)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"topology": BY_PATTERN},
            "Regular expressions for source topics are not supported yet.",
        ),
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        (
            {"rebalance_timeout_ms": -1},
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        ({"active_tasks": None}, "ActiveTasks must be empty when (re-)joining."),
        ({"standby_tasks": TASKS}, "StandbyTasks must be empty when (re-)joining."),
        ({"warmup_tasks": None}, "WarmupTasks must be empty when (re-)joining."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        (
            {"member_epoch": -3},
            "MemberEpoch is -3, but must be greater than or equal to -2.",
        ),
        (
            {**LIVING, "active_tasks": TASKS},
            "If one task-type is non-null, all must be non-null.",
        ),
        (
            {**LIVING, "topology": JOINING["topology"]},
            "Topology can only be provided when (re-)joining.",
        ),
    ],
)
def test_invalid_heartbeats_are_refused_with_kafkas_message(
    fields: dict[str, Any], sentence: str
) -> None:
    assert refusal(**fields) == (ErrorCode.INVALID_REQUEST, sentence)


def test_changelog_with_a_partition_count_is_refused() -> None:
    assert refusal(topology=COUNTED) == (
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
        "Changelog topic c must have an undefined partition count, but it is set to 2.",
    )


def test_valid_heartbeats_are_accepted() -> None:
    assert refusal() is None
    assert refusal(rack_id="r") is None
    assert refusal(**LIVING) is None
    assert refusal(**{**LIVING, "member_epoch": -1}) is None
    tasks = {"active_tasks": TASKS, "standby_tasks": [], "warmup_tasks": []}
    assert refusal(**{**LIVING, **tasks}) is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "__consumer_offsets",
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is "
            "prohibited.",
        ),
        ("a/b", "Topic names a/b are not valid topic names."),
        ("", "Topic names  are not valid topic names."),
        ("fine", None),
    ],
)
@pytest.mark.parametrize("place", ["source", "sink", "repartition", "changelog"])
def test_internal_or_invalid_topic_names_are_refused(
    place: str, name: str, message: str | None
) -> None:
    subtopology = {
        "source": Subtopology("0", source_topics=[name]),
        "sink": Subtopology("0", repartition_sink_topics=[name]),
        "repartition": Subtopology("0", repartition_source_topics=[TopicInfo(name)]),
        "changelog": Subtopology("0", state_changelog_topics=[TopicInfo(name)]),
    }[place]
    found = refused_topics(Topology(0, [subtopology]))
    expected = None if message is None else (ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    assert (None if found is None else (found.error, found.message)) == expected


@pytest.mark.parametrize(
    ("sources", "repartitions", "is_valid"),
    [([0, 1], [0], True), ([2], [], False), ([0], [1], False), ([-1], [], False)],
)
def test_copartition_group_with_a_wrong_index_is_invalid(
    sources: list[int], repartitions: list[int], *, is_valid: bool
) -> None:
    group = CopartitionGroup(source_topics=sources, repartition_source_topics=repartitions)
    told = Subtopology(
        "0",
        source_topics=["t", "u"],
        repartition_source_topics=[TopicInfo("r")],
        copartition_groups=[group],
    )
    if is_valid:
        assert topology_of(Topology(0, [told])).epoch == 0
    else:
        with pytest.raises(InvalidTopology):
            topology_of(Topology(0, [told]))
