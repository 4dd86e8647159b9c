"""What requests name, and each place in which an answer tells an error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import request_class, response_class
from kwire.codecs.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kwire.codecs.messages.create_topics import CreatableTopic
from kwire.codecs.messages.delete_groups import DeleteGroupsRequest
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.codecs.messages.fetch import FetchableTopicResponse, FetchResponse, FetchTopic
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.codecs.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.testing.hooks.faults.moved import Moved
from kwire.testing.hooks.faults.parts import (
    OF_PARTITIONS,
    OF_TOPICS,
    groups_of,
    parts_of,
    transactional_id_of,
)
from kwire.testing.hooks.faults.refusing import (
    RefusedTopic,
    _element,
    add,
    overwrite,
    refusal,
    split,
)
from kwire.testing.hooks.faults.rules import (
    DISK_PRESETS,
    Action,
    BadRule,
    Ending,
    RequestFilter,
    read_filter,
    read_rule,
)

ID = bytes(15) + b"\1"
ERROR = ErrorCode.NOT_LEADER_OR_FOLLOWER


def name_of(topic_id: bytes) -> str | None:
    return {ID: "by-id"}.get(topic_id)


def naming(kind: type[Any], name: str) -> Any:  # noqa: ANN401 - an entry of any request's topics
    """An entry that names a topic by its name, or by its id where it has no name."""
    for field in ("name", "topic"):
        if field in kind.__slots__:
            return kind(**{field: name})
    assert name == "by-id"
    return kind(topic_id=ID)


def asking(api_key: int, **topics: list[int]) -> Any:  # noqa: ANN401 - any request
    """A request that names these partitions, in this order."""
    request = request_class(api_key)()
    shape = OF_PARTITIONS[api_key]
    entries = []
    for name, indexes in topics.items():
        entry = naming(_element(type(request), shape.topics), name)
        kind = _element(type(entry), shape.partitions)
        setattr(entry, shape.partitions, [kind(**{shape.number: index}) for index in indexes])
        entries.append(entry)
    setattr(request, shape.topics, entries)
    return request


@pytest.mark.parametrize("api_key", sorted(OF_PARTITIONS))
def test_partitions_of_a_request_are_refused_one_by_one(api_key: int) -> None:
    request = asking(api_key, a=[0, 1, 2], b=[7])
    parts = [("a", 0), ("a", 1), ("a", 2), ("b", 7)]
    assert [*parts_of(api_key, request, name_of)] == parts
    refused_parts = {("a", 1), ("b", 7)}
    rest, refused = split(api_key, request, lambda *part: part in refused_parts, name_of)
    assert rest is not None
    assert [*parts_of(api_key, rest, name_of)] == [("a", 0), ("a", 2)]
    response: Any = response_class(api_key)()
    add(api_key, response, refused, ERROR)
    shape = OF_PARTITIONS[api_key]
    told = {
        (topic.name if hasattr(topic, "name") else topic.topic, getattr(each, number)): each
        for number in (shape.answered_number,)
        for topic in getattr(response, shape.answers)
        for each in getattr(topic, shape.answered)
    }
    assert {part: each.error_code for part, each in told.items()} == dict.fromkeys(
        sorted(refused_parts), ERROR
    )
    overwrite(
        api_key,
        response,
        lambda topic, partition: (topic, partition) == ("b", 7),
        ErrorCode.CORRUPT_MESSAGE,
        name_of,
    )
    assert told["a", 1].error_code == ERROR
    assert told["b", 7].error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("api_key", sorted(OF_TOPICS))
def test_topics_of_a_request_are_refused_one_by_one(api_key: int) -> None:
    request: Any = request_class(api_key)()
    kind = MetadataRequestTopic
    if api_key != ApiKey.METADATA:  # whose list of topics may be None
        kind = _element(type(request), "topics")
    names = ["a", "b", "c"]
    request.topics = [naming(kind, name) for name in names]
    assert [*parts_of(api_key, request, name_of)] == [(name, None) for name in names]
    rest, refused = split(api_key, request, lambda topic, _: topic == "b", name_of)
    assert rest is not None
    assert [*parts_of(api_key, rest, name_of)] == [("a", None), ("c", None)]
    response = response_class(api_key)()
    add(api_key, response, refused, ERROR)
    field = OF_TOPICS[api_key].answers
    (answer,) = getattr(response, field)
    assert (answer.name, answer.error_code) == ("b", ERROR)
    overwrite(api_key, response, lambda topic, _: topic == "x", ErrorCode.NONE, name_of)
    assert answer.error_code == ERROR
    overwrite(api_key, response, lambda topic, _: topic == "b", ErrorCode.NONE, name_of)
    assert answer.error_code == ErrorCode.NONE


def test_topics_are_named_by_id_or_in_the_list_of_older_versions() -> None:
    named = DeleteTopicsRequest(topic_names=["a", "b"])
    assert [*parts_of(ApiKey.DELETE_TOPICS, named, name_of)] == [("a", None), ("b", None)]
    by_id = DeleteTopicsRequest(
        topics=[DeleteTopicState(None, ID), DeleteTopicState(None, b"x" * 16)]
    )
    assert [*parts_of(ApiKey.DELETE_TOPICS, by_id, name_of)] == [("by-id", None), ("", None)]
    assert [*parts_of(ApiKey.METADATA, MetadataRequest(topics=None), name_of)] == []
    assert [*parts_of(ApiKey.HEARTBEAT, HeartbeatRequest("g"), name_of)] == []


def test_groups_of_a_request_are_its_group_id_and_listed_groups() -> None:
    assert groups_of(HeartbeatRequest("g")) == ("g",)
    several = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(each) for each in "ab"])
    assert groups_of(several) == ("a", "b")
    assert groups_of(replace(several, group_id="own")) == ("own", "a", "b")
    assert groups_of(MetadataRequest()) == ()
    assert groups_of(DeleteGroupsRequest(["g"])) == ()


def test_transactional_id_is_found_in_every_version() -> None:
    assert transactional_id_of(AddOffsetsToTxnRequest(transactional_id="t")) == "t"
    old = AddPartitionsToTxnRequest(v3_and_below_transactional_id="old")
    assert transactional_id_of(old) == "old"
    assert transactional_id_of(HeartbeatRequest("g")) is None


def test_refused_partitions_join_the_response_entry_of_the_same_topic() -> None:
    """Every refused topic: the second of them has an answer already, the first has none."""
    other = b"o" * 16
    fetched = FetchResponse(responses=[FetchableTopicResponse(topic_id=ID)])
    refused = [
        RefusedTopic(FetchTopic(topic_id=other), [4]),
        RefusedTopic(FetchTopic(topic_id=ID), [5]),
    ]
    add(ApiKey.FETCH, fetched, refused, ERROR)
    told = [
        (topic.topic_id, [each.partition_index for each in topic.partitions])
        for topic in fetched.responses
    ]
    assert told == [(ID, [5]), (other, [4])]
    created: Any = response_class(ApiKey.CREATE_TOPICS)()
    topics = [CreatableTopic("a"), CreatableTopic("b")]
    add(ApiKey.CREATE_TOPICS, created, [RefusedTopic(topic, []) for topic in topics], ERROR)
    assert [(topic.name, topic.error_code) for topic in created.topics] == [
        ("a", ERROR),
        ("b", ERROR),
    ]


def test_find_coordinator_has_one_error_or_one_per_key() -> None:
    request = FindCoordinatorRequest(coordinator_keys=["a", "b"])
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    old = refusal(ApiKey.FIND_COORDINATOR, 3, request, error)
    assert isinstance(old, FindCoordinatorResponse)
    assert (old.error_code, old.error_message, old.node_id, old.port, old.coordinators) == (
        error, error.name, -1, -1, [],
    )  # fmt: skip
    new = refusal(ApiKey.FIND_COORDINATOR, 4, request, error)
    assert isinstance(new, FindCoordinatorResponse)
    for key, told in zip("ab", new.coordinators, strict=True):
        assert (told.key, told.node_id, told.host, told.port) == (key, -1, "", -1)
        assert (told.error_code, told.error_message) == (error, error.name)
    overwrite(ApiKey.FIND_COORDINATOR, new, lambda *_: True, ErrorCode.NOT_COORDINATOR, name_of)
    assert [told.error_code for told in new.coordinators] == [ErrorCode.NOT_COORDINATOR] * 2
    overwrite(ApiKey.FIND_COORDINATOR, old, lambda *_: True, ErrorCode.NOT_COORDINATOR, name_of)
    assert old.error_code == ErrorCode.NOT_COORDINATOR


def test_error_is_set_in_every_error_field_of_a_nested_response() -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_topics=[
            AddPartitionsToTxnTopic("t", [4, 5]), AddPartitionsToTxnTopic("u", [6])
        ]
    )  # fmt: skip
    answer: Any = refusal(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request, ErrorCode.NONE)
    overwrite(ApiKey.ADD_PARTITIONS_TO_TXN, answer, lambda *_: True, ERROR, name_of)
    places = [
        (topic.name, each.partition_index, each.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]
    assert places == [("t", 4, ERROR), ("t", 5, ERROR), ("u", 6, ERROR)]
    assert answer.error_code == ERROR


# -- what moved


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (None, {"moved": "leader"}),
        (("group", "g"), {"moved": "coordinator", "group": "g"}),
        (("transactional_id", "x"), {"moved": "coordinator", "transactional_id": "x"}),
    ],
)
def test_moved_leader_is_converted_to_json(
    of: tuple[str, str] | None, said: dict[str, str]
) -> None:
    moved = Moved(5, "t", 3, before=1, after=2, leader_epoch=7, of=of)
    assert moved.to_json() == {
        "rule": None,
        "time_ms": 5,
        **said,
        "partitions": [{"topic": "t", "partition": 3}],
        "from": 1,
        "to": 2,
        "leader_epoch": 7,
    }


# -- rules


def test_fields_that_a_rule_does_not_name_have_their_defaults() -> None:
    said = {"error": "UNKNOWN_SERVER_ERROR"}
    rule = read_rule(said)
    assert (rule.said, rule.apis, rule.topic, rule.partition) == (said, frozenset(), None, None)
    assert (rule.client, rule.group, rule.transactional_id) == (None, None, None)
    assert (rule.skip, rule.times, rule.probability, rule.seed) == (0, None, 1.0, 0)
    assert rule.of_disk is None
    assert rule.steps == (Action(ErrorCode.UNKNOWN_SERVER_ERROR),)


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ({"delay_ms": 1}, Action(delay_ms=1)),
        ({"throttle_ms": 2}, Action(throttle_ms=2)),
        ({"disconnect": True}, Action(ending=Ending.DISCONNECT)),
        ({"silence": True}, Action(ending=Ending.SILENCE)),
        ({"die": True}, Action(ending=Ending.DIE)),
        ({"truncate": 3}, Action(ending=Ending.TRUNCATE, reply_bytes=3, carried_out=True)),
        (
            {"disconnect": True, "carried_out": True},
            Action(ending=Ending.DISCONNECT, carried_out=True),
        ),
        (
            {"error": "NONE", "carried_out": True, "delay_ms": 4},
            Action(ErrorCode.NONE, delay_ms=4, carried_out=True),
        ),
        ({"disconnect": True, "carried_out": False}, Action(ending=Ending.DISCONNECT)),
    ],
)
def test_action_is_parsed_alone_and_in_a_script(said: dict[str, Any], action: Action) -> None:
    assert read_rule(said).steps == (action,)
    assert read_rule({"script": [said, {}]}).steps == (action, Action())


@pytest.mark.parametrize("name", ["times", "skip", "seed", "delay_ms", "throttle_ms", "truncate"])
def test_numbers_of_a_rule_end_at_32_bits(name: str) -> None:
    most = 2**31 - 1
    assert read_rule(
        {"silence": True, name: most} if name in ("times", "skip", "seed") else {name: most}
    )
    for value in (most + 1, -1, 1.0, "1"):
        with pytest.raises(BadRule, match=f"{name} must be a number from 0 on, not"):
            read_rule({"silence": True, name: value} if name != "truncate" else {name: value})


def test_seed_and_script_are_parsed() -> None:
    rule = read_rule({"script": [{"die": True}, {}], "times": 7, "seed": 3, "probability": 0})
    assert (rule.times, rule.seed, rule.probability) == (7, 3, 0.0)
    assert read_rule({"preset": "death", "group": "g", "transactional_id": "x"}).group == "g"


def test_filter_matches_api_client_topic_and_partition() -> None:
    which = read_filter({"api": 0, "client": "c-*", "topic": "t", "partition": 1})
    assert which.is_of(ApiKey.PRODUCE, "c-1")
    assert not which.is_of(ApiKey.FETCH, "c-1")
    assert not which.is_of(ApiKey.PRODUCE, "d-1")
    assert not which.is_of(ApiKey.PRODUCE, None)
    assert RequestFilter().is_of(ApiKey.FETCH, None)
    assert read_filter({"client": "*"}).is_of(ApiKey.FETCH, None), "no client id is an empty one"
    assert [which.picks("t", each) for each in (0, 1, None)] == [False, True, True]
    assert not which.picks("u", 1)
    with pytest.raises(
        BadRule, match=r'^a filter of requests must be a JSON object such as \{"api": "Produce"\}$'
    ):
        read_filter([])
    with pytest.raises(BadRule, match="unknown field 'die'"):
        read_filter({"die": True})


@pytest.mark.parametrize("name", sorted(DISK_PRESETS))
def test_disk_preset_is_parsed_to_a_disk_rule(name: str) -> None:
    rule = read_rule({"preset": name, "topic": "t", "times": 2})
    assert rule.of_disk is not None
    assert rule.of_disk.disk is DISK_PRESETS[name]
    assert (rule.topic, rule.times) == ("t", 2)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"disk": "ful"}, "disk must be one of full, failed, slow, not 'ful'"),
        ({"disk": ["full"]}, r"not \['full'\]"),
        (
            {"disk": "full", "api": "Produce"},
            "a rule about a disk cannot have api: it can have disk, on,",
        ),
        ({"disk": "full", "delay_ms": 1}, "delay_ms is for a slow disk, not for a full one"),
        ({"disk": "slow", "on": "nothing"}, "on must be one of "),
        ({"die": True, "on": "append"}, "on takes effect only"),
        ({"error": "X" * 40}, "there is no error 'X{40}'$"),
        ({"preset": 5}, "there is no preset 5"),
        (
            {"die": True, "probability": True},
            "probability must be a number between 0 and 1, not True",
        ),
        ({"die": True, "probability": -0.1}, "not -0.1"),
        ({"script": {}}, "script must be a list of actions"),
        ({"api": True, "die": True, "x": 1}, "unknown field 'x'"),
    ],
)
def test_invalid_rule_is_refused_with_a_reason(said: dict[str, Any], why: str) -> None:
    with pytest.raises(BadRule, match=why):
        read_rule(said)
