"""Dead letters: records that a share group gives up and writes to its dead-letter topic (KIP-1191).

Each record in the dead-letter topic has headers that name the source record.  Its key and value are
null, or those of the source record if the group's `errors.deadletterqueue.copy.record.enable` is
set.  The headers of the source record are never copied.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from kwire.codecs.batches import Record
from kwire.codecs.varint import varint

MESSAGE_HEADER = "__dlq.errors.message"
_TOPIC, _PARTITION, _OFFSET, _GROUP, _COUNT = (
    f"__dlq.errors.{name}" for name in ("topic", "partition", "offset", "group", "delivery.count")
)

Header = tuple[str, bytes | None]


class Cause(Enum):
    """Why a group gives a record up; the values are the texts of the message header."""

    REJECTED = "Offset rejected by client."
    EXHAUSTED = "Offset delivery count exceeded the threshold."


class DeadLetters(NamedTuple):
    """The records with offsets `first` to `last` of one share partition, delivered equally often.

    An offset without a record, for example of a compacted topic, gets a dead letter too.
    """

    first: int
    last: int
    delivery_count: int
    cause: Cause


class LetterSource(NamedTuple):
    """The share partition that dead letters come from; `topic` is a name."""

    topic: str
    partition: int
    group_id: str

    def headers(self, offset: int, delivery_count: int, cause: Cause) -> list[Header]:
        """Return the headers of one dead letter, in Apache Kafka's order."""
        return [
            (_TOPIC, self.topic.encode()),
            (_PARTITION, b"%d" % self.partition),
            (_OFFSET, b"%d" % offset),
            (_GROUP, self.group_id.encode()),
            (_COUNT, b"%d" % delivery_count),
            (MESSAGE_HEADER, cause.value.encode()),
        ]

    @property
    def mark(self) -> bytes:
        """Bytes that each dead letter of this topic has, unless its batch is compressed.

        They are the header with the topic's name, as a record stores it.  Few other records have
        them, so a search decodes few batches in vain.
        """
        topic = self.topic.encode()
        return _TOPIC.encode() + varint(len(topic)) + topic


def resumed(first: int, last: int, delivery_count: int, max_deliveries: int) -> DeadLetters:
    """Return the dead letters that an earlier leader has begun to write.

    The share state does not have their cause.  As on Apache Kafka it follows from the delivery
    count, so that a record rejected at its last delivery counts as exhausted.
    """
    cause = Cause.EXHAUSTED if delivery_count >= max_deliveries else Cause.REJECTED
    return DeadLetters(first, last, delivery_count, cause)


class LetterOrigin(NamedTuple):
    """The source record of a dead letter.

    The message header is no part of it, because it may differ: see `resumed`.
    """

    source: LetterSource
    offset: int
    delivery_count: int


def origin_of(record: Record) -> LetterOrigin | None:
    """Return the origin that a record's headers name; None if it is no dead letter."""
    values = [value for _, value in record.headers]
    try:
        topic, partition, offset, group_id, count = [
            (value or b"").decode() for value in values[:5]
        ]
        origin = LetterOrigin(
            LetterSource(topic, int(partition), group_id), int(offset), int(count)
        )
    except ValueError:  # Too few headers, not a number, or not UTF-8.
        return None
    expected = origin.source.headers(origin.offset, origin.delivery_count, Cause.REJECTED)
    return origin if list(record.headers[:5]) == expected[:5] else None


class DeadLetterTopicState(NamedTuple):
    """What the metadata says about a dead-letter topic and the settings for all of them."""

    exists: bool
    is_enabled: bool
    """`errors.deadletterqueue.group.enable` of the topic."""
    prefix: str
    """`errors.deadletterqueue.topic.name.prefix` of the broker."""
    may_create: bool
    """`errors.deadletterqueue.auto.create.topics.enable` of the broker."""


def refusal(group_id: str, topic: str, state: DeadLetterTopicState) -> str | None:
    """Return why nothing may be written to the dead-letter topic of a group, or None.

    The sentences and their order are Apache Kafka's.
    """
    if not topic:
        return f"Configured DLQ topic name in share group: {group_id} is empty."
    if topic.startswith("__"):
        return (
            f"Configured DLQ topic name in share group: {group_id} cannot start with __, "
            f"topic: {topic}."
        )
    if state.exists and not state.is_enabled:
        return (
            f"DLQ is not enabled on configured DLQ topic for share group: {group_id}, "
            f"topic: {topic}."
        )
    if not state.exists and not state.may_create:
        return (
            "DLQ topic does not exist and auto create is disabled on cluster for share group: "
            f"{group_id}, topic: {topic}."
        )
    if not topic.startswith(state.prefix):
        return (
            "Configured DLQ topic name does not comply with the DLQ topic prefix in share group: "
            f"{group_id}, topic: {topic}, prefix: {state.prefix}."
        )
    return None
