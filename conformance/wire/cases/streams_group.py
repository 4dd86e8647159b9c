"""Requests and groups that the cases on streams groups share."""

from __future__ import annotations

import time
from typing import Any

from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codecs.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.stage import Stage

GROUP_RESOURCE = 32
ASSIGNED_TIMEOUT_S = 120
SETTINGS = {"streams.assignment.interval.ms": "0", "streams.initial.rebalance.delay.ms": "0"}


def new_group(stage: Stage, suffix: str = "g", **settings: str) -> str:
    """Return a group that computes its target assignment without delays."""
    name = stage.name(suffix)
    configure(stage, name, **SETTINGS, **{k.replace("_", "."): v for k, v in settings.items()})
    return name


def configure(stage: Stage, group: str, **settings: str) -> None:
    """Set settings of the group, and wait until the broker applies them."""
    configs = [AlterableConfig(key, 0, value) for key, value in settings.items()]
    resource = AlterConfigsResource(GROUP_RESOURCE, group, configs)
    stage.ask(IncrementalAlterConfigsRequest([resource]))
    stage.await_cluster_changes()


def copying(*topics: CaseTopic | str, epoch: int = 0) -> Topology:
    """Return a topology that reads topics and has no state."""
    names = [topic if isinstance(topic, str) else topic.name for topic in topics]
    return Topology(epoch, [Subtopology("0", source_topics=names)])


def counting(stage: Stage, *topics: CaseTopic | str, epoch: int = 0) -> Topology:
    """Return a topology that repartitions and counts, and so needs internal topics."""
    repartition, changelog = stage.name("repartition"), stage.name("changelog")
    reading = copying(*topics, epoch=epoch)
    reading.subtopologies[0].repartition_sink_topics = [repartition]
    compact = [KeyValue("cleanup.policy", "compact")]
    stateful = Subtopology(
        "1",
        repartition_source_topics=[TopicInfo(repartition)],
        state_changelog_topics=[TopicInfo(changelog, 0, 1, compact)],
    )
    stage.delete_later(repartition)
    stage.delete_later(changelog)
    return Topology(epoch, [*reading.subtopologies, stateful])


def complete_topology(topic: CaseTopic) -> Topology:
    """Return a topology that uses every field with one existing topic, so that none is created."""
    compact = [KeyValue("cleanup.policy", "compact")]
    first = Subtopology(
        "0",
        source_topics=[topic.name],
        repartition_sink_topics=[topic.name],
        copartition_groups=[CopartitionGroup([0])],
    )
    second = Subtopology(
        "1",
        repartition_source_topics=[TopicInfo(topic.name)],
        state_changelog_topics=[TopicInfo(topic.name, 0, 1, compact)],
    )
    return Topology(0, [first, second])


def heartbeat(
    group: str,
    member: str,
    epoch: int,
    *active: tuple[str, list[int]],
    **fields: Any,  # noqa: ANN401 - its
) -> StreamsGroupHeartbeatRequest:
    """Build a heartbeat with the member's active tasks, and with `fields` if given."""
    owned = [TaskIds(*each) for each in active]
    return StreamsGroupHeartbeatRequest(
        group,
        member,
        epoch,
        **{"active_tasks": owned, "standby_tasks": [], "warmup_tasks": [], **fields},
    )


def join(
    group: str,
    member: str,
    topology: Topology | None,
    **fields: Any,  # noqa: ANN401 - of a heartbeat
) -> StreamsGroupHeartbeatRequest:
    """Return the heartbeat that joins (epoch 0) with this topology."""
    return heartbeat(
        group,
        member,
        0,
        **{
            "topology": topology,
            "rebalance_timeout_ms": 60_000,
            "process_id": f"process-of-{member}",
            "client_tags": [],
            **fields,
        },
    )


WORDS = (("first", 3), ("first", 2), ("first", 1), ("first", 4), ("first", -1), ("nobody", 3))
"""Pairs of member and epoch to send to a group after `handed_over`."""


def finish_handover(stage: Stage, group: str, topic: CaseTopic) -> None:
    """Let "first" have both tasks and give one of them to "second"."""
    stage.ask(join(group, "first", copying(topic)))
    stage.ask(join(group, "second", copying(topic)))
    response = stage.ask(heartbeat(group, "first", 2, ("0", [0, 1])))
    assert response.active_tasks, (
        f"the first member was not assigned the tasks that it keeps: {response}"
    )
    remaining = [(each.subtopology_id, each.partitions) for each in response.active_tasks]
    stage.ask(heartbeat(group, "first", 2, *remaining))
    stage.ask(heartbeat(group, "second", 3))


def join_until_assigned(stage: Stage, request: StreamsGroupHeartbeatRequest) -> int:
    """Send a join until the member has tasks; returns its epoch."""
    response: StreamsGroupHeartbeatResponse = stage.ask(request)
    until = time.monotonic() + ASSIGNED_TIMEOUT_S
    while not response.active_tasks:
        assert time.monotonic() < until, f"the member has got no tasks: {response}"
        time.sleep(0.05)
        response = stage.ask(heartbeat(request.group_id, request.member_id, response.member_epoch))
    return response.member_epoch
