"""Which requests a rule befalls."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.codecs.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codecs.primitives import Message
from kwire.faults.disk import Disk, OnDisk, Operation, Touched
from kwire.faults.machine import HAPPENED_MAX, HELPERS, Asked, Faults
from kwire.faults.rules import read_rule

ID = bytes(15) + b"\1"


@pytest.fixture
def faults() -> Faults:
    return Faults(lambda seed: random.Random(seed).random, lambda: 42)


def produce(*partitions: int, topic: str = "t", client: str | None = "c") -> Asked:
    data = [PartitionProduceData(index) for index in partitions or (0,)]
    request = ProduceRequest(topic_data=[TopicProduceData(topic, partition_data=data)])
    return asked(request, client)


def asked(request: Message, client: str | None = "c") -> Asked:
    key = request.API_KEY
    assert key is not None
    return Asked(key, 1, client, request, {ID: "by-id"}.get)


def befalls(faults: Faults, request: Asked, **rule: Any) -> bool:  # noqa: ANN401 - any JSON
    number = faults.add(read_rule({"disconnect": True, **rule}))
    found = faults.decide(request)
    faults.remove(number)
    return found is not None


def test_without_rules_nothing_happens(faults: Faults) -> None:
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
def test_what_a_rule_is_about(faults: Faults, rule: dict[str, Any], is_about_it: bool) -> None:
    assert befalls(faults, produce(0, 2), **rule) is is_about_it


def test_topics_by_id_and_as_a_whole(faults: Faults) -> None:
    by_id = ProduceRequest(
        topic_data=[TopicProduceData(topic_id=ID, partition_data=[PartitionProduceData(0)])]
    )
    assert befalls(faults, asked(by_id), topic="by-id")
    whole = asked(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
    assert befalls(faults, whole, topic="t")
    assert befalls(faults, whole, topic="t", partition=7)
    assert not befalls(faults, whole, topic="u")
    assert not befalls(faults, asked(MetadataRequest(topics=None)), topic="t")


def test_groups_and_transactions(faults: Faults) -> None:
    heartbeat = asked(HeartbeatRequest(group_id="g"))
    assert befalls(faults, heartbeat, group="g")
    assert not befalls(faults, heartbeat, group="h")
    several = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="h")])
    assert befalls(faults, asked(several), group="h")
    begin = asked(InitProducerIdRequest(transactional_id="x"))
    assert befalls(faults, begin, transactional_id="x")
    assert not befalls(faults, begin, transactional_id="y")


def test_helpers_are_befallen_only_by_name(faults: Faults) -> None:
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
def test_other_brokers_are_befallen_only_by_name(faults: Faults, client: str) -> None:
    assert not befalls(faults, produce(client=client))
    assert befalls(faults, produce(client=client), client=client)
    assert befalls(faults, produce(client=f"my-{client}"))


def test_how_often(faults: Faults) -> None:
    faults.add(read_rule({"disconnect": True, "skip": 2, "times": 3}))
    found = [faults.decide(produce()) is not None for _ in range(8)]
    assert found == [False, False, True, True, True, False, False, False]
    (told,) = faults.to_json()
    assert (told["matched"], told["happened"], told["used_up"]) == (5, 3, True)


def test_a_script_is_played_once_or_as_often_as_is_said(faults: Faults) -> None:
    steps = [{"error": "NOT_COORDINATOR"}, {}, {"delay_ms": 1}]
    faults.add(read_rule({"script": steps}))
    once = [faults.decide(produce()) for _ in range(4)]
    assert [found is not None for found in once] == [True, False, True, False]
    faults.clear()
    faults.add(read_rule({"script": steps, "times": 4}))
    again = [faults.decide(produce()) for _ in range(5)]
    assert [found is not None for found in again] == [True, False, True, True, False]


def test_chance_depends_on_the_seed_alone(faults: Faults) -> None:
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


def test_the_first_rule_that_is_not_used_up_decides(faults: Faults) -> None:
    first = faults.add(read_rule({"disconnect": True, "times": 1}))
    second = faults.add(read_rule({"silence": True}))
    numbers = [found.number for _ in range(3) if (found := faults.decide(produce()))]
    assert numbers == [first, second, second]
    assert faults.remove(second)
    assert not faults.remove(second)
    assert faults.decide(produce()) is None


def test_what_happened_is_told(faults: Faults) -> None:
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


def test_what_is_remembered_is_bounded(faults: Faults) -> None:
    faults.add(read_rule({"disconnect": True}))
    for _ in range(HAPPENED_MAX + 5):
        faults.decide(produce())
    assert len(faults.happened) == HAPPENED_MAX


def test_what_a_request_is_about_and_does_not_name(faults: Faults) -> None:
    request = Asked(
        ApiKey.HEARTBEAT, 4, "c", HeartbeatRequest(), lambda _: None, lambda: [("s", 1)] * 2
    )
    assert request.parts == (("s", 1),)
    assert befalls(faults, request, topic="s", partition=1)


def test_rule_whose_turn_it_is_not_leaves_the_request_to_the_next_rule(faults: Faults) -> None:
    waiting = faults.add(read_rule({"api": "Produce", "error": "NOT_CONTROLLER", "skip": 1}))
    never = faults.add(read_rule({"api": "Produce", "die": True, "probability": 0}))
    second = faults.add(read_rule({"api": "Produce", "delay_ms": 5}))
    decided = [faults.decide(produce()) for _ in range(2)]
    assert [each and each.number for each in decided] == [second, waiting]
    assert [rule["matched"] for rule in faults.to_json()] == [2, 1, 1]
    faults.remove(never)


def test_certain_rule_draws_nothing() -> None:
    """So that a seed gives the same draws to the rules that need them."""
    drawn: list[int] = []

    def draw() -> float:
        drawn.append(1)
        return 0.5

    faults = Faults(lambda seed: draw, lambda: 42)
    for probability, is_befallen in ((1, True), (0.51, True), (0.5, False), (0, False)):
        assert befalls(faults, produce(), probability=probability) is is_befallen
    assert len(drawn) == 3


def test_call_of_a_disk_is_told_with_its_partition_where_it_has_one() -> None:
    of_partition = Touched(Operation.APPEND, "t-3/0.log", "t", 3)
    of_directory = Touched(Operation.CHECKPOINT, "recovery-point-offset-checkpoint", None, None)
    said = {"rule": 1, "time_ms": 42}
    assert OnDisk(1, 42, Disk.FULL, of_partition, 7).to_json() == {
        **said,
        "disk": "full",
        "on": "append",
        "file": "t-3/0.log",
        "partitions": [{"topic": "t", "partition": 3}],
    }
    assert OnDisk(1, 42, Disk.SLOW, of_directory, 7).to_json() == {
        **said,
        "disk": "slow",
        "on": "checkpoint",
        "file": "recovery-point-offset-checkpoint",
        "partitions": [],
        "delay_ms": 7,
    }
