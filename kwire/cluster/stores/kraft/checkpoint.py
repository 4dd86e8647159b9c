"""An image as the batches of a snapshot, as Apache Kafka writes them (pure).

The records are in the order of Kafka's MetadataImage.write, in the versions of the image's
`metadata.version`.  Offsets count from 0.  The first batch has the quorum's control records, the
last one is the footer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kwire.cluster.metadata.credentials import MECHANISM_NUMBERS
from kwire.cluster.metadata.entities import ENTITY_RESOURCE, USER, entity_of
from kwire.cluster.metadata.features import KRAFT_VERSION, METADATA_VERSION
from kwire.cluster.metadata.image import (
    MIGRATING,
    SECURITY_PROTOCOL_NUMBERS,
    BrokerImage,
    ClusterImage,
    ControllerImage,
    PartitionImage,
)
from kwire.cluster.stores.kraft import records
from kwire.cluster.stores.kraft.draft import AclIds
from kwire.cluster.stores.kraft.replaying import MetadataReplay
from kwire.cluster.stores.kraft.user_records import credential_record, token_record
from kwire.codecs.batches import Record, build
from kwire.codecs.messages import register_broker_record, register_controller_record
from kwire.codecs.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.codecs.messages.client_quota_record import ClientQuotaRecord, EntityData
from kwire.codecs.messages.config_record import ConfigRecord
from kwire.codecs.messages.feature_level_record import FeatureLevelRecord
from kwire.codecs.messages.kraft_version_record import KRaftVersionRecord
from kwire.codecs.messages.partition_record import PartitionRecord
from kwire.codecs.messages.producer_ids_record import ProducerIdsRecord
from kwire.codecs.messages.register_broker_record import RegisterBrokerRecord
from kwire.codecs.messages.register_controller_record import RegisterControllerRecord
from kwire.codecs.messages.snapshot_footer_record import SnapshotFooterRecord
from kwire.codecs.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.codecs.messages.topic_record import TopicRecord
from kwire.codecs.messages.voters_record import VotersRecord
from kwire.codecs.primitives import Message

Versioned = tuple[Message, int]
"""A record and the version in which it is written."""

DIRECTORIES_SINCE: Final = 17
"""3.7-IV2: partitions and brokers name log directories."""
ELIGIBLE_SINCE: Final = 23
"""4.0-IV1: partitions name their eligible leader replicas."""
CORDONED_SINCE: Final = 30
"""4.3-IV0: brokers name their cordoned log directories."""

_BATCH_BYTES: Final = 512 * 1024


def snapshot_of(replay: MetadataReplay, now_ms: int) -> Iterator[bytes]:
    """Yield the batches of a snapshot of everything before the image's version."""
    return batches_of(SnapshotState.of(replay), now_ms)


@dataclass(frozen=True, slots=True)
class SnapshotState:
    """What a snapshot is made of.

    `voters` is None with static voters.  `epoch` is that of the last record before the snapshot's
    end, and `time_ms` is its time in ms since the epoch.
    """

    image: ClusterImage
    acl_ids: AclIds
    voters: VotersRecord | None
    epoch: int
    time_ms: int

    @classmethod
    def of(cls, replay: MetadataReplay) -> SnapshotState:
        """Return the state of a replay.  Later batches do not change it."""
        return cls(replay.image, replay.acl_ids, replay.voters, replay.epoch, replay.time_ms)


def batches_of(state: SnapshotState, now_ms: int) -> Iterator[bytes]:
    """Yield the batches of a snapshot; `now_ms` is the time of its records."""
    control: list[tuple[bytes, bytes]] = [
        records.encode_control(
            records.SNAPSHOT_HEADER, SnapshotHeaderRecord(0, max(state.time_ms, 0)), 0
        )
    ]
    level = state.image.features.level(KRAFT_VERSION)
    if level:
        message: Message = KRaftVersionRecord(0, level)
        control.append(records.encode_control(records.KRAFT_VERSION, message, 0))
    if state.voters is not None:
        control.append(records.encode_control(records.VOTERS, state.voters, 0))
    batches = _Batches(state.epoch, now_ms)
    yield batches.control(control)
    waiting: list[bytes] = []
    size_bytes = 0
    for record, version in records_of(state.image, state.acl_ids):
        value = records.encode(record, version)
        waiting.append(value)
        size_bytes += len(value)
        if size_bytes >= _BATCH_BYTES:
            yield batches.metadata(waiting)
            waiting, size_bytes = [], 0
    if waiting:
        yield batches.metadata(waiting)
    footer = records.encode_control(records.SNAPSHOT_FOOTER, SnapshotFooterRecord(0), 0)
    yield batches.control([footer])


class _Batches:
    """Makes batches of one epoch with consecutive offsets from 0 on."""

    def __init__(self, epoch: int, now_ms: int) -> None:
        self._epoch = epoch
        self._now_ms = now_ms
        self._offset = 0

    def control(self, entries: list[tuple[bytes, bytes]]) -> bytes:
        """Return a control batch of these keys and values."""
        return self._built([Record(0, self._now_ms, key, value) for key, value in entries], True)

    def metadata(self, values: list[bytes]) -> bytes:
        """Return a batch of these values."""
        return self._built([Record(0, self._now_ms, None, value) for value in values], False)

    def _built(self, entries: list[Record], control: bool) -> bytes:
        base_offset, self._offset = self._offset, self._offset + len(entries)
        return bytes(
            build(
                entries,
                base_offset=base_offset,
                partition_leader_epoch=self._epoch,
                control=control,
            )
        )


def records_of(image: ClusterImage, acl_ids: AclIds) -> Iterator[Versioned]:
    """Yield the records that make this image, and their versions."""
    levels = {
        name: each
        for name, each in image.features.in_force.items()
        if name != KRAFT_VERSION  # is in a control record
    }
    # The first record is metadata.version: the versions of the others follow from it.
    for name in sorted(levels, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name, levels[name]), 0
    level = levels.get(METADATA_VERSION, 0)
    yield from _of_nodes(image, level)
    for _, topic in sorted(image.topics.items()):
        yield TopicRecord(topic.name, topic.id), 0
        for index, state in enumerate(topic.partitions):
            if state.replicas:
                yield _partition(topic.id, index, state, level)
    yield from _of_configs(image)
    if image.next_producer_id:
        yield ProducerIdsRecord(-1, -1, image.next_producer_id), 0
    for acl_id, (pattern, entry) in sorted(acl_ids.items()):
        yield (
            AccessControlEntryRecord(
                acl_id,
                pattern.resource_type,
                pattern.name,
                pattern.pattern_type,
                entry.principal,
                entry.host,
                entry.operation,
                entry.permission,
            ),
            0,
        )
    yield from _of_users(image)


def _of_nodes(image: ClusterImage, level: int) -> Iterator[Versioned]:
    for broker_id, broker in sorted(image.registered.items()):
        yield _broker(broker, broker_id not in image.brokers, level)
    for _, controller in sorted(image.controllers.items()):
        yield _controller(controller), 0


def _broker(broker: BrokerImage, is_fenced: bool, level: int) -> Versioned:
    """Return a broker's registration.

    Apache Kafka writes version 1 below level 8 (3.4-IV0), at which no broker of kwire can join.
    """
    record = RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation,
        broker_epoch=broker.epoch,
        end_points=[
            register_broker_record.BrokerEndpoint(
                each.listener,
                each.host,
                each.port,
                SECURITY_PROTOCOL_NUMBERS[each.security_protocol],
            )
            for each in broker.endpoints
        ],
        features=[
            register_broker_record.BrokerFeature(name, low, high)
            for name, (low, high) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=is_fenced,
        in_controlled_shutdown=broker.is_leaving,
    )
    if level < DIRECTORIES_SINCE:
        return record, 2
    record.log_dirs = list(broker.directories)
    if level < CORDONED_SINCE:
        return record, 3
    if broker.cordoned_directories is not None:
        record.cordoned_log_dirs = list(broker.cordoned_directories)
    return record, 4


def _controller(controller: ControllerImage) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller.id,
        controller.incarnation,
        False,
        [
            register_controller_record.ControllerEndpoint(
                each.listener,
                each.host,
                each.port,
                SECURITY_PROTOCOL_NUMBERS[each.security_protocol],
            )
            for each in controller.endpoints
        ],
        [
            register_controller_record.ControllerFeature(name, low, high)
            for name, (low, high) in controller.features.items()
        ],
    )


def _partition(topic_id: bytes, index: int, state: PartitionImage, level: int) -> Versioned:
    record = PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(state.replicas),
        isr=list(state.isr),
        removing_replicas=list(state.removing),
        adding_replicas=list(state.adding),
        leader=state.leader,
        leader_recovery_state=int(state.recovering),
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
    )
    if level < DIRECTORIES_SINCE:
        return record, 0
    record.directories = list(state.directories) or [MIGRATING] * len(state.replicas)
    if level < ELIGIBLE_SINCE:
        return record, 1
    record.eligible_leader_replicas = list(state.eligible) or None
    record.last_known_elr = list(state.last_eligible) or None
    return record, 2


def _of_configs(image: ClusterImage) -> Iterator[Versioned]:
    """Yield the configs of resources, then the quotas."""
    quotas: list[ClientQuotaRecord] = []
    for (resource, name), configs in sorted(image.configs.items()):
        if resource != ENTITY_RESOURCE:
            for config, value in sorted(configs.items()):
                yield ConfigRecord(resource, name, config, value), 0
            continue
        entity = entity_of((resource, name)) or {}
        parts = [EntityData(kind, each) for kind, each in sorted(entity.items())]
        quotas += [
            ClientQuotaRecord(parts, quota, float(text), False)
            for quota, text in sorted(configs.items())
            if quota not in MECHANISM_NUMBERS
        ]
    yield from ((quota, 0) for quota in quotas)


def _of_users(image: ClusterImage) -> Iterator[Versioned]:
    """Yield the SCRAM credentials, then the delegation tokens."""
    for key, configs in sorted(image.configs.items()):
        user = (entity_of(key) or {}).get(USER)
        if user is not None:
            for mechanism in MECHANISM_NUMBERS:
                if mechanism in configs:
                    yield credential_record(user, mechanism, configs[mechanism]), 0
    for _, token in sorted(image.tokens.items()):
        yield token_record(token), 0
