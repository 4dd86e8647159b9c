"""Requests and groups that the cases on consumer groups (KIP-848) share."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from kwire.codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.stage import Stage

GROUP_RESOURCE = 32
PATTERN_TIMEOUT_S = 120


def new_group(stage: Stage, suffix: str = "g") -> str:
    """Return a group that computes its target assignment without a minimum interval."""
    return _configure_groups(stage, [suffix])[suffix]


def _configure_groups(stage: Stage, suffixes: Iterable[str]) -> dict[str, str]:
    """Return the name of each group by its suffix, with an assignment interval of 0 ms.

    So a new assignment is made at once, and the epochs do not depend on time.
    """
    names = {suffix: stage.name(suffix) for suffix in suffixes}
    config = AlterableConfig("consumer.assignment.interval.ms", 0, "0")
    resources = [AlterConfigsResource(GROUP_RESOURCE, name, [config]) for name in names.values()]
    stage.ask(IncrementalAlterConfigsRequest(resources))
    stage.await_cluster_changes()
    return names


def heartbeat(
    group: str,
    member: str,
    epoch: int,
    *owned: TopicPartitions,
    **fields: Any,  # noqa: ANN401 - its
) -> ConsumerGroupHeartbeatRequest:
    """Build a heartbeat with the member's owned partitions, and with `fields` if given."""
    return ConsumerGroupHeartbeatRequest(
        group, member, epoch, **{"topic_partitions": list(owned), **fields}
    )


def join(
    group: str,
    member: str,
    *topics: CaseTopic | str,
    **fields: Any,  # noqa: ANN401 - of a heartbeat
) -> ConsumerGroupHeartbeatRequest:
    """Return the heartbeat that joins: epoch 0, with the subscription to these topics."""
    names = [topic if isinstance(topic, str) else topic.name for topic in topics]
    return heartbeat(
        group,
        member,
        0,
        **{"rebalance_timeout_ms": 60_000, "subscribed_topic_names": names, **fields},
    )


def owning(topic: CaseTopic, *partitions: int) -> TopicPartitions:
    return TopicPartitions(topic.id, list(partitions))


def start_handover(stage: Stage, group: str, topic: CaseTopic) -> None:
    """The first member has all three partitions and must revoke one for the second."""
    stage.ask(join(group, "first", topic))
    stage.ask(join(group, "second", topic))
    stage.ask(heartbeat(group, "first", 2, owning(topic, 0, 1, 2)))


def finish_handover(stage: Stage, group: str, topic: CaseTopic) -> None:
    """Of three partitions the first member has two since epoch 2, the second one since epoch 3."""
    start_handover(stage, group, topic)
    stage.ask(heartbeat(group, "first", 2, owning(topic, 0, 1)))
    stage.ask(heartbeat(group, "second", 3))


def create_abandoned_group(stage: Stage, group: str, topic: CaseTopic) -> None:
    """The only member has left."""
    stage.ask(join(group, "first", topic))
    stage.ask(heartbeat(group, "first", -1))


_STATES = {"handing": start_handover, "handed": finish_handover, "left": create_abandoned_group}


def groups_in_each_state(stage: Stage, topic: CaseTopic) -> dict[str, str]:
    """Return groups by state: `handing` is reconciling, `handed` is stable, `left` is empty."""
    groups = _configure_groups(stage, _STATES)
    for suffix, make in _STATES.items():
        make(stage, groups[suffix], topic)
    return groups


MEMBERS = {"handing": ("first", 2), "handed": ("first", 3), "left": ("", -1)}
"""The member and epoch that may commit in each state."""

WORDS = (
    *(("first", epoch) for epoch in (3, 2, 1, 0, 4, -1, -2)),
    *(("second", epoch) for epoch in (3, 2)),
    *(("nobody", epoch) for epoch in (2, -1)),
    *(("", epoch) for epoch in (2, -1)),
)
"""Pairs of member and epoch to send requests with."""


def until_assigned(stage: Stage, group: str, member: str, **fields: Any) -> int:  # noqa: ANN401 - of a heartbeat
    """Send heartbeats until the topics of a pattern are assigned; returns the member's epoch.

    While the epoch is 0, the member joins again with these fields.
    """
    epoch = 0
    deadline = time.monotonic() + PATTERN_TIMEOUT_S
    while time.monotonic() < deadline:
        beat = heartbeat(group, member, epoch, topic_partitions=None)
        reply = stage.ask(beat if epoch else join(group, member, **fields))
        if reply.assignment is not None and reply.assignment.topic_partitions:
            assigned_epoch: int = reply.member_epoch
            return assigned_epoch
        epoch = reply.member_epoch
        time.sleep(0.05)
    raise AssertionError(f"{member} has got no partitions")
