"""Replaces the ids that the recorded broker assigned by those that the new broker assigns.

The mapping is learned from each response and the recorded response to the same request:

    topic ids               by the topic's name
    producer ids, epochs    InitProducerId, EndTxn from version 5 on; the batches of a Produce get
                            a new header and CRC
    member ids              JoinGroup and the heartbeats of KIP-848
    generations, epochs     of a member, with its id
    fetch sessions
    leader epochs           of a partition, from Metadata
    ids of client telemetry

Ids that the trace's broker did not assign during the trace stay as they are, and so do offsets: the
new broker begins with what the recorded broker held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kwire.codecs.batches import HEADER, CorruptBatch, check_crc, iter_batches, seal
from kwire.codecs.primitives import ZERO_UUID, Message, Struct

PLAIN: Final = ("session_id", "client_instance_id", "subscription_id")
"""Fields that have the same name in responses and requests, and need no context."""
MEMBER_EPOCHS: Final = ("generation_id", "member_epoch", "generation_id_or_member_epoch")
LEADER_EPOCHS: Final = (
    "leader_epoch",
    "current_leader_epoch",
    "last_fetched_epoch",
    "committed_leader_epoch",
)
OF_V3: Final = "v3_and_below_"
"""Prefix of the field names of AddPartitionsToTxn up to version 3."""
KEYS: Final = ("name", "topic", "topic_name", "group_id", "partition_index", "partition", "index")
"""Fields that identify an item of a list."""

Known = dict[tuple[Any, ...], Any]


class Ids:
    """The mapping from recorded ids to the new broker's ids."""

    def __init__(self) -> None:
        self._known: Known = {}
        self.recorded_topics: dict[bytes, str] = {}
        """Topic names by the recorded topic ids."""
        self.topics: dict[bytes, str] = {}
        """Topic names by the new broker's topic ids."""

    # -- learning

    def learn(self, recorded: Message, answer: Message) -> None:
        """Learn from the recorded response and the new broker's response to the same request."""
        for name in PLAIN:
            if getattr(recorded, name, 0) and getattr(answer, name, 0):  # a session of 0 is none
                self._learn((name,), recorded, answer, name)
        self._learn(("member",), recorded, answer, "member_id")
        self._learn(("producer",), recorded, answer, "producer_id")
        member = getattr(recorded, "member_id", None)
        for name in MEMBER_EPOCHS:
            self._learn(("generation", member), recorded, answer, name)
        producer = getattr(recorded, "producer_id", None)
        self._learn(("epoch", producer), recorded, answer, "producer_epoch")
        for old, new in _pairs(recorded, answer):
            self._learn_topic(old, new)

    def _learn_topic(self, old: Struct, new: Struct) -> None:
        """Learns the topic id and the leader epochs of a topic from its old and its new
        description."""
        name = _topic_name(old)
        if not name:
            return
        before, now = getattr(old, "topic_id", None), getattr(new, "topic_id", None)
        if before is not None and now is not None and is_id(before) and is_id(now):
            self._learn(("topic",), old, new, "topic_id")
            self.recorded_topics[before] = name
            self.topics[now] = name
        for old_part, new_part in _pairs(old, new):
            if hasattr(old_part, "leader_epoch"):
                scope = ("leader", name, _partition(old_part))
                self._learn(scope, old_part, new_part, "leader_epoch")

    def _learn(self, scope: tuple[Any, ...], old: Struct, new: Struct, name: str) -> None:
        before, now = getattr(old, name, None), getattr(new, name, None)
        if is_id(before) and is_id(now):
            self._known[(*scope, before)] = now

    # -- putting in

    def put_into(self, request: Struct, topic: str | None = None) -> bool:
        """Replace the ids in a recorded request; returns whether that changed the request.

        `topic` is the name of the topic that the structure belongs to.
        """
        topic = self._topic_of(request) or topic
        replacements = {
            name: value
            for name in request.__slots__
            if (value := self._replacement(request, name, topic)) is not None
        }
        changed = bool(replacements)
        for name in request.__slots__:
            value = getattr(request, name)
            inner = value if isinstance(value, list) else [value]
            for each in inner:
                if isinstance(each, Struct):
                    changed |= self.put_into(each, topic)
        for name, value in replacements.items():
            setattr(request, name, value)
        return changed

    def _replacement(self, of: Struct, name: str, topic: str | None) -> Any:  # noqa: ANN401 - any scalar
        """The new value of a field, or None if it stays as it is."""
        value = getattr(of, name)
        if isinstance(value, list | Struct) or value is None:
            return None
        if name == "records":
            return self._restamped(value)
        known = self._known.get((*self._scope(of, name, topic), value))
        return None if known == value else known

    def _scope(self, of: Struct, name: str, topic: str | None) -> tuple[Any, ...]:
        """Return the key under which ids of the field `name` are mapped: equal numbers of
        different members, partitions or producers must not be mixed up."""
        plain = name.removeprefix(OF_V3)
        if plain in MEMBER_EPOCHS:
            return ("generation", getattr(of, "member_id", None))
        if plain in LEADER_EPOCHS:
            return ("leader", topic, _partition(of))
        prefix = name[: len(name) - len(plain)]
        scopes: dict[str, tuple[Any, ...]] = {
            "topic_id": ("topic",),
            "member_id": ("member",),
            "producer_id": ("producer",),
            "producer_epoch": ("epoch", getattr(of, f"{prefix}producer_id", None)),
        }
        return scopes.get(plain, (name,))

    def _topic_of(self, of: Struct) -> str | None:
        topic_id = getattr(of, "topic_id", None)
        return _topic_name(of) or (self.recorded_topics.get(topic_id) if topic_id else None)

    def _restamped(self, records: Any) -> bytes | None:  # noqa: ANN401 - of any buffer
        """The batches with the new producer ids and epochs; None if nothing changes.

        Data with a corrupt batch stays as it is.
        """
        data, batches = bytes(records), bytearray()
        try:
            for pos, header in iter_batches(data):
                batch = bytearray(data[pos : pos + header.size_bytes])
                producer = self._known.get(("producer", header.producer_id))
                # Only batches of format 2 (magic 2, Kafka 0.11 and later) have a producer id.
                if producer is not None and header.magic == 2:
                    check_crc(data, pos, header)
                    scope = ("epoch", header.producer_id, header.producer_epoch)
                    epoch = self._known.get(scope, header.producer_epoch)
                    stamped = header._replace(producer_id=producer, producer_epoch=epoch)
                    HEADER.pack_into(batch, 0, *stamped)
                    seal(batch)
                batches += batch
        except CorruptBatch:
            return None
        batches += data[len(batches) :]
        return None if batches == data else bytes(batches)


def is_id(value: object) -> bool:
    """Whether a value is an assigned id: not empty, not all zeros, not negative."""
    if isinstance(value, int):
        return value >= 0
    return bool(value) and value != ZERO_UUID


def _topic_name(of: Struct) -> str | None:
    """Return the topic name in a structure of a message; None if it has none."""
    for name in ("name", "topic", "topic_name"):
        found = getattr(of, name, None)
        if isinstance(found, str) and found:
            return found
    return None


def _partition(of: Struct) -> int | None:
    """Return the partition index in a structure of a message; None if it has none."""
    for name in ("partition", "partition_index", "index"):
        found = getattr(of, name, None)
        if isinstance(found, int):
            return found
    return None


def _pairs(old: Struct, new: Struct) -> Iterator[tuple[Struct, Struct]]:
    """Pairs of list items in two messages that belong together: same list and same `KEYS`."""
    for name in old.__slots__:
        first, second = getattr(old, name), getattr(new, name, None)
        if isinstance(first, list) and isinstance(second, list):
            by_key = {_key(item): item for item in second if isinstance(item, Struct)}
            for item in first:
                if isinstance(item, Struct) and _key(item) in by_key:
                    yield item, by_key[_key(item)]


def _key(item: Struct) -> tuple[Any, ...]:
    return tuple(getattr(item, name, None) for name in KEYS)
