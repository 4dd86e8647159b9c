"""What a broker hands out, put into requests in place of what another broker had handed out.

Learned from each answer beside the recorded one:

    topic ids               by the topic's name
    producer ids, epochs    InitProducerId, EndTxn from version 5 on; a Produce's batches are
                            sealed anew
    member ids              JoinGroup and the heartbeats of KIP-848
    generations, epochs     of a member, with its id
    fetch sessions
    leader epochs           of a partition, from Metadata
    ids of telemetry

What was never handed out in the trace stays as it is, and so do offsets: a replay begins with what
the recorded broker held then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kwire.codecs.batches import HEADER, CorruptBatch, check_crc, iter_batches, seal
from kwire.codecs.primitives import ZERO_UUID, Message, Struct

PLAIN: Final = ("session_id", "client_instance_id", "subscription_id")
"""Fields that stand for themselves, in answers and requests alike."""
MEMBER_EPOCHS: Final = ("generation_id", "member_epoch", "generation_id_or_member_epoch")
LEADER_EPOCHS: Final = (
    "leader_epoch",
    "current_leader_epoch",
    "last_fetched_epoch",
    "committed_leader_epoch",
)
OF_V3: Final = "v3_and_below_"
"""Before the names of AddPartitionsToTxn's fields up to version 3."""
KEYS: Final = ("name", "topic", "topic_name", "group_id", "partition_index", "partition", "index")
"""What says which item of a list is which."""

Known = dict[tuple[Any, ...], Any]


class Ids:
    """Those that the broker has handed out by now, by those that were recorded."""

    def __init__(self) -> None:
        self._known: Known = {}
        self.recorded_topics: dict[bytes, str] = {}
        """The names by the ids they had."""
        self.topics: dict[bytes, str] = {}
        """By the ids that they have."""

    # -- learning

    def learn(self, recorded: Message, answer: Message) -> None:
        """Compare what was handed out then and now."""
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
        """Have a recorded request name what this broker has handed out; whether that is other."""
        topic = self._topic_of(request) or topic
        others = {
            name: value
            for name in request.__slots__
            if (value := self._other(request, name, topic)) is not None
        }
        changed = bool(others)
        for name in request.__slots__:
            value = getattr(request, name)
            inner = value if isinstance(value, list) else [value]
            for each in inner:
                if isinstance(each, Struct):
                    changed |= self.put_into(each, topic)
        for name, value in others.items():
            setattr(request, name, value)
        return changed

    def _other(self, of: Struct, name: str, topic: str | None) -> Any:  # noqa: ANN401 - any scalar
        """What stands there now; None where that is the same."""
        value = getattr(of, name)
        if isinstance(value, list | Struct) or value is None:
            return None
        if name == "records":
            return self._sealed_anew(value)
        known = self._known.get((*self._scope(of, name, topic), value))
        return None if known == value else known

    def _scope(self, of: Struct, name: str, topic: str | None) -> tuple[Any, ...]:
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

    def _sealed_anew(self, records: Any) -> bytes | None:  # noqa: ANN401 - of any buffer
        """The batches with the producer's id and epoch; what is no sound batch stays as it is."""
        data, found = bytes(records), bytearray()
        try:
            for pos, header in iter_batches(data):
                batch = bytearray(data[pos : pos + header.size_bytes])
                producer = self._known.get(("producer", header.producer_id))
                if producer is not None and header.magic == 2:
                    check_crc(data, pos, header)
                    scope = ("epoch", header.producer_id, header.producer_epoch)
                    epoch = self._known.get(scope, header.producer_epoch)
                    stamped = header._replace(producer_id=producer, producer_epoch=epoch)
                    HEADER.pack_into(batch, 0, *stamped)
                    seal(batch)
                found += batch
        except CorruptBatch:
            return None
        found += data[len(found) :]
        return None if found == data else bytes(found)


def is_id(value: object) -> bool:
    """Whether this stands for something: not for nothing, none or nobody."""
    if isinstance(value, int):
        return value >= 0
    return bool(value) and value != ZERO_UUID


def _topic_name(of: Struct) -> str | None:
    for name in ("name", "topic", "topic_name"):
        found = getattr(of, name, None)
        if isinstance(found, str) and found:
            return found
    return None


def _partition(of: Struct) -> int | None:
    for name in ("partition", "partition_index", "index"):
        found = getattr(of, name, None)
        if isinstance(found, int):
            return found
    return None


def _pairs(old: Struct, new: Struct) -> Iterator[tuple[Struct, Struct]]:
    """What stands in the same place of two answers, list by list: the items of the same name."""
    for name in old.__slots__:
        first, second = getattr(old, name), getattr(new, name, None)
        if isinstance(first, list) and isinstance(second, list):
            by_key = {_key(item): item for item in second if isinstance(item, Struct)}
            for item in first:
                if isinstance(item, Struct) and _key(item) in by_key:
                    yield item, by_key[_key(item)]


def _key(item: Struct) -> tuple[Any, ...]:
    return tuple(getattr(item, name, None) for name in KEYS)
