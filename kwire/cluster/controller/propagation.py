"""What brokers are told: LeaderAndIsr, UpdateMetadata and StopReplica, at the versions of 3.9.

A `Batch` gathers what follows of one event, so that each broker gets at most one request of a kind
of it: first who leads what it hosts, then what all brokers tell clients, then what it is to drop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TypeVar

from kwire.cluster.controller.effects import ToBroker
from kwire.cluster.controller.state import ControllerState, Place
from kwire.cluster.metadata.election import is_new
from kwire.cluster.metadata.image import NO_LEADER, PartitionImage, TopicImage
from kwire.codecs.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kwire.codecs.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from kwire.codecs.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

VERSIONS = {LeaderAndIsrRequest: 7, UpdateMetadataRequest: 8, StopReplicaRequest: 4}
"""Those of inter.broker.protocol.version 3.9."""

LEADER_DURING_DELETE = -2
EPOCH_DURING_DELETE = -2
"""Above all others for a broker: a topic that is deleted has no later leader epoch."""

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

T = TypeVar("T")


class Batch:
    """What follows of one event; asked for `requests` once, by the state as it is then."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state
        self._led: dict[int, dict[Place, bool]] = {}
        self._shown: dict[Place, None] = {}
        self._viewers: set[int] = set()
        self._stopped: dict[int, dict[Place, StopReplicaPartitionState]] = {}

    def lead(self, brokers: Iterable[int], place: Place, *, new: bool = False) -> None:
        """Have brokers lead or follow; `new`: they may make a log where none is.

        Not what they have deleted already, of a topic that goes: they would make it anew.
        """
        for broker_id in brokers:
            if broker_id in self._state.members and not self._state.is_deleted(broker_id, place):
                led = self._led.setdefault(broker_id, {})
                led[place] = led.get(place, False) or new

    def show(self, places: Iterable[Place], viewers: Iterable[int] | None = None) -> None:
        """Have brokers, else all, tell clients how these partitions are, and who is alive."""
        self._viewers.update(self._state.members if viewers is None else viewers)
        self._shown.update(dict.fromkeys(places))

    def stop(self, brokers: Iterable[int], place: Place, *, delete: bool) -> None:
        """Have brokers drop a partition, and `delete` its log."""
        state = self._state.partition(place)
        deleting = self._state.is_deleting(place[0])
        epoch = NO_LEADER if state is None else state.leader_epoch
        for broker_id in brokers:
            if broker_id in self._state.members:
                self._stopped.setdefault(broker_id, {})[place] = StopReplicaPartitionState(
                    place[1], EPOCH_DURING_DELETE if deleting else epoch, delete
                )

    def requests(self) -> list[ToBroker]:
        return [*self._leader_and_isr(), *self._update_metadata(), *self._stop_replica()]

    # -- the requests

    def _leader_and_isr(self) -> Iterator[ToBroker]:
        state, image = self._state, self._state.image
        made: dict[tuple[Place, bool], LeaderAndIsrPartitionState] = {}

        def partition_state(place: Place, new: bool) -> LeaderAndIsrPartitionState:
            found = made.get((place, new))
            if found is None:
                known = image.topics[place[0]].partitions[place[1]]
                found = made[place, new] = _leader_and_isr_state(place[1], known, new)
            return found

        for broker_id, led in sorted(self._led.items()):
            topics = [
                LeaderAndIsrTopicState(
                    topic.name, topic.id, [partition_state(each, led[each]) for each in places]
                )
                for topic, places in _by_topic(state, led)
            ]
            leaders = {each.leader for topic in topics for each in topic.partition_states}
            yield ToBroker(
                broker_id,
                state.members[broker_id],
                LeaderAndIsrRequest(
                    controller_id=state.settings.node_id,
                    controller_epoch=image.controller_epoch,
                    broker_epoch=state.members[broker_id],
                    topic_states=topics,
                    live_leaders=list(_leaders(state, leaders)),
                ),
            )

    def _update_metadata(self) -> Iterator[ToBroker]:
        state = self._state
        viewers = sorted(self._viewers & state.members.keys())
        if not viewers:
            return
        topics = []
        for topic, places in _by_topic(state, self._shown):
            shown = [
                _shown_state(state, place, topic.partitions[place[1]])
                for place in places
                if not is_new(topic.partitions[place[1]])
            ]
            if shown:
                topics.append(UpdateMetadataTopicState(topic.name, topic.id, shown))
        brokers = list(_live_brokers(state))
        for broker_id in viewers:
            yield ToBroker(
                broker_id,
                state.members[broker_id],
                UpdateMetadataRequest(
                    controller_id=state.settings.node_id,
                    controller_epoch=state.image.controller_epoch,
                    broker_epoch=state.members[broker_id],
                    topic_states=topics,
                    live_brokers=brokers,
                ),
            )

    def _stop_replica(self) -> Iterator[ToBroker]:
        state = self._state
        for broker_id, stopped in sorted(self._stopped.items()):
            topics = [
                StopReplicaTopicState(name, [stopped[place] for place in places])
                for name, places in groupby(sorted(stopped), key=lambda place: place[0])
            ]
            yield ToBroker(
                broker_id,
                state.members[broker_id],
                StopReplicaRequest(
                    controller_id=state.settings.node_id,
                    controller_epoch=state.image.controller_epoch,
                    broker_epoch=state.members[broker_id],
                    topic_states=topics,
                ),
            )


def gathered(state: ControllerState, gather: Callable[[Batch], None]) -> list[ToBroker]:
    """The requests of a batch that `gather` fills."""
    batch = Batch(state)
    gather(batch)
    return batch.requests()


def _by_topic(
    state: ControllerState, places: Iterable[Place]
) -> Iterator[tuple[TopicImage, list[Place]]]:
    """Topics that (still) are there, and of each the places that are."""
    for name, group in groupby(sorted(places), key=lambda place: place[0]):
        topic = state.image.topics.get(name)
        if topic is not None:
            yield topic, [place for place in group if place[1] < len(topic.partitions)]


def _leader_and_isr_state(
    index: int, known: PartitionImage, new: bool
) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=index,
        controller_epoch=known.controller_epoch,
        leader=known.leader,
        leader_epoch=known.leader_epoch,
        isr=list(known.isr),
        partition_epoch=known.partition_epoch,
        replicas=list(known.replicas),
        adding_replicas=list(known.adding),
        removing_replicas=list(known.removing),
        is_new=new,
        leader_recovery_state=int(known.recovering),
    )


def _shown_state(
    state: ControllerState, place: Place, known: PartitionImage
) -> UpdateMetadataPartitionState:
    deleting = state.is_deleting(place[0])
    online = state.online(place)
    return UpdateMetadataPartitionState(
        partition_index=place[1],
        controller_epoch=known.controller_epoch,
        leader=LEADER_DURING_DELETE if deleting else known.leader,
        leader_epoch=0 if deleting else known.leader_epoch,
        isr=list(known.isr),
        zk_version=0 if deleting else known.partition_epoch,
        replicas=list(known.replicas),
        offline_replicas=[each for each in known.replicas if not online(each)],
    )


def _leaders(state: ControllerState, leaders: set[int]) -> Iterator[LeaderAndIsrLiveLeader]:
    listener = state.settings.config.inter_broker_listener
    for broker_id in sorted(leaders & state.members.keys()):
        broker = state.image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(listener)
        if endpoint is not None:
            yield LeaderAndIsrLiveLeader(broker_id, endpoint.host, endpoint.port)


def _live_brokers(state: ControllerState) -> Iterator[UpdateMetadataBroker]:
    for broker_id in sorted(state.members):
        broker = state.image.brokers.get(broker_id)
        if broker is not None:
            endpoints = [
                UpdateMetadataEndpoint(
                    each.port,
                    each.host,
                    each.listener,
                    SECURITY_PROTOCOLS[each.security_protocol],
                )
                for each in broker.endpoints
            ]
            yield UpdateMetadataBroker(broker_id, endpoints=endpoints, rack=broker.rack)
