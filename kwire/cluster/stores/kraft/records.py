"""The records of `__cluster_metadata`: their types and versions, and batches of them (pure).

The value of a record:

unsigned varint     frame version, 1
unsigned varint     record type
unsigned varint     version of the record, and the record in that version

Its key is null.  The quorum's own records are in control batches.  Their key is
`int16 version | int16 type`, and their value a message that begins with its version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import Final

from kwire.cluster.metadata.features import (
    NEWEST_METADATA_VERSION,
    NEWEST_METADATA_VERSION_NAME,
)
from kwire.codecs.batches import BatchHeader, CorruptBatch, Record, check_crc, iter_batches, records
from kwire.codecs.messages.abort_transaction_record import AbortTransactionRecord
from kwire.codecs.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.codecs.messages.begin_transaction_record import BeginTransactionRecord
from kwire.codecs.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.codecs.messages.clear_elr_record import ClearElrRecord
from kwire.codecs.messages.client_quota_record import ClientQuotaRecord
from kwire.codecs.messages.config_record import ConfigRecord
from kwire.codecs.messages.delegation_token_record import DelegationTokenRecord
from kwire.codecs.messages.end_transaction_record import EndTransactionRecord
from kwire.codecs.messages.feature_level_record import FeatureLevelRecord
from kwire.codecs.messages.fence_broker_record import FenceBrokerRecord
from kwire.codecs.messages.kraft_version_record import KRaftVersionRecord
from kwire.codecs.messages.leader_change_message import LeaderChangeMessage
from kwire.codecs.messages.no_op_record import NoOpRecord
from kwire.codecs.messages.partition_change_record import PartitionChangeRecord
from kwire.codecs.messages.partition_record import PartitionRecord
from kwire.codecs.messages.producer_ids_record import ProducerIdsRecord
from kwire.codecs.messages.register_broker_record import RegisterBrokerRecord
from kwire.codecs.messages.register_controller_record import RegisterControllerRecord
from kwire.codecs.messages.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from kwire.codecs.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.codecs.messages.remove_topic_record import RemoveTopicRecord
from kwire.codecs.messages.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from kwire.codecs.messages.snapshot_footer_record import SnapshotFooterRecord
from kwire.codecs.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.codecs.messages.topic_record import TopicRecord
from kwire.codecs.messages.unfence_broker_record import UnfenceBrokerRecord
from kwire.codecs.messages.unregister_broker_record import UnregisterBrokerRecord
from kwire.codecs.messages.unregister_controller_record import UnregisterControllerRecord
from kwire.codecs.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.codecs.messages.voters_record import VotersRecord
from kwire.codecs.messages.zk_migration_state_record import ZkMigrationStateRecord
from kwire.codecs.primitives import DecodeError, Message, varint_tail

OLDEST_LEVEL: Final = 21
"""3.9-IV0: the oldest `metadata.version` at which brokers of this kind work in a cluster."""

_FRAME_VERSION = 1
_KINDS: Final[dict[int, type[Message]]] = {
    kind.API_KEY: kind
    for kind in (
        AbortTransactionRecord,
        AccessControlEntryRecord,
        BeginTransactionRecord,
        BrokerRegistrationChangeRecord,
        ClearElrRecord,
        ClientQuotaRecord,
        ConfigRecord,
        DelegationTokenRecord,
        EndTransactionRecord,
        FeatureLevelRecord,
        FenceBrokerRecord,
        NoOpRecord,
        PartitionChangeRecord,
        PartitionRecord,
        ProducerIdsRecord,
        RegisterBrokerRecord,
        RegisterControllerRecord,
        RemoveAccessControlEntryRecord,
        RemoveDelegationTokenRecord,
        RemoveTopicRecord,
        RemoveUserScramCredentialRecord,
        TopicRecord,
        UnfenceBrokerRecord,
        UnregisterBrokerRecord,
        UnregisterControllerRecord,
        UserScramCredentialRecord,
        ZkMigrationStateRecord,
    )
    if kind.API_KEY is not None
}
LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, VOTERS = 2, 3, 4, 5, 6
"""The types of control records."""
_CONTROL: Final[dict[int, type[Message]]] = {
    LEADER_CHANGE: LeaderChangeMessage,
    SNAPSHOT_HEADER: SnapshotHeaderRecord,
    SNAPSHOT_FOOTER: SnapshotFooterRecord,
    KRAFT_VERSION: KRaftVersionRecord,
    VOTERS: VotersRecord,
}
_CONTROL_KEY = Struct(">hh")
_VERSION = Struct(">h")


class BadMetadata(Exception):
    """The metadata log has something that this broker cannot follow; the text says what to do."""


class UnknownRecord(BadMetadata):
    """A record of a type or version that this version of kwire does not know."""


@dataclass(frozen=True, slots=True)
class MetadataBatch:
    """A batch of the log: its records count together.

    `records` has the metadata records, or the control records of the quorum.  `time_ms` is the time
    of its newest record, in ms since the epoch.
    """

    base_offset: int
    last_offset: int
    epoch: int
    time_ms: int
    is_control: bool
    records: Sequence[Message]


def decode(value: bytes) -> Message:
    """Return the metadata record in a record's value.  Raises BadMetadata, or UnknownRecord."""
    try:
        frame_version, pos = _unsigned(value, 0)
        kind, pos = _unsigned(value, pos)
        version, pos = _unsigned(value, pos)
    except (IndexError, DecodeError):
        raise BadMetadata(f"a metadata record is cut short: {value[:20].hex()}") from None
    if frame_version != _FRAME_VERSION:
        raise _unknown(f"frame version {frame_version} of a metadata record")
    record_class = _KINDS.get(kind)
    if record_class is None:
        raise _unknown(f"metadata record type {kind}")
    if version not in record_class.READERS:
        raise _unknown(f"version {version} of {record_class.__name__}")
    try:
        return record_class.decode(value, version, pos)
    except DecodeError as error:
        raise BadMetadata(f"a metadata record is damaged: {error}") from error


def encode(record: Message, version: int) -> bytes:
    """Return the value of a record, which `decode` reads.

    Types and versions below 128 take one byte.
    """
    assert record.API_KEY is not None, record
    return bytes((_FRAME_VERSION, record.API_KEY, version)) + record.encode(version)


def decode_control(record: Record) -> Message:
    """Return the message of a control record.  Raises BadMetadata, or UnknownRecord."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size or record.value is None:
        raise BadMetadata("a control record of the metadata log is cut short")
    kind = _CONTROL_KEY.unpack_from(record.key)[1]
    message_class = _CONTROL.get(kind)
    if message_class is None:
        raise _unknown(f"control record type {kind}")
    try:
        (version,) = _VERSION.unpack_from(record.value)
        if version not in message_class.READERS:
            raise _unknown(f"version {version} of {message_class.__name__}")
        return message_class.decode(record.value, version)
    except (DecodeError, StructError) as error:
        raise BadMetadata(f"a control record is damaged: {error}") from error


def encode_control(kind: int, message: Message, version: int) -> tuple[bytes, bytes]:
    """Return key and value of a control record; the message's own version field is `version`."""
    return _CONTROL_KEY.pack(0, kind), message.encode(version)


def decode_batches(data: bytes | bytearray | memoryview) -> Iterator[MetadataBatch]:
    """Yield the complete batches in `data`, each checked and decoded.

    Raises BadMetadata, or UnknownRecord, at the first batch that cannot be followed.
    """
    view = memoryview(data)
    try:
        for position, header in iter_batches(view):
            check_crc(view, position, header)
            yield _batch(header, list(records(view, position)))
    except CorruptBatch as error:
        raise BadMetadata(f"the metadata log is damaged: {error}") from error


def _batch(header: BatchHeader, plain: list[Record]) -> MetadataBatch:
    if header.is_control:
        decoded = [decode_control(record) for record in plain]
    else:
        decoded = [decode(_value(record)) for record in plain]
    return MetadataBatch(
        header.base_offset,
        header.last_offset,
        header.partition_leader_epoch,
        header.max_timestamp,
        header.is_control,
        decoded,
    )


def _value(record: Record) -> bytes:
    if record.value is None:
        raise BadMetadata(f"the metadata record at offset {record.offset} has no value")
    return record.value


def _unknown(what: str) -> UnknownRecord:
    return UnknownRecord(
        f"{what} is not known: this version of kwire knows the records up to metadata.version"
        f" {NEWEST_METADATA_VERSION} ({NEWEST_METADATA_VERSION_NAME}); use a newer kwire, or keep"
        " the cluster at that level"
    )


def _unsigned(data: bytes, pos: int) -> tuple[int, int]:
    first = data[pos]
    return (first, pos + 1) if first < 0x80 else varint_tail(data, pos + 1, first)
