"""The records of a consumer group (KIP-848).  Each value is written as version 0.

type  key            value
----  -------------  -------------------------------------------------------------------------
3     group          the group's epoch, and a hash of the topics that it is subscribed to
4     group          the topics themselves: Apache Kafka wrote it before 4.1; later ones delete it
5     group, member  what a member has said of itself
6     group          the epoch that the target assignment was computed for, and when
7     group, member  the partitions that a member is to have
8     group, member  those that it has now and must give up, its epoch and state
16    group, pattern  the topics that a regular expression was found to match
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

from kwire.codecs.messages.coordinator.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kwire.codecs.messages.coordinator.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from kwire.codecs.messages.coordinator.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from kwire.codecs.messages.coordinator.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from kwire.codecs.messages.coordinator.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from kwire.codecs.messages.coordinator.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from kwire.codecs.messages.coordinator.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kwire.codecs.primitives import Message
from kwire.groups.record_format import VALUE_PREFIX, VERSION, version_of

KEY_VERSION = 0
VALUE_VERSION = 0

K = TypeVar("K", bound=Message)
V = TypeVar("V", bound=Message)


@dataclass(slots=True)
class ConsumerRecord(Generic[K, V]):
    """Any of them; no value: what the key names is deleted."""

    key: K
    value: V | None

    TYPE: ClassVar[int]
    KEY: ClassVar[type[Message]]
    VALUE: ClassVar[type[Message]]

    def encode(self) -> tuple[bytes, bytes | None]:
        key = VERSION.pack(self.TYPE) + self.key.encode(KEY_VERSION)
        if self.value is None:
            return key, None
        return key, VALUE_PREFIX[VALUE_VERSION] + self.value.encode(VALUE_VERSION)

    @classmethod
    def decode(cls, key: bytes, value: bytes | None) -> Self:
        """Raises DecodeError, UnreadableRecord."""
        return cls(
            cls.KEY.decode(key, KEY_VERSION, VERSION.size),  # type: ignore[arg-type] # its own kind
            None
            if value is None
            else cls.VALUE.decode(value, version_of(value, cls.VALUE), VERSION.size),  # type: ignore[arg-type] # likewise
        )


class Epoch(ConsumerRecord[ConsumerGroupMetadataKey, ConsumerGroupMetadataValue]):
    TYPE = 3
    KEY = ConsumerGroupMetadataKey
    VALUE = ConsumerGroupMetadataValue


class PartitionMetadata(
    ConsumerRecord[ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue]
):
    TYPE = 4
    KEY = ConsumerGroupPartitionMetadataKey
    VALUE = ConsumerGroupPartitionMetadataValue


class MemberMetadata(
    ConsumerRecord[ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue]
):
    TYPE = 5
    KEY = ConsumerGroupMemberMetadataKey
    VALUE = ConsumerGroupMemberMetadataValue


class TargetEpoch(
    ConsumerRecord[
        ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue
    ]
):
    TYPE = 6
    KEY = ConsumerGroupTargetAssignmentMetadataKey
    VALUE = ConsumerGroupTargetAssignmentMetadataValue


class TargetAssignment(
    ConsumerRecord[ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue]
):
    TYPE = 7
    KEY = ConsumerGroupTargetAssignmentMemberKey
    VALUE = ConsumerGroupTargetAssignmentMemberValue


class CurrentAssignment(
    ConsumerRecord[
        ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue
    ]
):
    TYPE = 8
    KEY = ConsumerGroupCurrentMemberAssignmentKey
    VALUE = ConsumerGroupCurrentMemberAssignmentValue


class RegularExpression(
    ConsumerRecord[ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue]
):
    TYPE = 16
    KEY = ConsumerGroupRegularExpressionKey
    VALUE = ConsumerGroupRegularExpressionValue


RECORDS: tuple[type[ConsumerRecord[Any, Any]], ...] = (
    Epoch,
    PartitionMetadata,
    MemberMetadata,
    TargetEpoch,
    TargetAssignment,
    CurrentAssignment,
    RegularExpression,
)
