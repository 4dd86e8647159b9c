"""A scene of requests with topic ids that a sender may not see.

For each right alone, it records the responses for a topic on which the sender has the right, a
topic on which it has none, and an id that no topic has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kwire.codecs.batches import Record, build
from kwire.codecs.primitives import Message
from kwire.conformance.access.asking import access_lines
from kwire.conformance.access.requests import INDEX, AnyRequest, MessageClasses
from kwire.conformance.access.senders import DENY, GROUP, READER, TOPIC
from kwire.conformance.access.stage import AccessStage, rule

SHOWN, HIDDEN, UNKNOWN = "shown", "concealed", "nobody's"
RIGHTS: Final = ("DESCRIBE", "READ", "WRITE", "DELETE", "DESCRIBE_CONFIGS")
_NOBODYS_ID: Final = bytes(range(16))


class _Ids:
    """Requests that name topics by id."""

    def __init__(self, ids: dict[str, bytes]) -> None:
        self._ids = list(ids.values())
        self._hidden = [ids[HIDDEN], ids[UNKNOWN]]

    def metadata(self, of: MessageClasses) -> AnyRequest:
        topics = [of.MetadataRequestTopic(each, None) for each in self._ids]
        return of.MetadataRequest(topics, False, include_topic_authorized_operations=True)

    def produce(self, of: MessageClasses) -> AnyRequest:
        data = of.PartitionProduceData(INDEX, build([Record(0, 0, None, b"x")]))
        topics = [of.TopicProduceData(topic_id=each, partition_data=[data]) for each in self._ids]
        return of.ProduceRequest(None, 1, 1000, topics)

    def fetch(self, of: MessageClasses) -> AnyRequest:
        partition = of.FetchPartition(0, partition_max_bytes=1000)
        topics = [of.FetchTopic(topic_id=each, partitions=[partition]) for each in self._ids]
        return of.FetchRequest(topics=topics)

    def offset_commit(self, of: MessageClasses) -> AnyRequest:
        partition = of.OffsetCommitRequestPartition(INDEX, 0, committed_metadata="")
        topics = [of.OffsetCommitRequestTopic("", each, [partition]) for each in self._ids]
        return of.OffsetCommitRequest("group", topics=topics)

    def offset_fetch(self, of: MessageClasses) -> AnyRequest:
        topics = [of.OffsetFetchRequestTopics("", each, [0]) for each in self._ids]
        return of.OffsetFetchRequest(groups=[of.OffsetFetchRequestGroup("group", topics=topics)])

    def delete_topics(self, of: MessageClasses) -> AnyRequest:
        """Without the shown topic, which the sender may delete."""
        topics = [of.DeleteTopicState(None, each) for each in self._hidden]
        return of.DeleteTopicsRequest(topics, timeout_ms=10_000)

    def messages(self) -> Iterator[tuple[str, int, Message]]:
        """Yield the name, version and message of each request with topic ids."""
        for name, versions in _REQUESTED_VERSIONS.items():
            of = MessageClasses(name, b"")
            for version in versions:
                yield name, version, getattr(self, name)(of)


_REQUESTED_VERSIONS: Final = {
    "metadata": (10, 12, 13),
    "produce": (13,),
    "fetch": (13, 16, 18),
    "offset_commit": (10,),
    "offset_fetch": (10,),
    "delete_topics": (6,),
}
"""Versions with topic ids whose responses may differ from the version before."""


def play(stage: AccessStage) -> Iterator[tuple[str, list[str]]]:
    """Yield each request with its right, and what the response says about each topic."""
    stage.topics(SHOWN, HIDDEN)
    stage.find_coordinators("group")
    ids = {**{name: stage.topic_ids[name] for name in (SHOWN, HIDDEN)}, UNKNOWN: _NOBODYS_ID}
    names = {topic_id: name for name, topic_id in ids.items()}
    group = rule(READER, GROUP, "group", "READ")
    stage.add_acls(group)
    for operation in ("nothing", *RIGHTS):
        rights = [] if operation == "nothing" else [rule(READER, TOPIC, SHOWN, operation)]
        stage.add_acls(*rights)
        for name, version, message in _Ids(ids).messages():
            outcome = stage.ask(READER, message, version)
            yield f"{name} v{version} with {operation}", access_lines(outcome, names)
        stage.remove_acls(*rights)
    stage.remove_acls(group)
    yield from _deletions(stage, _Ids(ids), names)


def _deletions(
    stage: AccessStage, ids: _Ids, names: dict[bytes, str]
) -> Iterator[tuple[str, list[str]]]:
    """Delete a topic that the sender may see but not delete, and one that it may not see."""
    see, delete = (rule(READER, TOPIC, HIDDEN, each) for each in ("DESCRIBE", "DELETE"))
    cannot_see = rule(READER, TOPIC, HIDDEN, "DESCRIBE", permission=DENY)
    for given, rules in (("DESCRIBE of it", [see]), ("DELETE, not DESCRIBE", [delete, cannot_see])):
        stage.add_acls(*rules)
        message = ids.delete_topics(MessageClasses("delete_topics", b""))
        yield f"delete_topics v6 with {given}", access_lines(stage.ask(READER, message, 6), names)
        stage.remove_acls(*rules)
