"""Requests that name topics: what of them is done, and what is told of the others."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.cluster.metadata.acls import AclOperation
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import (
    create_partitions as partitions,
)
from kwire.codecs.messages import (
    create_topics as creating,
)
from kwire.codecs.messages import (
    delete_records as deleting,
)
from kwire.codecs.messages import (
    delete_topics as removing,
)
from kwire.codecs.messages import (
    describe_cluster as cluster,
)
from kwire.codecs.messages import (
    describe_producers as producers,
)
from kwire.codecs.messages import (
    describe_topic_partitions as described,
)
from kwire.codecs.messages import (
    list_offsets as offsets,
)
from kwire.codecs.messages import (
    metadata as listing,
)
from kwire.codecs.messages import (
    offset_for_leader_epoch as epochs,
)
from kwire.codecs.messages import (
    produce as producing,
)
from kwire.codecs.primitives import ZERO_UUID
from kwire.requests.context import CloseConnection
from kwire.requests.handlers import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_producers,
    describe_topic_partitions,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from kwire.security.operations import NOT_ASKED
from tests.security.guards.standing import (
    ALTER,
    CREATE,
    DELETE,
    DESCRIBE,
    IDS,
    READ,
    TOPIC,
    WRITE,
    Handler,
    access,
    on,
    on_cluster,
)

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
SAID = "Topic authorization failed."


# -- each topic by itself


def test_list_offsets_needs_describe_on_each_topic() -> None:
    asked = [
        offsets.ListOffsetsTopic(name, [offsets.ListOffsetsPartition(at) for at in (0, 1)])
        for name in ("t", "u")
    ]
    done = offsets.ListOffsetsTopicResponse("t")
    handler = Handler(offsets.ListOffsetsResponse(topics=[done]))
    request = offsets.ListOffsetsRequest(topics=asked)
    answer = list_offsets.guard(access(*on(TOPIC, DESCRIBE, "t")), request, handler)
    refused = [offsets.ListOffsetsPartitionResponse(at, DENIED) for at in (0, 1)]
    assert answer.topics == [offsets.ListOffsetsTopicResponse("u", refused), done]
    assert handler.asked[0].topics == asked[:1]
    assert request.topics == asked, "what was learnt of it is not changed"
    handler = Handler(answer)
    assert list_offsets.guard(access(*on(TOPIC, DESCRIBE, "t", "u")), request, handler) is answer
    assert handler.asked == [request]


def test_delete_records_needs_delete_on_each_topic() -> None:
    asked = [
        deleting.DeleteRecordsTopic(name, [deleting.DeleteRecordsPartition(3)])
        for name in ("t", "u")
    ]
    handler = Handler(deleting.DeleteRecordsResponse())
    request = deleting.DeleteRecordsRequest(asked)
    answer = delete_records.guard(access(*on(TOPIC, DELETE, "t")), request, handler)
    refused = [deleting.DeleteRecordsPartitionResult(3, -1, DENIED)]
    assert answer.topics == [deleting.DeleteRecordsTopicResult("u", refused)]
    assert handler.asked[0].topics == asked[:1]


@pytest.mark.parametrize("is_broker", [False, True])
def test_offset_for_leader_epoch_needs_describe_unless_sent_by_a_broker(
    is_broker: bool,
) -> None:
    asked = [
        epochs.OffsetForLeaderTopic(name, [epochs.OffsetForLeaderPartition(4)])
        for name in ("t", "u")
    ]
    handler = Handler(epochs.OffsetForLeaderEpochResponse())
    rights = on_cluster(AclOperation.CLUSTER_ACTION) if is_broker else on(TOPIC, DESCRIBE, "t")
    request = epochs.OffsetForLeaderEpochRequest(topics=asked)
    answer = offset_for_leader_epoch.guard(access(*rights), request, handler)
    refused = epochs.OffsetForLeaderTopicResult("u", [epochs.EpochEndOffset(DENIED, 4)])
    assert answer.topics == ([] if is_broker else [refused])
    assert handler.asked[0].topics == (asked if is_broker else asked[:1])


def test_describe_producers_needs_read_on_each_topic() -> None:
    asked = [producers.TopicRequest(name, [0, 5]) for name in ("t", "u")]
    handler = Handler(producers.DescribeProducersResponse())
    request = producers.DescribeProducersRequest(asked)
    answer = describe_producers.guard(access(*on(TOPIC, READ, "t")), request, handler)
    refused = [producers.PartitionResponse(at, DENIED, SAID) for at in (0, 5)]
    assert answer.topics == [producers.TopicResponse("u", refused)]


def test_create_partitions_needs_alter_on_each_topic() -> None:
    """One that is named twice goes to the handler, which refuses that."""
    asked = [partitions.CreatePartitionsTopic(name, 3) for name in ("t", "u", "v", "v")]
    done = partitions.CreatePartitionsTopicResult("t")
    handler = Handler(partitions.CreatePartitionsResponse(results=[done]))
    request = partitions.CreatePartitionsRequest(list(asked))
    answer = create_partitions.guard(access(*on(TOPIC, ALTER, "t")), request, handler)
    assert [each.name for each in handler.asked[0].topics] == ["t", "v", "v"]
    assert answer.results == [done, partitions.CreatePartitionsTopicResult("u", DENIED)]


# -- records


def produced(name: str, topic_id: bytes = ZERO_UUID) -> producing.TopicProduceData:
    data = [producing.PartitionProduceData(at, None) for at in (0, 2)]
    return producing.TopicProduceData(name, topic_id, data)


def unproduced(
    name: str, topic_id: bytes = ZERO_UUID, error: ErrorCode = DENIED
) -> producing.TopicProduceResponse:
    told = [producing.PartitionProduceResponse(at, error, -1, log_start_offset=-1) for at in (0, 2)]
    return producing.TopicProduceResponse(name, topic_id, told)


def test_produce_needs_write_on_each_topic() -> None:
    asked = [produced("t"), produced("u")]
    request = producing.ProduceRequest(None, -1, 1000, asked)
    done = producing.TopicProduceResponse("t")
    handler = Handler(producing.ProduceResponse([done]))
    answer = produce.guard(access(*on(TOPIC, WRITE, "t"), version=9), request, handler)
    assert answer.responses == [unproduced("u"), done]
    assert handler.asked[0].topic_data == asked[:1]
    assert request.topic_data == asked
    handler = Handler()
    produce.guard(access(*on(TOPIC, WRITE, "t", "u"), version=9), request, handler)
    assert handler.asked == [request]


def test_produce_to_an_unknown_topic_id_goes_to_the_handler() -> None:
    asked = [produced("", IDS["t"]), produced("", b"?" * 16), produced("", IDS["u"])]
    request = producing.ProduceRequest(None, -1, 1000, asked)
    handler = Handler(producing.ProduceResponse([]))
    answer = produce.guard(access(*on(TOPIC, WRITE, "t"), version=13), request, handler)
    assert answer.responses == [unproduced("", IDS["u"])]
    assert handler.asked[0].topic_data == asked[:2]


def test_produce_with_acks_0_without_write_closes_the_connection() -> None:
    request = producing.ProduceRequest(None, 0, 1000, [produced("t"), produced("u")])
    handler = Handler()
    with pytest.raises(CloseConnection, match="acks=0 is not authorized on u"):
        produce.guard(access(*on(TOPIC, WRITE, "t"), version=9), request, handler)
    assert len(handler.asked) == 1, "what may be written is"


async def test_produce_with_acks_0_closes_the_connection_after_its_allowed_part() -> None:
    written: list[str] = []

    async def write() -> None:
        written.append("t")

    request = producing.ProduceRequest(
        None, 0, 1000, [produced("", IDS["t"]), produced("", IDS["u"])]
    )
    answer = produce.guard(
        access(*on(TOPIC, WRITE, "t"), version=13), request, lambda rest: write()
    )
    with pytest.raises(CloseConnection, match=IDS["u"].hex()):
        await answer
    assert written == ["t"]


async def test_refusals_are_added_to_a_delayed_response() -> None:
    done = producing.TopicProduceResponse("t")

    async def later() -> producing.ProduceResponse:
        return producing.ProduceResponse([done])

    async def none() -> None:
        return None

    request = producing.ProduceRequest(None, -1, 1000, [produced("t"), produced("u")])
    sender = access(*on(TOPIC, WRITE, "t"), version=9)
    answer = await produce.guard(sender, request, lambda rest: later())
    assert answer.responses == [unproduced("u"), done]
    assert await produce.guard(sender, request, lambda rest: none()) is None
    assert produce.guard(sender, request, lambda rest: None) is None


# -- what there is


def asked_for(*names: str) -> list[listing.MetadataRequestTopic]:
    return [listing.MetadataRequestTopic(name=name) for name in names]


def listed(*names: str, **said: Any) -> listing.MetadataResponse:  # noqa: ANN401 - any field
    found = [listing.MetadataResponseTopic(name=name) for name in names]
    return listing.MetadataResponse(topics=found, **said)


def names_in(answer: Any) -> list[tuple[str | None, int]]:  # noqa: ANN401 - of several keys
    return [(each.name, each.error_code) for each in answer.topics]


def test_metadata_of_all_topics_has_only_visible_topics() -> None:
    sender = access(*on(TOPIC, DESCRIBE, "t"), version=12)
    for version, asked in ((12, None), (0, [])):
        sender.context.api_version = version
        answer = metadata.guard(sender, listing.MetadataRequest(asked), Handler(listed("t", "u")))
        assert names_in(answer) == [("t", 0)]
    sender.context.api_version = 1
    answer = metadata.guard(sender, listing.MetadataRequest([]), Handler(listed()))
    assert answer.topics == []


def test_metadata_of_named_topics_refuses_hidden_topics() -> None:
    handler = Handler(listed("t"))
    request = listing.MetadataRequest(asked_for("u", "t", "__consumer_offsets", "u"))
    answer = metadata.guard(access(*on(TOPIC, DESCRIBE, "t"), version=12), request, handler)
    assert names_in(answer) == [("t", 0), ("u", DENIED), ("__consumer_offsets", DENIED)]
    assert [each.is_internal for each in answer.topics] == [False, False, True]
    assert handler.asked[0].topics == asked_for("t")
    # An empty list would mean all, before there was None.
    nothing = metadata.guard(
        access(), listing.MetadataRequest(asked_for("u")), Handler(listed("t", "u"))
    )
    assert names_in(nothing) == [("u", DENIED)]


@pytest.mark.parametrize(
    ("created", "allowed", "setting", "refused"),
    [
        ((), True, "true", True),
        ((), False, "true", False),
        ((), True, "false", False),
        (on(TOPIC, CREATE, "new"), True, "true", False),
        (on_cluster(CREATE), True, "true", False),
    ],
)
def test_metadata_refuses_to_create_a_topic_without_create(
    created: list[Any], allowed: bool, setting: str, refused: bool
) -> None:
    sender = access(
        *on(TOPIC, DESCRIBE, "t", "new"),
        *created,
        version=12,
        auto_create_topics_enable=setting,
    )
    handler = Handler(listed("t"))
    request = listing.MetadataRequest(asked_for("new", "t"), allow_auto_topic_creation=allowed)
    answer = metadata.guard(sender, request, handler)
    assert [each.name for each in handler.asked[0].topics] == (["t"] if refused else ["new", "t"])
    assert names_in(answer) == [("t", 0), *([("new", DENIED)] if refused else [])]


def test_metadata_of_a_hidden_topic_id_is_refused_without_its_name() -> None:
    ids = [IDS["t"], IDS["u"], b"?" * 16]
    asked = [listing.MetadataRequestTopic(each, None) for each in ids]
    handler = Handler(listed("t"))
    answer = metadata.guard(
        access(*on(TOPIC, DESCRIBE, "t"), version=12), listing.MetadataRequest(asked), handler
    )
    assert [each.topic_id for each in handler.asked[0].topics] == [ids[0], ids[2]]
    assert answer.topics[1:] == [listing.MetadataResponseTopic(DENIED, None, IDS["u"])]


@pytest.mark.parametrize(
    ("version", "topic"),
    [
        (11, (IDS["u"], None)),
        (11, (IDS["u"], "u")),
        (12, (ZERO_UUID, None)),
        (9, (ZERO_UUID, None)),
    ],
)
def test_invalid_metadata_request_goes_to_the_handler_unchanged(
    version: int, topic: tuple[bytes, str | None]
) -> None:
    request = listing.MetadataRequest([listing.MetadataRequestTopic(*topic)])
    handler = Handler(listed())
    assert metadata.guard(access(version=version), request, handler).topics == []
    assert handler.asked == [request]


def test_metadata_has_authorized_operations_if_requested() -> None:
    rights = [*on(TOPIC, DESCRIBE, "t"), *on(TOPIC, READ, "t"), *on_cluster(DESCRIBE, ALTER)]
    request = listing.MetadataRequest(asked_for("t"), include_topic_authorized_operations=True)
    found = listed("t", "", cluster_authorized_operations=0)
    found.topics.append(listing.MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, "x"))
    answer = metadata.guard(access(*rights, version=10), request, Handler(found))
    told = [each.topic_authorized_operations for each in answer.topics]
    assert told == [1 << READ | 1 << DESCRIBE, NOT_ASKED, NOT_ASKED]
    assert answer.cluster_authorized_operations == 1 << DESCRIBE | 1 << ALTER
    request = listing.MetadataRequest(asked_for("t"))
    answer = metadata.guard(access(*rights, version=10), request, Handler(listed("t")))
    assert answer.topics[0].topic_authorized_operations == NOT_ASKED
    assert answer.cluster_authorized_operations == NOT_ASKED


@pytest.mark.parametrize(
    ("rights", "told"),
    [([DESCRIBE, CREATE], 1 << DESCRIBE | 1 << CREATE), ([CREATE], 0), ([], 0)],
)
def test_cluster_operations_need_describe_on_the_cluster(
    rights: list[AclOperation], told: int
) -> None:
    request = cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
    found = cluster.DescribeClusterResponse(cluster_authorized_operations=1)
    answer = describe_cluster.guard(access(*on_cluster(*rights)), request, Handler(found))
    assert answer.cluster_authorized_operations == told
    found = cluster.DescribeClusterResponse()
    answer = describe_cluster.guard(access(*on_cluster(*rights)), request, Handler(found))
    assert answer.cluster_authorized_operations == NOT_ASKED


def described_as(*names: str) -> described.DescribeTopicPartitionsResponse:
    found = [described.DescribeTopicPartitionsResponseTopic(name=name) for name in names]
    return described.DescribeTopicPartitionsResponse(topics=found)


def test_describe_topic_partitions_answers_a_repeated_topic_once() -> None:
    asked = [described.TopicRequest(name) for name in ("u", "t", "u")]
    cursor = described.Cursor("t", 1)
    handler = Handler(described_as("t"))
    answer = describe_topic_partitions.guard(
        access(*on(TOPIC, DESCRIBE, "t")),
        described.DescribeTopicPartitionsRequest(asked, 7, cursor),
        handler,
    )
    assert names_in(answer) == [("t", 0), ("u", DENIED)]
    assert answer.topics[0].topic_authorized_operations == 1 << DESCRIBE
    rest = handler.asked[0]
    assert (rest.topics, rest.cursor) == ([described.TopicRequest("t")], cursor)
    handler = Handler()
    nothing = describe_topic_partitions.guard(
        access(), described.DescribeTopicPartitionsRequest(asked), handler
    )
    assert names_in(nothing) == [("u", DENIED), ("t", DENIED)]
    assert not handler.asked


@pytest.mark.parametrize(
    ("cursor", "names", "goes_on"),
    [
        (None, ["t", "v", "w"], False),
        ("t", ["t", "v", "w"], True),
        ("v", ["v", "w"], True),
        ("u", ["v", "w"], False),
    ],
)
def test_describe_all_topics_starts_at_the_cursor_and_omits_hidden_topics(
    cursor: str | None, names: list[str], goes_on: bool
) -> None:
    at = None if cursor is None else described.Cursor(cursor, 1)
    handler = Handler(described_as())
    request = described.DescribeTopicPartitionsRequest([], 7, at)
    sender = access(*on(TOPIC, DESCRIBE, "t", "v", "w"))
    answer = describe_topic_partitions.guard(sender, request, handler)
    assert answer.topics == []
    assert [each.name for each in handler.asked[0].topics] == names
    assert handler.asked[0].cursor == (at if goes_on else None)


def test_describe_all_topics_past_the_last_one_is_empty() -> None:
    request = described.DescribeTopicPartitionsRequest([], 7, described.Cursor("x", 1))
    handler = Handler()
    sender = access(*on(TOPIC, DESCRIBE, "t"))
    assert describe_topic_partitions.guard(sender, request, handler).topics == []
    assert not handler.asked


def test_describe_topic_partitions_with_an_empty_name_goes_to_the_handler() -> None:
    request = described.DescribeTopicPartitionsRequest(
        [described.TopicRequest("u"), described.TopicRequest("")]
    )
    handler = Handler(described_as())
    describe_topic_partitions.guard(access(), request, handler)
    assert handler.asked == [request]


# -- topics that are made and go


@pytest.mark.parametrize("everywhere", [False, True])
def test_create_topics_needs_create_on_each_topic(everywhere: bool) -> None:
    names = ["a", "b", "c", "c", "b2"]
    asked = [creating.CreatableTopic(name, 1, 1) for name in names]
    rights = on_cluster(CREATE) if everywhere else on(TOPIC, CREATE, "a")
    handler = Handler(creating.CreateTopicsResponse())
    answer = create_topics.guard(
        access(*rights, version=4), creating.CreateTopicsRequest(asked), handler
    )
    left = names if everywhere else ["a", "c", "c"]
    assert [each.name for each in handler.asked[0].topics] == left
    denied = [] if everywhere else ["b", "b2"]
    assert answer.topics == [
        creating.CreatableTopicResult(
            name=name, error_code=DENIED, error_message="Authorization failed."
        )
        for name in denied
    ]


@pytest.mark.parametrize(("version", "hidden"), [(4, False), (5, True)])
def test_create_topics_response_has_configs_only_with_describe_configs(
    version: int, hidden: bool
) -> None:
    def made(name: str, error: ErrorCode = ErrorCode.NONE) -> creating.CreatableTopicResult:
        said = [creating.CreatableTopicConfigs("n")]
        return creating.CreatableTopicResult(
            name, error_code=error, num_partitions=3, replication_factor=2, configs=said
        )

    failed = ErrorCode.TOPIC_ALREADY_EXISTS
    found = creating.CreateTopicsResponse(topics=[made("a"), made("b"), made("b", failed)])
    rights = [*on_cluster(CREATE), *on(TOPIC, AclOperation.DESCRIBE_CONFIGS, "a")]
    answer = create_topics.guard(
        access(*rights, version=version), creating.CreateTopicsRequest([]), Handler(found)
    )
    shown = [
        (each.topic_config_error_code, each.num_partitions, each.replication_factor, each.configs)
        for each in answer.topics
    ]
    seen = (0, 3, 2, [creating.CreatableTopicConfigs("n")])
    assert shown == [seen, (DENIED, -1, -1, []) if hidden else seen, seen]


def gone(name: str | None, topic_id: bytes = ZERO_UUID) -> removing.DeletableTopicResult:
    return removing.DeletableTopicResult(name, topic_id, DENIED, SAID)


def test_delete_topics_by_name_needs_delete_on_each_topic() -> None:
    """Who may see a topic that is not there is told so by the handler."""
    rights = [*on(TOPIC, DELETE, "t"), *on(TOPIC, DESCRIBE, "u", "none")]
    done = removing.DeletableTopicResult("t")
    handler = Handler(removing.DeleteTopicsResponse(responses=[done]))
    names = ["u", "t", "none", "hidden", "u"]
    request = removing.DeleteTopicsRequest(topic_names=names)
    answer = delete_topics.guard(access(*rights, version=5), request, handler)
    assert handler.asked[0].topic_names == ["t", "none"]
    assert answer.responses == [gone("u"), gone("hidden"), done]


def test_delete_topics_by_id_needs_delete_on_each_topic() -> None:
    rights = [*on(TOPIC, DELETE, "t"), *on(TOPIC, DESCRIBE, "u")]
    asked = [
        removing.DeleteTopicState(None, IDS["t"]),
        removing.DeleteTopicState(None, IDS["u"]),
        removing.DeleteTopicState(None, IDS["v"]),
        removing.DeleteTopicState("v", ZERO_UUID),
        removing.DeleteTopicState("v", IDS["v"]),
        removing.DeleteTopicState(None, b"?" * 16),
    ]
    handler = Handler(removing.DeleteTopicsResponse())
    request = removing.DeleteTopicsRequest(list(asked))
    answer = delete_topics.guard(access(*rights, version=6), request, handler)
    assert handler.asked[0].topics == [asked[0], asked[4], asked[5]]
    assert answer.responses == [gone("u", IDS["u"]), gone(None, IDS["v"]), gone("v")]


def test_delete_on_the_cluster_allows_to_delete_every_topic() -> None:
    request = removing.DeleteTopicsRequest(topic_names=["u"])
    handler = Handler("done")
    assert delete_topics.guard(access(*on_cluster(DELETE)), request, handler) == "done"
    assert handler.asked == [request]
