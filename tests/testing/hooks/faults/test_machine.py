"""Which requests a rule befalls."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages import API_NAMES
from kwire.codecs.messages.alter_partition import AlterPartitionRequest
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.leader_and_isr import LeaderAndIsrRequest
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.codecs.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codecs.primitives import Message
from kwire.testing.hooks.faults.disk import DiskFault, DiskInjection, LogCall, LogOperation
from kwire.testing.hooks.faults.machine import (
    HAPPENED_MAX,
    HELPERS,
    FaultMachine,
    Injection,
    RequestInfo,
)
from kwire.testing.hooks.faults.rules import read_rule

ID = bytes(15) + b"\1"


@pytest.fixture
def faults() -> FaultMachine:
    return FaultMachine(lambda seed: random.Random(seed).random, lambda: 42)


def produce(*partitions: int, topic: str = "t", client: str | None = "c") -> RequestInfo:
    data = [PartitionProduceData(index) for index in partitions or (0,)]
    request = ProduceRequest(topic_data=[TopicProduceData(topic, partition_data=data)])
    return asked(request, client)


def asked(request: Message, client: str | None = "c") -> RequestInfo:
    key = request.API_KEY
    assert key is not None
    return RequestInfo(key, 1, client, request, {ID: "by-id"}.get)


def befalls(faults: FaultMachine, request: RequestInfo, **rule: Any) -> bool:  # noqa: ANN401 - any JSON
    number = faults.add(read_rule({"disconnect": True, **rule}))
    found = faults.decide(request)
    faults.remove(number)
    return found is not None


def test_request_passes_without_rules(faults: FaultMachine) -> None:
    assert not faults
    assert faults.decide(produce()) is None


@pytest.mark.parametrize(
    ("rule", "is_about_it"),
    [
        ({}, True),
        ({"api": "Produce"}, True),
        ({"api": ["Fetch", "Metadata"]}, False),
        ({"topic": "t"}, True),
        ({"topic": "u"}, False),
        ({"topic": "t", "partition": 2}, True),
        ({"topic": "t", "partition": 1}, False),
        ({"client": "c"}, True),
        ({"client": "[cd]*"}, True),
        ({"client": "C"}, False),
        ({"group": "g"}, False),
        ({"transactional_id": "x"}, False),
    ],
)
def test_rule_matches_requests_by_its_fields(
    faults: FaultMachine, rule: dict[str, Any], is_about_it: bool
) -> None:
    assert befalls(faults, produce(0, 2), **rule) is is_about_it


def test_rule_matches_topics_by_id_and_as_a_whole(faults: FaultMachine) -> None:
    by_id = ProduceRequest(
        topic_data=[TopicProduceData(topic_id=ID, partition_data=[PartitionProduceData(0)])]
    )
    assert befalls(faults, asked(by_id), topic="by-id")
    whole = asked(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
    assert befalls(faults, whole, topic="t")
    assert befalls(faults, whole, topic="t", partition=7)
    assert not befalls(faults, whole, topic="u")
    assert not befalls(faults, asked(MetadataRequest(topics=None)), topic="t")


def test_rule_matches_groups_and_transactional_ids(faults: FaultMachine) -> None:
    heartbeat = asked(HeartbeatRequest(group_id="g"))
    assert befalls(faults, heartbeat, group="g")
    assert not befalls(faults, heartbeat, group="h")
    several = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="h")])
    assert befalls(faults, asked(several), group="h")
    begin = asked(InitProducerIdRequest(transactional_id="x"))
    assert befalls(faults, begin, transactional_id="x")
    assert not befalls(faults, begin, transactional_id="y")


def test_rule_without_client_does_not_match_helpers(faults: FaultMachine) -> None:
    helper = produce(client=HELPERS)
    assert not befalls(faults, helper)
    assert befalls(faults, helper, client=HELPERS)
    assert befalls(faults, helper, client="*")
    assert befalls(faults, produce(client=None), client="*")


@pytest.mark.parametrize(
    "client",
    [
        "broker-3-fetcher-0",
        "broker-12-txn-marker-sender",
        "broker-2-to-controller",
        "broker-1-share-states",
        "broker-1-telemetry",
        "AddPartitionsManager",
    ],
)
def test_rule_without_client_does_not_match_other_brokers(
    faults: FaultMachine, client: str
) -> None:
    assert not befalls(faults, produce(client=client))
    assert befalls(faults, produce(client=client), client=client)
    assert befalls(faults, produce(client=f"my-{client}"))


def test_rule_injects_as_often_as_skip_times_and_probability_say(faults: FaultMachine) -> None:
    faults.add(read_rule({"disconnect": True, "skip": 2, "times": 3}))
    found = [faults.decide(produce()) is not None for _ in range(8)]
    assert found == [False, False, True, True, True, False, False, False]
    (told,) = faults.to_json()
    assert (told["matched"], told["happened"], told["used_up"]) == (5, 3, True)


def test_script_is_played_once_or_as_often_as_times_says(faults: FaultMachine) -> None:
    steps = [{"error": "NOT_COORDINATOR"}, {}, {"delay_ms": 1}]
    faults.add(read_rule({"script": steps}))
    once = [faults.decide(produce()) for _ in range(4)]
    assert [found is not None for found in once] == [True, False, True, False]
    faults.clear()
    faults.add(read_rule({"script": steps, "times": 4}))
    again = [faults.decide(produce()) for _ in range(5)]
    assert [found is not None for found in again] == [True, False, True, True, False]


def test_draws_depend_only_on_the_seed(faults: FaultMachine) -> None:
    def drawn(seed: int) -> list[bool]:
        faults.clear()
        faults.add(read_rule({"disconnect": True, "probability": 0.3, "seed": seed}))
        return [faults.decide(produce()) is not None for _ in range(400)]

    first = drawn(1)
    assert first == drawn(1)
    assert first != drawn(2)
    assert 80 < sum(first) < 160
    faults.clear()
    assert not any(befalls(faults, produce(), probability=0) for _ in range(10))


def test_first_rule_that_is_not_used_up_decides(faults: FaultMachine) -> None:
    first = faults.add(read_rule({"disconnect": True, "times": 1}))
    second = faults.add(read_rule({"silence": True}))
    numbers = [found.number for _ in range(3) if (found := faults.decide(produce()))]
    assert numbers == [first, second, second]
    assert faults.remove(second)
    assert not faults.remove(second)
    assert faults.decide(produce()) is None


def test_injection_is_recorded_with_its_request(faults: FaultMachine) -> None:
    faults.add(read_rule({"error": "NOT_LEADER_OR_FOLLOWER", "topic": "t", "partition": 2}))
    faults.decide(produce(1, 2))
    (told,) = faults.happened
    assert told.to_json() == {
        "rule": 1,
        "time_ms": 42,
        "api": "Produce",
        "version": 1,
        "client": "c",
        "partitions": [{"topic": "t", "partition": 2}],
        "error": "NOT_LEADER_OR_FOLLOWER",
    }
    faults.clear()
    assert not faults.happened


def test_oldest_injections_are_dropped(faults: FaultMachine) -> None:
    faults.add(read_rule({"disconnect": True}))
    for _ in range(HAPPENED_MAX + 5):
        faults.decide(produce())
    assert len(faults.happened) == HAPPENED_MAX


def test_rule_matches_partitions_that_the_request_does_not_name(faults: FaultMachine) -> None:
    request = RequestInfo(
        ApiKey.HEARTBEAT, 4, "c", HeartbeatRequest(), lambda _: None, lambda: [("s", 1)] * 2
    )
    assert request.parts == (("s", 1),)
    assert befalls(faults, request, topic="s", partition=1)


def test_skipping_rule_leaves_the_request_to_the_next_rule(
    faults: FaultMachine,
) -> None:
    waiting = faults.add(read_rule({"api": "Produce", "error": "NOT_CONTROLLER", "skip": 1}))
    never = faults.add(read_rule({"api": "Produce", "die": True, "probability": 0}))
    second = faults.add(read_rule({"api": "Produce", "delay_ms": 5}))
    decided = [faults.decide(produce()) for _ in range(2)]
    assert [each and each.number for each in decided] == [second, waiting]
    assert [rule["matched"] for rule in faults.to_json()] == [2, 1, 1]
    faults.remove(never)


def test_rule_with_probability_one_draws_no_number() -> None:
    """So that a seed gives the same draws to the rules that need them."""
    drawn: list[int] = []

    def draw() -> float:
        drawn.append(1)
        return 0.5

    faults = FaultMachine(lambda seed: draw, lambda: 42)
    for probability, is_befallen in ((1, True), (0.51, True), (0.5, False), (0, False)):
        assert befalls(faults, produce(), probability=probability) is is_befallen
    assert len(drawn) == 3


def test_disk_injection_has_the_partition_if_there_is_one() -> None:
    of_partition = LogCall(LogOperation.APPEND, "t-3/0.log", "t", 3)
    of_directory = LogCall(LogOperation.CHECKPOINT, "recovery-point-offset-checkpoint", None, None)
    said = {"rule": 1, "time_ms": 42}
    assert DiskInjection(1, 42, DiskFault.FULL, of_partition, 7).to_json() == {
        **said,
        "disk": "full",
        "on": "append",
        "file": "t-3/0.log",
        "partitions": [{"topic": "t", "partition": 3}],
    }
    assert DiskInjection(1, 42, DiskFault.SLOW, of_directory, 7).to_json() == {
        **said,
        "disk": "slow",
        "on": "checkpoint",
        "file": "recovery-point-offset-checkpoint",
        "partitions": [],
        "delay_ms": 7,
    }


def test_rule_injects_until_it_is_removed_or_cleared(faults: FaultMachine) -> None:
    first = faults.add(read_rule({"die": True}))
    assert faults
    faults.remove(first)
    assert not faults
    second = faults.add(read_rule({"die": True}))
    assert (first, second) == (1, 2), "no number is given twice"
    faults.clear()
    assert not faults
    assert faults.add(read_rule({"die": True})) == 3


def test_rule_that_does_not_match_leaves_the_request_to_the_next_rule(faults: FaultMachine) -> None:
    faults.add(read_rule({"disk": "full"}))
    faults.add(read_rule({"api": "Fetch", "die": True}))
    third = faults.add(read_rule({"api": "Produce", "delay_ms": 5}))
    found = faults.decide(produce())
    assert found is not None
    assert (found.number, found.rule.said, found.action.delay_ms) == (
        third, {"api": "Produce", "delay_ms": 5}, 5,
    )  # fmt: skip
    assert [rule["matched"] for rule in faults.to_json()] == [0, 0, 1]


def test_empty_action_of_a_script_lets_the_request_pass_all_rules(faults: FaultMachine) -> None:
    faults.add(read_rule({"script": [{}, {"die": True}]}))
    faults.add(read_rule({"disconnect": True}))
    assert faults.decide(produce()) is None
    assert not faults.happened
    assert [(rule["matched"], rule["happened"]) for rule in faults.to_json()] == [(1, 1), (0, 0)]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"delay_ms": 3}, {"delay_ms": 3}),
        ({"throttle_ms": 4, "carried_out": True}, {"throttle_ms": 4, "carried_out": True}),
        ({"disconnect": True}, {"ending": "disconnect"}),
        ({"truncate": 9}, {"ending": "truncate", "carried_out": True}),
    ],
)
def test_injection_json_leaves_out_unset_action_fields(
    faults: FaultMachine, said: dict[str, Any], told: dict[str, Any]
) -> None:
    faults.add(read_rule(said))
    faults.decide(asked(HeartbeatRequest(), client=None))
    assert faults.happened[0].to_json() == {
        "rule": 1,
        "time_ms": 42,
        "api": "Heartbeat",
        "version": 1,
        "client": None,
        "partitions": [],
        **told,
    }


def test_rules_are_listed_with_their_json_and_counts(
    faults: FaultMachine,
) -> None:
    said = {"api": "Produce", "disconnect": True}
    number = faults.add(read_rule(said))
    faults.decide(produce())
    assert faults.to_json() == [
        {"rule": number, **said, "matched": 1, "happened": 1, "used_up": False}
    ]


@pytest.mark.parametrize("kind", [LeaderAndIsrRequest, AlterPartitionRequest])
def test_rule_without_api_does_not_match_requests_between_brokers(
    faults: FaultMachine, kind: type[Message]
) -> None:
    request = asked(kind(), client="2")
    assert kind.API_KEY is not None
    assert not befalls(faults, request)
    assert not befalls(faults, request, client="*")
    assert befalls(faults, request, api=API_NAMES[kind.API_KEY])


def test_rule_does_not_match_another_topic_or_transaction(faults: FaultMachine) -> None:
    request = asked(InitProducerIdRequest(transactional_id="x"))
    assert not befalls(faults, request, topic="t")
    assert not befalls(faults, request, transactional_id="x", group="g")
    assert befalls(faults, request, transactional_id="x", client="c")
    assert not befalls(faults, request, transactional_id="x", client="d")


def test_partition_named_twice_is_reported_once(faults: FaultMachine) -> None:
    faults.add(read_rule({"disconnect": True, "topic": "t"}))
    faults.decide(produce(3, 3, 1))
    happened = faults.happened[0]
    assert isinstance(happened, Injection)
    assert happened.parts == (("t", 3), ("t", 1))
