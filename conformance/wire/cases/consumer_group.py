"""What cases about groups of KIP-848 share."""

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


def group_of(stage: Stage, suffix: str = "g") -> str:
    """A group whose target is computed at once, however soon after the last time."""
    return _configured(stage, [suffix])[suffix]


def _configured(stage: Stage, suffixes: Iterable[str]) -> dict[str, str]:
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
    """One that says what the member owns, and nothing else unless `fields` do."""
    return ConsumerGroupHeartbeatRequest(
        group, member, epoch, **{"topic_partitions": list(owned), **fields}
    )


def join(
    group: str,
    member: str,
    *topics: CaseTopic | str,
    **fields: Any,  # noqa: ANN401 - of a heartbeat
) -> ConsumerGroupHeartbeatRequest:
    names = [topic if isinstance(topic, str) else topic.name for topic in topics]
    return heartbeat(
        group,
        member,
        0,
        **{"rebalance_timeout_ms": 60_000, "subscribed_topic_names": names, **fields},
    )


def owning(topic: CaseTopic, *partitions: int) -> TopicPartitions:
    return TopicPartitions(topic.id, list(partitions))


def handing_over(stage: Stage, group: str, topic: CaseTopic) -> None:
    """Of three partitions the first member has all, and is to give one to the second."""
    stage.ask(join(group, "first", topic))
    stage.ask(join(group, "second", topic))
    stage.ask(heartbeat(group, "first", 2, owning(topic, 0, 1, 2)))


def handed_over(stage: Stage, group: str, topic: CaseTopic) -> None:
    """Of three partitions the first member has two since epoch 2, the second one since epoch 3."""
    handing_over(stage, group, topic)
    stage.ask(heartbeat(group, "first", 2, owning(topic, 0, 1)))
    stage.ask(heartbeat(group, "second", 3))


def left(stage: Stage, group: str, topic: CaseTopic) -> None:
    """Its only member has left."""
    stage.ask(join(group, "first", topic))
    stage.ask(heartbeat(group, "first", -1))


_STATES = {"handing": handing_over, "handed": handed_over, "left": left}


def in_each_state(stage: Stage, topic: CaseTopic) -> dict[str, str]:
    """Groups: `handing` reconciles, `handed` is stable, `left` is empty."""
    groups = _configured(stage, _STATES)
    for suffix, make in _STATES.items():
        make(stage, groups[suffix], topic)
    return groups


MEMBERS = {"handing": ("first", 2), "handed": ("first", 3), "left": ("", -1)}
"""Who may commit in each state, in which epoch."""

WORDS = (
    *(("first", epoch) for epoch in (3, 2, 1, 0, 4, -1, -2)),
    *(("second", epoch) for epoch in (3, 2)),
    *(("nobody", epoch) for epoch in (2, -1)),
    *(("", epoch) for epoch in (2, -1)),
)
"""(member, epoch) in whose name something is asked."""


def until_assigned(stage: Stage, group: str, member: str, **fields: Any) -> int:  # noqa: ANN401 - of a heartbeat
    """Heartbeat until a pattern's topics have been found; the member's epoch.

    As long as that is 0 it joins, again and again, with these fields.
    """
    epoch = 0
    deadline = time.monotonic() + PATTERN_TIMEOUT_S
    while time.monotonic() < deadline:
        beat = heartbeat(group, member, epoch, topic_partitions=None)
        reply = stage.ask(beat if epoch else join(group, member, **fields))
        if reply.assignment is not None and reply.assignment.topic_partitions:
            told: int = reply.member_epoch
            return told
        epoch = reply.member_epoch
        time.sleep(0.05)
    raise AssertionError(f"{member} was given nothing")
