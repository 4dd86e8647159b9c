"""The metadata with which controllers begin, made of those that kwire kept itself (pure).

Topics keep their ids, configs and epochs.  Partitions are as Apache Kafka has them after a stop of
all brokers.  None has a leader: each gets one, in the next leader epoch, as soon as the broker of a
replica that was in sync is unfenced.  With eligible leader replicas (KIP-966) no replica is in sync
until then.  Those that were are eligible, and the leader is the last known one, which is elected
even after a kill.

The brokers are registered and fenced.  A broker that stopped cleanly names the epoch of this
registration when it starts, and so stays eligible; one that was killed does not.

The features keep their levels.  kraft.version is 1, so that more controllers can join later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from kwire.cluster.metadata.features import (
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED,
    FinalizedFeatures,
)
from kwire.cluster.metadata.image import (
    FIRST_PRODUCER_ID,
    NO_LEADER,
    UNASSIGNED,
    BrokerImage,
    ClusterImage,
    KraftPartitionImage,
    PartitionImage,
    TopicImage,
)
from kwire.cluster.stores.kraft.checkpoint import SnapshotState
from kwire.cluster.stores.kraft.draft import AclIds
from kwire.cluster.stores.kraft.lifecycle import FEATURES
from kwire.cluster.stores.kraft.observing import SnapshotId
from kwire.cluster.stores.kraft.records import OLDEST_LEVEL
from kwire.codecs.messages.voters_record import (
    Endpoint,
    KRaftVersionFeature,
    Voter,
    VotersRecord,
)

NAMED_MAX: Final = 3
"""The most partitions that a refusal names; the others are only counted."""


class NotAdoptable(Exception):
    """The metadata cannot be given to controllers; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class AdoptedBroker:
    """A broker whose log directories go to the cluster.

    `directories` has their ids, and `places` the one that each partition is in.
    """

    id: int
    directories: tuple[bytes, ...]
    places: Mapping[tuple[str, int], bytes]
    was_clean: bool
    """Whether the broker stopped cleanly."""

    def directory_of(self, topic: str, index: int) -> bytes:
        """The directory of a partition; UNASSIGNED if it is in none and there are several."""
        default = self.directories[0] if len(self.directories) == 1 else UNASSIGNED
        return self.places.get((topic, index), default)


@dataclass(frozen=True, slots=True)
class FirstController:
    """A controller of the new quorum, its address, and the id of its log directory."""

    id: int
    host: str
    port: int
    directory: bytes


@dataclass(frozen=True, slots=True)
class Adopted:
    """The snapshot with which each controller begins, and the epochs of the brokers in it."""

    snapshot: SnapshotId
    state: SnapshotState
    broker_epochs: Mapping[int, int]

    @property
    def topics(self) -> int:
        return len(self.state.image.topics)


def adopted(
    image: ClusterImage,
    offset: int,
    brokers: Sequence[AdoptedBroker],
    controllers: Sequence[FirstController],
    *,
    new_id: Callable[[], bytes],
    now_ms: int,
) -> Adopted:
    """Return what the controllers of `image` begin with.

    `offset` counts the commits to the image so far: numbers that clients compare do not go back.
    The snapshot is later than every record of a metadata log that ends there, in an epoch after
    the image's.  Raises NotAdoptable.
    """
    _check(image, brokers, controllers)
    first_epoch = max(offset, image.version, image.features.epoch) + 1
    epochs = {broker.id: epoch for epoch, broker in enumerate(brokers, first_epoch)}
    snapshot = SnapshotId(first_epoch + len(brokers), image.controller_epoch + 1)
    by_id = {broker.id: broker for broker in brokers}
    has_elr = bool(image.features.level(ELR_VERSION))
    topics = [_topic(topic, by_id, has_elr=has_elr) for topic in _kept(image)]
    image = image.without_topics(image.deleting).with_topics(topics)
    levels = {**image.features.in_force, KRAFT_VERSION: 1}
    registered = {
        broker.id: _registered(image, broker, epochs[broker.id], new_id()) for broker in brokers
    }
    image = replace(
        image,
        brokers=MappingProxyType({}),
        registered=MappingProxyType(registered),
        controllers=MappingProxyType({}),
        features=FinalizedFeatures({}, levels, snapshot.end_offset),
        # Apache Kafka may have served a log before, and its producer ids count from 0.
        next_producer_id=max(image.next_producer_id, FIRST_PRODUCER_ID),
        version=snapshot.end_offset,
    )
    rules = [(pattern, entry) for pattern in sorted(image.acls) for entry in image.acls[pattern]]
    acl_ids = AclIds((new_id(), rule) for rule in rules)
    state = SnapshotState(image, acl_ids, _voters(controllers), snapshot.epoch, now_ms)
    return Adopted(snapshot, state, epochs)


def _kept(image: ClusterImage) -> Iterator[TopicImage]:
    """Yield the topics without those that are being deleted."""
    return (topic for topic in image.topics.values() if topic.name not in image.deleting)


def _topic(topic: TopicImage, brokers: Mapping[int, AdoptedBroker], *, has_elr: bool) -> TopicImage:
    """Return the topic as it is after a stop, with the directories of its replicas."""
    partitions = (
        _stopped(_placed(topic.name, index, state, brokers), has_elr=has_elr)
        for index, state in enumerate(topic.partitions)
    )
    return TopicImage(topic.name, topic.id, tuple(partitions))


def _placed(
    topic: str, index: int, state: PartitionImage, brokers: Mapping[int, AdoptedBroker]
) -> KraftPartitionImage:
    """Return the state with the directories of the replicas."""
    directories = (
        brokers[replica].directory_of(topic, index) if replica in brokers else UNASSIGNED
        for replica in state.replicas
    )
    return KraftPartitionImage(
        state.leader,
        state.leader_epoch,
        state.partition_epoch,
        state.replicas,
        state.isr,
        adding=state.adding,
        removing=state.removing,
        recovering=state.recovering,
        directories=tuple(directories),
        eligible=state.eligible,
        last_eligible=state.last_eligible,
    )


def _stopped(state: KraftPartitionImage, *, has_elr: bool) -> KraftPartitionImage:
    """Return the state after a stop of all brokers."""
    if not (has_elr and state.isr):
        return replace(state, leader=NO_LEADER)
    last = state.leader if state.leader in state.isr else state.isr[0]
    eligible = tuple(dict.fromkeys((*state.isr, *state.eligible)))
    return replace(state, leader=NO_LEADER, isr=(), eligible=eligible, last_eligible=(last,))


def _registered(
    image: ClusterImage, broker: AdoptedBroker, epoch: int, incarnation: bytes
) -> BrokerImage:
    """Return the registration of a broker that runs no longer."""
    known = image.brokers.get(broker.id) or image.registered.get(broker.id)
    return BrokerImage(
        broker.id,
        () if known is None else known.endpoints,
        None if known is None else known.rack,
        epoch,
        FEATURES,
        incarnation=incarnation,
        directories=broker.directories,
    )


def _voters(controllers: Sequence[FirstController]) -> VotersRecord:
    return VotersRecord(
        0,
        [
            Voter(
                each.id,
                each.directory,
                [Endpoint(LISTENER, each.host, each.port)],
                KRaftVersionFeature(*SUPPORTED[KRAFT_VERSION]),
            )
            for each in controllers
        ],
    )


LISTENER: Final = "CONTROLLER"
"""The name of the controllers' listener: the first of `controller.listener.names`."""


# -- refusals


def _check(
    image: ClusterImage, brokers: Sequence[AdoptedBroker], controllers: Sequence[FirstController]
) -> None:
    """Raise NotAdoptable if controllers or brokers could not work with these metadata."""
    level = image.features.level(METADATA_VERSION)
    if level < OLDEST_LEVEL:
        raise NotAdoptable(
            f"the metadata are at metadata.version {level}, and KRaft controllers need"
            f" {OLDEST_LEVEL} (3.9-IV0) or later here: serve the folder, and raise it with"
            " kafka-features.sh upgrade --release-version 3.9"
        )
    ids = [each.id for each in controllers]
    if len({*ids}) < len(ids):
        raise NotAdoptable(f"two controllers have the same id: {ids}")
    if both := sorted({broker.id for broker in brokers}.intersection(ids)):
        raise NotAdoptable(
            f"{both[0]} is the id of a broker: a controller needs an id of its own, such as 100"
        )
    _check_logs(image, brokers)


def _check_logs(image: ClusterImage, brokers: Sequence[AdoptedBroker]) -> None:
    """Raise NotAdoptable if the directories lack logs."""
    by_id = {broker.id: broker for broker in brokers}
    elsewhere: list[str] = []
    lacking: list[str] = []
    for topic in sorted(_kept(image), key=lambda topic: topic.name):
        for index, state in enumerate(topic.partitions):
            name = f"{topic.name}-{index}"
            complete = {*state.isr, *state.eligible, *state.last_eligible}
            if not by_id.keys() & complete:
                elsewhere.append(name)
            # A kill may come before the folder of a new partition is made.
            here = [by_id[each] for each in complete if each in by_id and by_id[each].was_clean]
            if any((topic.name, index) not in broker.places for broker in here):
                lacking.append(name)
    if elsewhere:
        raise NotAdoptable(
            f"none of the brokers {sorted(by_id)} has an in-sync replica of {_named(elsewhere)}:"
            " name the folder of the whole cluster"
        )
    if lacking:
        raise NotAdoptable(
            f"the directories lack the logs of {_named(lacking)}: name all log.dirs of the broker,"
            " in their order"
        )


def _named(partitions: list[str]) -> str:
    left = len(partitions) - NAMED_MAX
    return ", ".join(partitions[:NAMED_MAX]) + (f" and {left} more" if left > 0 else "")
