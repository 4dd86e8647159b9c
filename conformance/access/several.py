"""Requests that name several things, of which the sender has rights on some.

The sender has all rights on names that begin with `open`, except `open-denied`. It may describe
`seen`, and has no right on `hidden` and `missing`. `open-missing` and `missing` do not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kwire.codecs.batches import Record, build
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codecs.primitives import Message
from kwire.conformance.access.asking import access_lines
from kwire.conformance.access.requests import INDEX, AnyRequest, BuildRequest, MessageClasses
from kwire.conformance.access.senders import (
    DENY,
    GROUP,
    MIXED,
    PREFIXED,
    TOPIC,
    TRANSACTIONAL_ID,
)
from kwire.conformance.access.stage import AccessStage, rule

EXISTING: Final = ("open", "open-denied", "seen", "hidden")
NAMES: Final = (*EXISTING, "open-missing", "missing")
NEW: Final = ("open-missing", "open-denied", "seen", "hidden", "missing")
"""Without `open`, on which the sender has all rights, so that the requests change nothing."""
_TOPIC, _BROKER, _GROUP = 2, 4, 32
_COMMITTED_VERSION, _PRODUCER_ID_VERSION = 8, 4


def _produce(of: MessageClasses, version: int) -> AnyRequest:
    data = of.PartitionProduceData(INDEX, build([Record(0, 0, None, b"x")]))
    topics = [of.TopicProduceData(name, partition_data=[data]) for name in NAMES]
    return of.ProduceRequest(None, 1, 1000, topics)


def _fetch(of: MessageClasses, version: int) -> AnyRequest:
    partition = of.FetchPartition(0, partition_max_bytes=1000)
    return of.FetchRequest(topics=[of.FetchTopic(name, partitions=[partition]) for name in NAMES])


def _fetch_of_a_replica(of: MessageClasses, version: int) -> AnyRequest:
    request = _fetch(of, version)
    request.replica_id = 1
    return request


def _list_offsets(of: MessageClasses, version: int) -> AnyRequest:
    partition = of.ListOffsetsPartition(0, timestamp=-1)
    return of.ListOffsetsRequest(-1, 0, [of.ListOffsetsTopic(name, [partition]) for name in NAMES])


def _metadata(of: MessageClasses, version: int) -> AnyRequest:
    """Return a Metadata request that never creates a topic where the version can say so."""
    request = of.MetadataRequest([of.MetadataRequestTopic(name=name) for name in NAMES])
    request.allow_auto_topic_creation = version < 4
    request.include_topic_authorized_operations = version >= 8
    return request


def _metadata_of_all(of: MessageClasses, version: int) -> AnyRequest:
    request = of.MetadataRequest([] if version == 0 else None)
    request.allow_auto_topic_creation = version < 4
    return request


def _offset_commit(of: MessageClasses, version: int) -> AnyRequest:
    partition = of.OffsetCommitRequestPartition(INDEX, 0, committed_metadata="")
    topics = [of.OffsetCommitRequestTopic(name, partitions=[partition]) for name in NAMES]
    return of.OffsetCommitRequest("open", topics=topics)


def _offset_fetch(of: MessageClasses, version: int) -> AnyRequest:
    topics = [of.OffsetFetchRequestTopic(name, [0]) for name in NAMES]
    return of.OffsetFetchRequest("open", topics)


def _offset_fetch_of_all(of: MessageClasses, version: int) -> AnyRequest:
    """Return a request for all offsets; before version 8 it has one group only."""
    if version < 8:
        return of.OffsetFetchRequest("open", None)
    return of.OffsetFetchRequest(
        groups=[of.OffsetFetchRequestGroup(name, topics=None) for name in NAMES]
    )


def _offset_fetch_of_groups(of: MessageClasses, version: int) -> AnyRequest:
    """Return a request for the offsets of each topic in each group."""
    topics = [of.OffsetFetchRequestTopics(name, partition_indexes=[0]) for name in NAMES]
    return of.OffsetFetchRequest(
        groups=[of.OffsetFetchRequestGroup(name, topics=topics) for name in NAMES]
    )


def _create_topics(of: MessageClasses, version: int) -> AnyRequest:
    return of.CreateTopicsRequest([of.CreatableTopic(name, 1, 1) for name in NAMES], 10_000, True)


def _delete_topics(of: MessageClasses, version: int) -> AnyRequest:
    if version < 6:
        return of.DeleteTopicsRequest(topic_names=list(NEW), timeout_ms=10_000)
    return of.DeleteTopicsRequest([of.DeleteTopicState(name) for name in NEW], timeout_ms=10_000)


def _delete_records(of: MessageClasses, version: int) -> AnyRequest:
    partition = of.DeleteRecordsPartition(INDEX, 0)
    topics = [of.DeleteRecordsTopic(name, [partition]) for name in NAMES]
    return of.DeleteRecordsRequest(topics, 1000)


def _create_partitions(of: MessageClasses, version: int) -> AnyRequest:
    wanted = [of.CreatePartitionsTopic(name, 1, None) for name in NAMES]
    return of.CreatePartitionsRequest(wanted, 10_000, True)


def _offset_for_leader_epoch(of: MessageClasses, version: int) -> AnyRequest:
    partition = of.OffsetForLeaderPartition(0, -1, 0)
    topics = [of.OffsetForLeaderTopic(name, [partition]) for name in NAMES]
    return of.OffsetForLeaderEpochRequest(-1, topics)


def _add_partitions(of: MessageClasses, version: int) -> AnyRequest:
    topics = [of.AddPartitionsToTxnTopic(name, [INDEX]) for name in NAMES]
    return of.AddPartitionsToTxnRequest([], "open", 1, 0, topics)


def _txn_offset_commit(of: MessageClasses, version: int) -> AnyRequest:
    partition = of.TxnOffsetCommitRequestPartition(INDEX, 0, committed_metadata="")
    topics = [of.TxnOffsetCommitRequestTopic(name, partitions=[partition]) for name in NAMES]
    return of.TxnOffsetCommitRequest("open", "open", 1, 0, topics=topics)


def _offset_delete(of: MessageClasses, version: int) -> AnyRequest:
    partition = of.OffsetDeleteRequestPartition(INDEX)
    topics = [of.OffsetDeleteRequestTopic(name, [partition]) for name in NAMES]
    return of.OffsetDeleteRequest("open", topics)


def _describe_configs(of: MessageClasses, version: int) -> AnyRequest:
    """Return a request for an unknown setting of each topic, each group and a broker."""
    kinds = [(kind, name) for kind in (_TOPIC, _GROUP) for name in NAMES]
    return of.DescribeConfigsRequest(
        [
            of.DescribeConfigsResource(kind, name, ["no.such"])
            for kind, name in (*kinds, (_BROKER, "1"))
        ]
    )


def _alter_configs(of: MessageClasses, version: int) -> AnyRequest:
    """Return a validation of empty changes; old and incremental requests share the form."""
    kinds = [(kind, name) for kind in (_TOPIC, _GROUP) for name in NEW]
    wanted = [of.AlterConfigsResource(kind, name, []) for kind, name in (*kinds, (_BROKER, "1"))]
    kind = getattr(of, of.name.title().replace("_", "") + "Request")
    return kind(wanted, True)


def _describe_producers(of: MessageClasses, version: int) -> AnyRequest:
    return of.DescribeProducersRequest([of.TopicRequest(name, [0]) for name in NAMES])


REQUESTS: Final[dict[str, tuple[BuildRequest, int, int]]] = {
    "produce": (_produce, 3, 12),
    "fetch": (_fetch, 4, 12),
    "fetch: of a replica": (_fetch_of_a_replica, 4, 12),
    "list_offsets": (_list_offsets, 1, 11),
    "metadata": (_metadata, 0, 13),
    "metadata: of all": (_metadata_of_all, 0, 13),
    "describe_topic_partitions": (
        lambda of, version: of.DescribeTopicPartitionsRequest(
            [of.TopicRequest(name) for name in NAMES]
        ), 0, 0,
    ),
    "describe_topic_partitions: of all": (
        lambda of, version: of.DescribeTopicPartitionsRequest([]), 0, 0,
    ),
    "offset_commit": (_offset_commit, 2, 9),
    "offset_fetch": (_offset_fetch, 1, 7),
    "offset_fetch: of groups": (_offset_fetch_of_groups, 8, 9),
    "offset_fetch: of all": (_offset_fetch_of_all, 2, 9),
    "find_coordinator": (
        lambda of, version: of.FindCoordinatorRequest(key_type=0, coordinator_keys=list(NAMES)),
        4, 6,
    ),
    "find_coordinator: of transactions": (
        lambda of, version: of.FindCoordinatorRequest(key_type=1, coordinator_keys=list(NAMES)),
        4, 6,
    ),
    "describe_groups": (
        lambda of, version: of.DescribeGroupsRequest(list(NAMES), version >= 3), 0, 6,
    ),
    "consumer_group_describe": (
        lambda of, version: of.ConsumerGroupDescribeRequest(list(NAMES), True), 0, 1,
    ),
    "list_groups": (lambda of, version: of.ListGroupsRequest(), 0, 5),
    "delete_groups": (lambda of, version: of.DeleteGroupsRequest(list(NEW)), 0, 2),
    "consumer_group_heartbeat": (
        lambda of, version: of.ConsumerGroupHeartbeatRequest(
            "open-missing", "member", 1, subscribed_topic_names=list(NAMES)
        ), 0, 1,
    ),
    "create_topics": (_create_topics, 2, 7),
    "delete_topics": (_delete_topics, 1, 6),
    "delete_records": (_delete_records, 0, 2),
    "create_partitions": (_create_partitions, 0, 3),
    "offset_for_leader_epoch": (_offset_for_leader_epoch, 2, 4),
    "add_partitions_to_txn": (_add_partitions, 0, 3),
    "txn_offset_commit": (_txn_offset_commit, 0, 5),
    "offset_delete": (_offset_delete, 0, 0),
    "describe_producers": (_describe_producers, 0, 0),
    "describe_transactions": (
        lambda of, version: of.DescribeTransactionsRequest(list(NAMES)), 0, 0,
    ),
    "list_transactions": (lambda of, version: of.ListTransactionsRequest(), 0, 2),
    "describe_configs": (_describe_configs, 1, 4),
    "alter_configs": (_alter_configs, 0, 2),
    "incremental_alter_configs": (_alter_configs, 0, 1),
}  # fmt: skip
"""Each request with the first and the last version that has this form."""


def prepare(stage: AccessStage) -> None:
    """Create the topics, groups with an offset of each topic, producers, and the sender's
    rights."""
    stage.topics(*EXISTING)
    stage.find_coordinators(*EXISTING)
    for name in EXISTING:
        offset = OffsetCommitRequestPartition(0, 1, committed_metadata="")
        topics = [OffsetCommitRequestTopic(topic, partitions=[offset]) for topic in EXISTING]
        stage.ask_coordinator(OffsetCommitRequest(name, topics=topics), _COMMITTED_VERSION)
        stage.ask_coordinator(InitProducerIdRequest(name, 60_000), _PRODUCER_ID_VERSION)
    kinds = (TOPIC, GROUP, TRANSACTIONAL_ID)
    stage.add_acls(
        *(rule(MIXED, kind, "open", "ALL", pattern=PREFIXED) for kind in kinds),
        *(rule(MIXED, kind, "open-denied", "ALL", permission=DENY) for kind in kinds),
        *(rule(MIXED, kind, "seen", "DESCRIBE") for kind in kinds),
    )


def requests() -> Iterator[tuple[str, int, Message]]:
    """Yield the title, version and message of each request."""
    for title, (make, first, last) in REQUESTS.items():
        of = MessageClasses(title.partition(":")[0], b"")
        for version in range(first, last + 1):
            yield title, version, make(of, version)


def play(stage: AccessStage) -> Iterator[tuple[str, list[str]]]:
    """Yield each request, with what the response says about each thing."""
    prepare(stage)
    for title, version, message in requests():
        outcome = stage.ask(MIXED, message, version)
        yield f"{title} v{version}", access_lines(outcome)
