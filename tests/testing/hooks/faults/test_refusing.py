"""Requests of which some parts are refused, and their answers."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import request_class, response_class
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kwire.codecs.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.codecs.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from kwire.codecs.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kwire.requests.routes import ROUTES
from kwire.testing.hooks.faults.parts import OF_PARTITIONS, OF_TOPICS, has_place_for_error
from kwire.testing.hooks.faults.refusing import add, overwrite, refusal, split

ID = bytes(15) + b"\1"
ERROR = ErrorCode.NOT_LEADER_OR_FOLLOWER


def name_of(topic_id: bytes) -> str | None:
    return {ID: "by-id"}.get(topic_id)


def picking(*parts: tuple[str, int | None]) -> Any:  # noqa: ANN401 - Picks
    return lambda topic, partition: (topic, partition) in parts


def produce() -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        topic_data=[
            TopicProduceData(
                "t", partition_data=[PartitionProduceData(0), PartitionProduceData(1)]
            ),
            TopicProduceData(topic_id=ID, partition_data=[PartitionProduceData(0)]),
        ],
    )


def test_split_separates_refused_partitions_from_the_rest() -> None:
    rest, refused = split(ApiKey.PRODUCE, produce(), picking(("t", 1), ("by-id", 0)), name_of)
    assert isinstance(rest, ProduceRequest)
    (topic,) = rest.topic_data
    assert (topic.name, [data.index for data in topic.partition_data]) == ("t", [0])
    assert rest.acks == -1
    response = ProduceResponse(
        [TopicProduceResponse("t", partition_responses=[PartitionProduceResponse(0)])]
    )
    add(ApiKey.PRODUCE, response, refused, ERROR)
    first, second = response.responses
    assert [(each.index, each.error_code) for each in first.partition_responses] == [(0, 0), (1, 6)]
    assert first.partition_responses[1].base_offset == -1
    assert (second.name, second.topic_id) == ("", ID)
    assert [(each.index, each.error_code) for each in second.partition_responses] == [(0, 6)]


def test_split_leaves_nothing_of_a_wholly_refused_request() -> None:
    rest, refused = split(ApiKey.PRODUCE, produce(), lambda *_: True, name_of)
    assert rest is None
    assert [each.indexes for each in refused] == [[0, 1], [0]]


def test_split_keeps_a_request_without_refused_partitions() -> None:
    request = produce()
    rest, refused = split(ApiKey.PRODUCE, request, lambda *_: False, name_of)
    assert (rest, refused) == (request, [])


def test_split_refuses_whole_topics() -> None:
    request = CreateTopicsRequest(topics=[CreatableTopic("a"), CreatableTopic("b")])
    rest, refused = split(ApiKey.CREATE_TOPICS, request, picking(("b", None)), name_of)
    assert isinstance(rest, CreateTopicsRequest)
    assert [topic.name for topic in rest.topics] == ["a"]
    response = response_class(ApiKey.CREATE_TOPICS)()
    add(ApiKey.CREATE_TOPICS, response, refused, ErrorCode.NOT_CONTROLLER)
    told = [(topic.name, topic.error_code) for topic in response.topics]  # type: ignore[attr-defined]  # of its class
    assert told == [("b", ErrorCode.NOT_CONTROLLER)]


def test_overwrite_replaces_results_by_the_error() -> None:
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                "t",
                partitions=[
                    PartitionData(0, high_watermark=5, records=b"x"),
                    PartitionData(1, high_watermark=5, records=b"x"),
                ],
            )
        ]
    )
    overwrite(ApiKey.FETCH, response, picking(("t", 1)), ERROR, name_of)
    kept, spoiled = response.responses[0].partitions
    assert (kept.error_code, kept.records) == (0, b"x")
    assert (spoiled.error_code, spoiled.high_watermark, spoiled.records) == (6, -1, b"")


def test_refused_partitions_have_no_offsets() -> None:
    request = ListOffsetsRequest(
        topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0), ListOffsetsPartition(1)])]
    )
    _, refused = split(ApiKey.LIST_OFFSETS, request, picking(("t", 1)), name_of)
    response = ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse("t", [ListOffsetsPartitionResponse(0, offset=3)])]
    )
    add(ApiKey.LIST_OFFSETS, response, refused, ERROR)
    (topic,) = response.topics
    assert [(p.partition_index, p.error_code, p.offset) for p in topic.partitions] == [
        (0, 0, 3),
        (1, 6, -1),
    ]


def test_refusal_sets_errors_of_apis_with_special_places() -> None:
    several = FindCoordinatorRequest(coordinator_keys=["a", "b"])
    found = refusal(ApiKey.FIND_COORDINATOR, 4, several, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert isinstance(found, FindCoordinatorResponse)
    assert [(each.key, each.error_code, each.node_id) for each in found.coordinators] == [
        ("a", 15, -1),
        ("b", 15, -1),
    ]
    groups = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g")])
    told: Any = refusal(ApiKey.OFFSET_FETCH, 9, groups, ErrorCode.NOT_COORDINATOR)
    assert (told.error_code, told.groups[0].group_id, told.groups[0].error_code) == (16, "g", 16)
    request = AddPartitionsToTxnRequest(v3_and_below_topics=[AddPartitionsToTxnTopic("t", [4])])
    told = refusal(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request, ErrorCode.NOT_COORDINATOR)
    (topic,) = told.results_by_topic_v3_and_below
    (partition,) = topic.results_by_partition
    assert (topic.name, partition.partition_index, partition.partition_error_code) == ("t", 4, 16)


WHOLE = [
    (int(route.api_key), version)
    for route in ROUTES
    for version in range(route.min_version, route.max_version + 1)
    if has_place_for_error(route.api_key)
]


@pytest.mark.parametrize(("api_key", "version"), WHOLE)
def test_every_request_can_be_answered_with_an_error(api_key: int, version: int) -> None:
    """In each version that is served: the answer has a form."""
    request = request_class(api_key)()
    if isinstance(request, FindCoordinatorRequest):
        request.coordinator_keys = ["k"]
    if api_key in OF_PARTITIONS or api_key in OF_TOPICS:
        response = response_class(api_key)()
        add(api_key, response, [], ErrorCode.UNKNOWN_SERVER_ERROR)
    else:
        response = refusal(api_key, version, request, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert response.encode(version)
    overwrite(api_key, response, lambda *_: True, ErrorCode.UNKNOWN_SERVER_ERROR, name_of)
    assert response.encode(version)
