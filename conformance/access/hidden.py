"""Topics by their ids, of which somebody knows more than may be seen.

Of each right alone: what is told of a topic on which the sender has it, of one on which it has
none, and of an id that no topic has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kwire.codecs.batches import Record, build
from kwire.codecs.primitives import Message
from kwire.conformance.access.asking import told_of_each
from kwire.conformance.access.requests import INDEX, Made, Messages
from kwire.conformance.access.senders import DENY, GROUP, READER, TOPIC
from kwire.conformance.access.stage import Stage, rule

SHOWN, HIDDEN, UNKNOWN = "shown", "concealed", "nobody's"
RIGHTS: Final = ("DESCRIBE", "READ", "WRITE", "DELETE", "DESCRIBE_CONFIGS")
_NOBODYS_ID: Final = bytes(range(16))


class _Ids:
    """Requests by ids of topics."""

    def __init__(self, ids: dict[str, bytes]) -> None:
        self._ids = list(ids.values())
        self._hidden = [ids[HIDDEN], ids[UNKNOWN]]

    def metadata(self, of: Messages) -> Made:
        topics = [of.MetadataRequestTopic(each, None) for each in self._ids]
        return of.MetadataRequest(topics, False, include_topic_authorized_operations=True)

    def produce(self, of: Messages) -> Made:
        data = of.PartitionProduceData(INDEX, build([Record(0, 0, None, b"x")]))
        topics = [of.TopicProduceData(topic_id=each, partition_data=[data]) for each in self._ids]
        return of.ProduceRequest(None, 1, 1000, topics)

    def fetch(self, of: Messages) -> Made:
        asked = of.FetchPartition(0, partition_max_bytes=1000)
        topics = [of.FetchTopic(topic_id=each, partitions=[asked]) for each in self._ids]
        return of.FetchRequest(topics=topics)

    def offset_commit(self, of: Messages) -> Made:
        asked = of.OffsetCommitRequestPartition(INDEX, 0, committed_metadata="")
        topics = [of.OffsetCommitRequestTopic("", each, [asked]) for each in self._ids]
        return of.OffsetCommitRequest("group", topics=topics)

    def offset_fetch(self, of: Messages) -> Made:
        topics = [of.OffsetFetchRequestTopics("", each, [0]) for each in self._ids]
        return of.OffsetFetchRequest(groups=[of.OffsetFetchRequestGroup("group", topics=topics)])

    def delete_topics(self, of: Messages) -> Made:
        """Not that which is shown, which the sender may delete."""
        topics = [of.DeleteTopicState(None, each) for each in self._hidden]
        return of.DeleteTopicsRequest(topics, timeout_ms=10_000)

    def messages(self) -> Iterator[tuple[str, int, Message]]:
        for name, versions in _ASKED.items():
            of = Messages(name, b"")
            for version in versions:
                yield name, version, getattr(self, name)(of)


_ASKED: Final = {
    "metadata": (10, 12, 13),
    "produce": (13,),
    "fetch": (13, 16, 18),
    "offset_commit": (10,),
    "offset_fetch": (10,),
    "delete_topics": (6,),
}
"""Versions since topics go by their ids, where something is another than in the one before."""


def play(stage: Stage) -> Iterator[tuple[str, list[str]]]:
    """What is asked, and what is told of each topic."""
    stage.topics(SHOWN, HIDDEN)
    stage.find_coordinators("group")
    ids = {**{name: stage.topic_ids[name] for name in (SHOWN, HIDDEN)}, UNKNOWN: _NOBODYS_ID}
    names = {topic_id: name for name, topic_id in ids.items()}
    group = rule(READER, GROUP, "group", "READ")
    stage.give(group)
    for operation in ("nothing", *RIGHTS):
        rights = [] if operation == "nothing" else [rule(READER, TOPIC, SHOWN, operation)]
        stage.give(*rights)
        for name, version, message in _Ids(ids).messages():
            outcome = stage.ask(READER, message, version)
            yield f"{name} v{version} with {operation}", told_of_each(outcome, names)
        stage.take(*rights)
    stage.take(group)
    yield from _deletions(stage, _Ids(ids), names)


def _deletions(stage: Stage, ids: _Ids, names: dict[bytes, str]) -> Iterator[tuple[str, list[str]]]:
    """Of a topic that the sender sees and may not delete, and of one that it may not see."""
    sees, deletes = (rule(READER, TOPIC, HIDDEN, each) for each in ("DESCRIBE", "DELETE"))
    blind = rule(READER, TOPIC, HIDDEN, "DESCRIBE", permission=DENY)
    for given, rules in (("DESCRIBE of it", [sees]), ("DELETE, not DESCRIBE", [deletes, blind])):
        stage.give(*rules)
        message = ids.delete_topics(Messages("delete_topics", b""))
        yield f"delete_topics v6 with {given}", told_of_each(stage.ask(READER, message, 6), names)
        stage.take(*rules)
