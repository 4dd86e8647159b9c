"""Requests and groups that the cases on share groups share."""

from __future__ import annotations

import time
from typing import Any

from kwire.codecs.messages import share_acknowledge, share_fetch
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codecs.messages.share_acknowledge import ShareAcknowledgeRequest
from kwire.codecs.messages.share_fetch import ShareFetchRequest
from kwire.codecs.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.stage import Stage

GROUP_RESOURCE = 32
ASSIGNED_TIMEOUT_S = 120
WAIT_MS = 1_000
"""Apache Kafka loads a partition's state while the fetch waits; without a wait it returns none."""
SETTINGS = {"share.assignment.interval.ms": "0", "share.auto.offset.reset": "earliest"}

Acknowledgement = tuple[int, int, list[int]]
"""First offset, last offset and kinds of acknowledgement."""
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
OTHER_PARTITION, NO_PARTITION = 1, 9


def new_group(stage: Stage, suffix: str = "g", **settings: str) -> str:
    """Return a group that reads from the first record and assigns without a minimum interval."""
    name = stage.name(suffix)
    values = {**SETTINGS, **{key.replace("_", "."): value for key, value in settings.items()}}
    configs = [AlterableConfig(key, 0, value) for key, value in values.items()]
    stage.ask(IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, name, configs)]))
    stage.await_cluster_changes()
    return name


def heartbeat(
    group: str, member: str, epoch: int, topics: list[str] | None = None, rack: str | None = None
) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(group, member, epoch, rack, topics)


def join(group: str, member: str, *topics: CaseTopic | str) -> ShareGroupHeartbeatRequest:
    """Return the heartbeat that joins (epoch 0) with this subscription."""
    names = [topic if isinstance(topic, str) else topic.name for topic in topics]
    return heartbeat(group, member, 0, names)


def join_until_assigned(stage: Stage, group: str, member: str, topic: CaseTopic) -> int:
    """Join a member, wait until it has an assignment, and return its epoch."""
    response: ShareGroupHeartbeatResponse = stage.ask(join(group, member, topic))
    until = time.monotonic() + ASSIGNED_TIMEOUT_S
    while response.assignment is None or not response.assignment.topic_partitions:
        assert time.monotonic() < until, "the member has got no partitions"
        time.sleep(0.05)
        response = stage.ask(heartbeat(group, member, response.member_epoch))
    return response.member_epoch


def fetch(
    group: str,
    member: str,
    epoch: int,
    topic: CaseTopic | None = None,
    *acknowledgements: Acknowledgement,
    **fields: Any,  # noqa: ANN401 - its
) -> ShareFetchRequest:
    """Return a ShareFetch of partition 0; without a topic, of the partitions of the session."""
    batches = [share_fetch.AcknowledgementBatch(*each) for each in acknowledgements]
    topics = []
    if topic is not None:
        topics = [
            share_fetch.FetchTopic(topic.id, [share_fetch.FetchPartition(0, batches)]),
        ]
    request = ShareFetchRequest(
        group, member, epoch, WAIT_MS, 1, 1 << 20, max_records=500, batch_size=500, topics=topics
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def acknowledge(
    group: str,
    member: str,
    epoch: int,
    topic: CaseTopic | None,
    *acknowledgements: Acknowledgement,
    renews: bool = False,
) -> ShareAcknowledgeRequest:
    """Return a ShareAcknowledge request for partition 0; without a topic it has no partition."""
    batches = [share_acknowledge.AcknowledgementBatch(*each) for each in acknowledgements]
    topics = []
    if topic is not None:
        partition = share_acknowledge.AcknowledgePartition(0, batches)
        topics = [share_acknowledge.AcknowledgeTopic(topic.id, [partition])]
    return ShareAcknowledgeRequest(group, member, epoch, renews, topics)
