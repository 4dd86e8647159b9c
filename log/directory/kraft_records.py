"""The format of record values in `__cluster_metadata-0`.

unsigned varint     frame version, 1
unsigned varint     record type
unsigned varint     version of the record, and the record in that version
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from kwire.codecs.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.codecs.messages.client_quota_record import ClientQuotaRecord
from kwire.codecs.messages.config_record import ConfigRecord
from kwire.codecs.messages.delegation_token_record import DelegationTokenRecord
from kwire.codecs.messages.feature_level_record import FeatureLevelRecord
from kwire.codecs.messages.partition_change_record import PartitionChangeRecord
from kwire.codecs.messages.partition_record import PartitionRecord
from kwire.codecs.messages.producer_ids_record import ProducerIdsRecord
from kwire.codecs.messages.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from kwire.codecs.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.codecs.messages.remove_topic_record import RemoveTopicRecord
from kwire.codecs.messages.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from kwire.codecs.messages.topic_record import TopicRecord
from kwire.codecs.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.codecs.primitives import DecodeError, Message, varint_tail

REGISTER_BROKER = 0
BEGIN, END, ABORT = 23, 24, 25
"""The types of records that begin, end and abort a metadata transaction (KIP-866)."""

_FRAME_VERSION = 1
_KINDS: dict[int, type[Message]] = {
    kind.API_KEY: kind
    for kind in (
        AccessControlEntryRecord,
        ClientQuotaRecord,
        ConfigRecord,
        DelegationTokenRecord,
        FeatureLevelRecord,
        PartitionChangeRecord,
        PartitionRecord,
        ProducerIdsRecord,
        RemoveAccessControlEntryRecord,
        RemoveDelegationTokenRecord,
        RemoveTopicRecord,
        RemoveUserScramCredentialRecord,
        TopicRecord,
        UserScramCredentialRecord,
    )
    if kind.API_KEY is not None
}
_REGISTRATION = Struct(">i16xq").unpack_from
_REGISTRATION_SINCE_V2 = Struct(">i17xq").unpack_from


class Registration(NamedTuple):
    """The fields at the fixed beginning of a RegisterBrokerRecord; the others are not used."""

    broker_id: int
    broker_epoch: int


def decode(value: bytes) -> tuple[int, Message | Registration | None]:
    """Return the type of a record, and the record, or None if its type is not used here.

    Raises DecodeError, IndexError or struct.error.
    """
    frame_version, pos = _unsigned(value, 0)
    if frame_version != _FRAME_VERSION:
        raise DecodeError(f"frame version {frame_version}")
    kind, pos = _unsigned(value, pos)
    version, pos = _unsigned(value, pos)
    if kind == REGISTER_BROKER:
        read = _REGISTRATION if version < 2 else _REGISTRATION_SINCE_V2
        return kind, Registration(*read(value, pos))
    reader = _KINDS.get(kind)
    return kind, None if reader is None else reader.decode(value, version, pos)


def encode(record: Message, version: int) -> bytes:
    """The value of a record, which `decode` reads.  Types and versions below 128 take one byte."""
    assert record.API_KEY is not None, record
    return bytes((_FRAME_VERSION, record.API_KEY, version)) + record.encode(version)


def _unsigned(data: bytes, pos: int) -> tuple[int, int]:
    first = data[pos]
    return (first, pos + 1) if first < 0x80 else varint_tail(data, pos + 1, first)
