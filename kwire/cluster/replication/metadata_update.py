"""Converts the controller's UpdateMetadata request to a delta of the metadata image; no I/O.

The request lists all live brokers, but only the partitions that are new or changed.  A partition
whose leader is -2 is being deleted.  The rules are those of Apache Kafka 3.9's metadata cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.image import (
    NO_CONTROLLER,
    NO_LEADER,
    SECURITY_PROTOCOLS,
    BrokerImage,
    ClusterImage,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from kwire.codecs.primitives import ZERO_UUID

if TYPE_CHECKING:
    from kwire.codecs.messages.update_metadata import (
        UpdateMetadataBroker,
        UpdateMetadataPartitionState,
        UpdateMetadataRequest,
    )

LEADER_DURING_DELETE: Final = -2
_UNKNOWN_PARTITION: Final = PartitionImage(NO_LEADER, -1, -1, (), ())
"""Stands for a partition that no request has named yet, while one with a higher number exists."""

States = dict[int, "UpdateMetadataPartitionState"]


def delta_of_update(image: ClusterImage, request: UpdateMetadataRequest) -> ClusterDelta:
    """Return the delta that `request` makes to `image`."""
    brokers = {broker.id: _broker(image, broker) for broker in request.live_brokers}
    changed_brokers: dict[int, BrokerImage | None] = {
        broker_id: broker
        for broker_id, broker in brokers.items()
        if image.brokers.get(broker_id) != broker
    }
    changed_brokers |= dict.fromkeys(image.brokers.keys() - brokers.keys())
    deleted: dict[str, bytes] = {}
    topics: dict[str, TopicImage] = {}
    partitions: dict[str, tuple[int, ...]] = {}
    for name, topic_id, states in _by_topic(request):
        old = image.topics.get(name)
        new = _topic(old, name, topic_id, states)
        if old is not None and (new is None or new.id != old.id):
            deleted[name] = old.id
        if new is not None and new != old:
            topics[name] = new
            partitions[name] = tuple(
                index for index in sorted(states) if index < len(new.partitions)
            )
    return ClusterDelta(
        deleted,
        topics,
        partitions,
        {},
        changed_brokers,
        image.deleting,
        request.controller_id if request.controller_id >= 0 else NO_CONTROLLER,
        request.controller_epoch,
        image.next_producer_id,
        image.version + 1,
    )


def _by_topic(request: UpdateMetadataRequest) -> Iterator[tuple[str, bytes, States]]:
    """Yield topic name, topic id and partition states by index, for each topic in `request`.

    Old versions do not group partitions by topic, and have no topic ids.
    """
    for topic in request.topic_states:
        yield topic.topic_name, topic.topic_id, _by_index(topic.partition_states)
    named: dict[str, list[UpdateMetadataPartitionState]] = {}
    for state in request.ungrouped_partition_states:
        named.setdefault(state.topic_name, []).append(state)
    for name, states in named.items():
        yield name, ZERO_UUID, _by_index(states)


def _by_index(states: Iterable[UpdateMetadataPartitionState]) -> States:
    return {state.partition_index: state for state in states}


def _topic(old: TopicImage | None, name: str, topic_id: bytes, states: States) -> TopicImage | None:
    """Return the topic after `states` are applied to `old`; None if no partition of it is left."""
    if topic_id == ZERO_UUID and old is not None:
        topic_id = old.id
    known = () if old is None or old.id != topic_id else old.partitions
    size = max(len(known), max(states, default=-1) + 1)
    partitions = [*known, *[_UNKNOWN_PARTITION] * (size - len(known))]
    for index, state in states.items():
        if index >= 0:
            partitions[index] = _partition(state)
    while partitions and partitions[-1] is _UNKNOWN_PARTITION:
        partitions.pop()
    if all(partition is _UNKNOWN_PARTITION for partition in partitions):
        return None
    return TopicImage(name, topic_id, tuple(partitions))


def _partition(state: UpdateMetadataPartitionState) -> PartitionImage:
    """Return the metadata of a partition; of one that is being deleted, an unknown state."""
    if state.leader == LEADER_DURING_DELETE:
        return _UNKNOWN_PARTITION
    return PartitionImage(
        state.leader,
        state.leader_epoch,
        state.zk_version,
        tuple(state.replicas),
        tuple(state.isr),
        tuple(state.offline_replicas),
        controller_epoch=state.controller_epoch,
    )


def _broker(image: ClusterImage, broker: UpdateMetadataBroker) -> BrokerImage:
    """Return a broker with the endpoints and rack of the request.

    Epoch and features are those known before.
    """
    endpoints = tuple(
        Endpoint(
            endpoint.listener or _protocol(endpoint.security_protocol),
            endpoint.host,
            endpoint.port,
            _protocol(endpoint.security_protocol),
        )
        for endpoint in broker.endpoints
    )
    if not endpoints and broker.v0_host:
        endpoints = (Endpoint("PLAINTEXT", broker.v0_host, broker.v0_port),)
    known = image.brokers.get(broker.id)
    if known is None:
        return BrokerImage(broker.id, endpoints, broker.rack)
    return replace(known, endpoints=endpoints, rack=broker.rack)


def _protocol(number: int) -> str:
    return SECURITY_PROTOCOLS[number] if 0 <= number < len(SECURITY_PROTOCOLS) else str(number)
