"""What single records say of a partition, a broker, a controller or a quota (pure)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kwire.cluster.metadata.entities import Entity
from kwire.cluster.metadata.image import (
    NO_LEADER,
    SECURITY_PROTOCOLS,
    BrokerImage,
    ControllerImage,
    Endpoint,
    KraftPartitionImage,
)
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.stores.kraft.records import BadMetadata
from kwire.codecs.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.codecs.messages.partition_change_record import PartitionChangeRecord
from kwire.codecs.messages.partition_record import PartitionRecord
from kwire.codecs.messages.register_broker_record import RegisterBrokerRecord
from kwire.codecs.messages.register_controller_record import RegisterControllerRecord
from kwire.security.quotas.kinds import java_double, text_of

NO_PARTITION: Final = KraftPartitionImage(NO_LEADER, -1, -1, (), ())
"""Stands for a partition whose record has not come yet, although that of a later one has."""

_NO_LEADER_CHANGE = -2
_NO_RECOVERY_CHANGE = -1
_NO_CHANGE, _IN_SHUTDOWN = 0, 1
_RECOVERING = 1


def registered_partition(record: PartitionRecord) -> KraftPartitionImage:
    """Return the state of a new partition: PartitionRecord has all of it."""
    return KraftPartitionImage(
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        tuple(record.replicas),
        tuple(record.isr),
        adding=tuple(record.adding_replicas),
        removing=tuple(record.removing_replicas),
        recovering=record.leader_recovery_state == _RECOVERING,
        directories=_directories(record.directories, len(record.replicas)),
        eligible=tuple(record.eligible_leader_replicas or ()),
        last_eligible=tuple(record.last_known_elr or ()),
    )


def changed_partition(
    before: KraftPartitionImage, record: PartitionChangeRecord
) -> KraftPartitionImage:
    """Return the state after PartitionChangeRecord, whose absent fields change nothing.

    Each record with a leader adds 1 to the leader epoch, and every record adds 1 to the partition
    epoch: the epochs are counted, not in the record.
    """
    has_leader = record.leader != _NO_LEADER_CHANGE
    replicas = before.replicas if record.replicas is None else tuple(record.replicas)
    directories = record.directories if record.directories is not None else before.directories
    recovering = before.recovering
    if record.leader_recovery_state != _NO_RECOVERY_CHANGE:
        recovering = record.leader_recovery_state == _RECOVERING
    return KraftPartitionImage(
        record.leader if has_leader else before.leader,
        before.leader_epoch + has_leader,
        before.partition_epoch + 1,
        replicas,
        _or(record.isr, before.isr),
        adding=_or(record.adding_replicas, before.adding),
        removing=_or(record.removing_replicas, before.removing),
        recovering=recovering,
        directories=_directories(directories, len(replicas)),
        eligible=_or(record.eligible_leader_replicas, before.eligible),
        last_eligible=_or(record.last_known_elr, before.last_eligible),
    )


def without_eligible(before: KraftPartitionImage) -> KraftPartitionImage:
    """Return the state after ClearElrRecord, which counts as a change if there was an ELR."""
    if not (before.eligible or before.last_eligible):
        return before
    epoch = before.partition_epoch + 1
    return replace(before, partition_epoch=epoch, eligible=(), last_eligible=())


def _or(given: list[int] | None, before: tuple[int, ...]) -> tuple[int, ...]:
    return before if given is None else tuple(given)


def _directories(given: list[bytes] | tuple[bytes, ...], replicas: int) -> tuple[bytes, ...]:
    """Return the directories of the replicas; empty if the records did not have them yet."""
    return tuple(given) if len(given) == replicas else ()


def registered_broker(record: RegisterBrokerRecord) -> BrokerImage:
    """Return the broker as it registered."""
    return BrokerImage(
        record.broker_id,
        tuple(
            _endpoint(each.name, each.host, each.port, each.security_protocol)
            for each in record.end_points
        ),
        record.rack,
        record.broker_epoch,
        {
            each.name: (each.min_supported_version, each.max_supported_version)
            for each in record.features
        },
        is_leaving=record.in_controlled_shutdown,
        incarnation=record.incarnation_id,
        directories=tuple(record.log_dirs),
        cordoned_directories=_or_none(record.cordoned_log_dirs),
    )


def _or_none(directories: list[bytes] | None) -> tuple[bytes, ...] | None:
    return None if directories is None else tuple(directories)


def changed_broker(before: BrokerImage, record: BrokerRegistrationChangeRecord) -> BrokerImage:
    """Return the broker after a change; its fencing is not part of it.

    Nothing ends a controlled shutdown but a new registration.
    """
    if record.in_controlled_shutdown not in (_NO_CHANGE, _IN_SHUTDOWN):
        raise BadMetadata(
            f"broker {before.id} has the unknown state {record.in_controlled_shutdown} of a"
            " controlled shutdown"
        )
    cordoned = record.cordoned_log_dirs
    return replace(
        before,
        is_leaving=before.is_leaving or record.in_controlled_shutdown == _IN_SHUTDOWN,
        directories=tuple(record.log_dirs) or before.directories,
        cordoned_directories=before.cordoned_directories if cordoned is None else tuple(cordoned),
    )


def controller_of(record: RegisterControllerRecord) -> ControllerImage:
    """Return the controller as it registered."""
    return ControllerImage(
        record.controller_id,
        record.incarnation_id,
        tuple(
            _endpoint(each.name, each.host, each.port, each.security_protocol)
            for each in record.end_points
        ),
        {
            each.name: (each.min_supported_version, each.max_supported_version)
            for each in record.features
        },
    )


def _endpoint(name: str, host: str, port: int, protocol: int) -> Endpoint:
    if not 0 <= protocol < len(SECURITY_PROTOCOLS):
        raise BadMetadata(f"listener {name} has the unknown security protocol {protocol}")
    return Endpoint(name, host, port, SECURITY_PROTOCOLS[protocol])


def quota_text(entity: Entity, quota: str, value: float) -> str:
    """Return the config value of a quota, from which `float` makes the same value again."""
    try:
        text = text_of(entity, quota, value)
    except Refusal:  # a value that only Apache Kafka accepts
        return java_double(value)
    return text if float(text) == value else java_double(value)
