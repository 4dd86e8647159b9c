"""Tests which differences between two responses count and which are ignored."""

from __future__ import annotations

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.batches import ControlType, Record, TimestampType, build, control_batch
from kwire.codecs.messages.api_versions import ApiVersion, ApiVersionsResponse
from kwire.codecs.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from kwire.codecs.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kwire.codecs.messages.init_producer_id import InitProducerIdResponse
from kwire.codecs.messages.join_group import JoinGroupResponse
from kwire.codecs.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kwire.codecs.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from kwire.codecs.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kwire.codecs.primitives import Message
from kwire.codecs.uuids import uuid_text
from kwire.conformance.wire import allowed
from kwire.conformance.wire.broker import RemoteBroker
from kwire.conformance.wire.compare import step_differences
from kwire.conformance.wire.peer import Closed, Outcome, Reply, Silent
from kwire.conformance.wire.runner import Selection
from kwire.conformance.wire.stage import CaseStep
from kwire.testing.comparing.differences import Difference, differences
from kwire.testing.comparing.normal import Normaliser, Tree

LEFT_ID, RIGHT_ID = bytes([1] * 16), bytes([2] * 16)


def normaliser(side: int) -> Normaliser:
    """The normaliser of broker 1 or 2, whose ids for the topic `p-t` differ."""
    topics = {(LEFT_ID, RIGHT_ID)[side - 1]: "p-t"}
    return Normaliser("p", side, topics, {0, 1}, "shared")


def paths(left: Message, right: Message, request: Message | bytes = b"") -> list[str]:
    trees = normaliser(1).reply(left, request), normaliser(2).reply(right, request)
    return [difference.path for difference in differences(*trees)]


def test_differences_come_in_the_order_of_the_fields() -> None:
    left: Tree = {"a": [1, {"b": 2}], "c": 3}
    right: Tree = {"a": [1, {"b": 5}, 6], "c": 4}
    assert list(differences(left, right)) == [
        Difference("a[1].b", 2, 5),
        Difference("a[2]", "(nothing)", 6),
        Difference("c", 3, 4),
    ]


@pytest.mark.parametrize(
    ("left", "right"), [(True, 1), (None, 0), ("", None), ([], None), ({}, []), (0, "0")]
)
def test_differences_include_values_that_python_treats_as_equal(left: Tree, right: Tree) -> None:
    assert list(differences(left, right)) != []


def test_comparison_ignores_addresses_and_node_ids() -> None:
    def metadata(node: int, host: str, port: int, leader: int) -> MetadataResponse:
        brokers = [MetadataResponseBroker(node, host, port)]
        return MetadataResponse(0, brokers, host, leader)

    assert paths(metadata(1, "a", 1, 1), metadata(2, "b", 2, 2)) == []
    assert paths(metadata(1, "a", 1, 1), metadata(2, "b", 2, 7)) == ["controller_id"]
    assert paths(metadata(1, "a", 1, 1), metadata(2, "", -1, 2)) == [
        "brokers[0].host",
        "brokers[0].port",
        "cluster_id",
    ]


def test_comparison_matches_topic_ids_by_topic_name() -> None:
    def produced(topic_id: bytes) -> ProduceResponse:
        return ProduceResponse([TopicProduceResponse("", topic_id)])

    assert paths(produced(LEFT_ID), produced(RIGHT_ID)) == []
    assert paths(produced(LEFT_ID), produced(bytes([9] * 16))) == ["responses[0].topic_id"]
    assert paths(produced(LEFT_ID), produced(bytes(16))) == ["responses[0].topic_id"]


def test_comparison_matches_generated_ids_by_first_occurrence() -> None:
    left, right = normaliser(1), normaliser(2)

    def trees(mine: int, its: int) -> tuple[object, object]:
        replies = (InitProducerIdResponse(0, 0, mine), InitProducerIdResponse(0, 0, its))
        return left.reply(replies[0], b""), right.reply(replies[1], b"")

    assert len({str(tree) for tree in trees(0, 4000)}) == 1
    assert len({str(tree) for tree in trees(1, 4001)}) == 1
    assert len({str(tree) for tree in trees(0, 4001)}) == 2
    assert len({str(tree) for tree in trees(-1, 4002)}) == 2


def test_comparison_ignores_the_random_part_of_member_ids() -> None:
    uuids = ("0f0f0f0f-0000-0000-0000-000000000001", "0f0f0f0f-0000-0000-0000-000000000002")

    def reply(member_id: str, leader: str) -> JoinGroupResponse:
        return JoinGroupResponse(member_id=member_id, leader=leader)

    assert (
        paths(reply(f"c-{uuids[0]}", f"c-{uuids[0]}"), reply(f"c-{uuids[1]}", f"c-{uuids[1]}"))
        == []
    )
    assert paths(reply(f"c-{uuids[0]}", "x"), reply(f"d-{uuids[1]}", "x")) == ["member_id"]
    assert paths(reply(uuids[0], uuids[0]), reply(uuids[0], uuids[1])) == ["member_id"]


def test_comparison_ignores_the_timestamp_of_markers() -> None:
    def fetched(timestamp: int, kind: ControlType = ControlType.COMMIT) -> FetchResponse:
        marker = control_batch(kind, 0, producer_id=5, producer_epoch=0, timestamp=timestamp)
        data = PartitionData(records=bytes(marker))
        return FetchResponse(responses=[FetchableTopicResponse("p-t", partitions=[data])])

    assert paths(fetched(1000), fetched(2000)) == []
    assert paths(fetched(1000), fetched(1000, ControlType.ABORT)) == [
        "responses[0].partitions[0].records[0].records[0].key"
    ]


def test_comparison_matches_topic_names_and_ids_within_messages() -> None:
    def refused(topic_id: bytes, name: str) -> CreateTopicsResponse:
        spelled = uuid_text(topic_id)
        text = f"Topic {name} has id {spelled}"
        return CreateTopicsResponse(0, [CreatableTopicResult("p-t", error_message=text)])

    assert paths(refused(LEFT_ID, "p-t"), refused(RIGHT_ID, "p-t")) == []
    assert paths(refused(LEFT_ID, "p-t"), refused(RIGHT_ID, "p-u")) == ["topics[0].error_message"]


def test_comparison_ignores_order_and_foreign_items_of_unordered_lists() -> None:
    def listed(*names: str) -> ListGroupsResponse:
        return ListGroupsResponse(groups=[ListedGroup(name) for name in names])

    request = ListGroupsRequest()
    assert paths(listed("p-a", "p-b"), listed("p-b", "theirs", "p-a"), request) == []
    assert paths(listed("p-a"), listed("p-a", "p-b"), request) == ["groups[1]"]


def test_comparison_includes_foreign_items_named_in_the_request() -> None:
    def answered(error: int) -> MetadataResponse:
        return MetadataResponse(topics=[MetadataResponseTopic(error, "theirs")])

    assert paths(answered(0), answered(3), MetadataRequest()) == []
    for request in (MetadataRequest([MetadataRequestTopic(name="theirs")]), b"theirs"):
        assert paths(answered(0), answered(3), request) == ["topics[0].error_code"]


def test_comparison_ignores_api_keys_that_one_broker_serves() -> None:
    left = ApiVersionsResponse(0, [ApiVersion(0, 3, 13), ApiVersion(7, 0, 0)])
    right = ApiVersionsResponse(0, [ApiVersion(0, 3, 12)])
    assert paths(left, right) == ["api_keys[0].max_version"]


def test_comparison_ignores_the_clock_within_a_message() -> None:
    def refused(first: int, last: int, offset: int = 0) -> ProduceResponse:
        text = f"Timestamp 5 of message with offset {offset} is within [{first}, {last}]"
        errors = [BatchIndexAndErrorMessage(0, text)]
        partition = PartitionProduceResponse(record_errors=errors)
        return ProduceResponse([TopicProduceResponse("p-t", partition_responses=[partition])])

    assert paths(refused(-5, 70), refused(-4, 71)) == []
    assert len(paths(refused(-5, 70), refused(-5, 70, 1))) == 1


def fetched(records: bytes) -> FetchResponse:
    return FetchResponse(
        responses=[FetchableTopicResponse("p-t", partitions=[PartitionData(records=records)])]
    )


def test_comparison_decodes_records_and_checks_their_crc() -> None:
    here = "responses[0].partitions[0].records"

    def batch(value: bytes, **options: object) -> bytes:
        return bytes(build([Record(0, 1000, b"k", value)], **options))  # type: ignore[arg-type] # build's

    good = batch(b"v")
    assert paths(fetched(good), fetched(good)) == []
    assert paths(fetched(good), fetched(batch(b"w"))) == [f"{here}[0].records[0].value"]
    assert paths(fetched(good), fetched(batch(b"v", partition_leader_epoch=3))) == [
        f"{here}[0].partition_leader_epoch"
    ]
    assert paths(fetched(good), fetched(good + good[:20])) == [f"{here}[1]"]
    spoiled = good[:-1] + bytes([good[-1] ^ 1])
    assert f"{here}[0].corrupt" in paths(fetched(good), fetched(spoiled))


def test_comparison_ignores_log_append_times() -> None:
    def stamped(now_ms: int) -> bytes:
        kind = TimestampType.LOG_APPEND_TIME
        record = Record(0, 1000, None, b"v")
        return bytes(build([record], timestamp_type=kind, max_timestamp=now_ms))

    assert paths(fetched(stamped(5000)), fetched(stamped(6000))) == []


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Silent(), Closed()),
        (Reply(ListGroupsResponse()), Silent()),
        (Reply(ListGroupsResponse()), Closed()),
    ],
)
def test_response_silence_and_close_are_different_outcomes(left: Outcome, right: Outcome) -> None:
    left_steps, right_steps = ([CaseStep(16, 0, b"", outcome)] for outcome in (left, right))
    (difference,) = step_differences(left_steps, right_steps, normaliser(1), normaliser(2))
    assert (difference.number, difference.difference.path) == (0, "")
    assert list(step_differences(left_steps, left_steps, normaliser(1), normaliser(2))) == []


def test_case_that_ended_early_on_one_broker_differs() -> None:
    step = CaseStep(16, 0, b"", Closed())
    (difference,) = step_differences([step], [step, step], normaliser(1), normaliser(2))
    assert (difference.number, difference.difference.path) == (1, "steps")


def test_wire_excuse_applies_to_its_case_and_path_only() -> None:
    excuse = allowed.excuse_of(ApiKey.CREATE_PARTITIONS, "too many", "results[0].error_code")
    assert excuse is not None
    assert allowed.excuse_of(ApiKey.CREATE_PARTITIONS, "too many", "results[0].name") is None
    assert allowed.excuse_of(ApiKey.CREATE_PARTITIONS, "numbers", "results[0].error_code") is None
    assert allowed.excuse_of(ApiKey.CREATE_TOPICS, "too many", "results[0].error_code") is None


@pytest.mark.parametrize(
    ("text", "api_key", "version"),
    [
        ("Fetch", ApiKey.FETCH, None),
        ("fetch:12", ApiKey.FETCH, 12),
        ("OFFSET_FETCH", ApiKey.OFFSET_FETCH, None),
        ("offsetfetch:8", ApiKey.OFFSET_FETCH, 8),
        ("1:4", ApiKey.FETCH, 4),
    ],
)
def test_selection_accepts_api_names_and_numbers(
    text: str, api_key: ApiKey, version: int | None
) -> None:
    assert Selection.parse(text) == (api_key, version)


@pytest.mark.parametrize("text", ["Fetsch", "Fetch:x", "", "1000"])
def test_selection_refuses_unknown_apis_and_bad_versions(text: str) -> None:
    with pytest.raises(ValueError, match=r"there is no API|invalid literal"):
        Selection.parse(text)


def test_brokers_are_in_one_cluster_if_its_id_and_its_members_are_the_same() -> None:
    def broker(cluster_id: str, *ports: int) -> RemoteBroker:
        members = frozenset(("localhost", port) for port in ports)
        return RemoteBroker(("localhost", 1), cluster_id=cluster_id, members=members)

    assert broker("c", 1, 2).is_in_cluster_of(broker("c", 2, 1))
    assert not broker("c", 1).is_in_cluster_of(broker("d", 1))
    assert not broker("c", 1).is_in_cluster_of(broker("c", 2))
