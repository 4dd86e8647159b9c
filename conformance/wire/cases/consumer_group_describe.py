"""Cases of ConsumerGroupDescribe: each state, and unknown groups."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.codecs.messages.describe_groups import DescribeGroupsRequest
from kwire.codecs.messages.list_groups import ListGroupsRequest
from kwire.conformance.access.requests import GROUP
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import create_stable_group
from kwire.conformance.wire.cases.consumer_group import (
    heartbeat,
    join,
    new_group,
    owning,
    start_handover,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.CONSUMER_GROUP_DESCRIBE)


def access_request(version: int, topic_id: bytes) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest([GROUP], True)


@case("each state")
def states(stage: Stage) -> None:
    """A consumer group is described in each state, from the first member until the last has left.

    DescribeGroups and ListGroups are then asked about the same group.
    """
    topic, group = stage.topic(partitions=3), new_group(stage)
    request = ConsumerGroupDescribeRequest([group])
    stage.ask(join(group, "first", topic, rack_id="r", server_assignor="range"))
    stage.send(request)
    start_handover(stage, group, topic)
    stage.send(request)
    stage.ask(heartbeat(group, "first", 2, owning(topic, 0)))
    stage.send(request)
    stage.ask(heartbeat(group, "second", 3))
    stage.send(request)
    stage.ask(heartbeat(group, "first", -1))
    stage.send(request)
    stage.ask(heartbeat(group, "second", -1))
    stage.send(request)
    stage.send(DescribeGroupsRequest([group]))
    stage.send(ListGroupsRequest(types_filter=["consumer"]))


@case("a static member that is away")
def away(stage: Stage) -> None:
    """A static member that has left for a while (epoch -2) is still described."""
    topic, group = stage.topic(partitions=2), new_group(stage)
    stage.ask(join(group, "m", topic, instance_id="i"))
    stage.ask(heartbeat(group, "m", -2, instance_id="i"))
    stage.send(ConsumerGroupDescribeRequest([group]))


@case("operations")
def operations(stage: Stage) -> None:
    group = new_group(stage)
    stage.ask(join(group, "m", "nowhere"))
    stage.send(ConsumerGroupDescribeRequest([group, stage.name("none")], True))


@case("a classic group")
def classic(stage: Stage) -> None:
    create_stable_group(stage, stage.name("g"))
    stage.send(ConsumerGroupDescribeRequest([stage.name("g")]))


case.requests(
    {
        "no group": lambda stage: ConsumerGroupDescribeRequest([]),
        "an unknown group": lambda stage: ConsumerGroupDescribeRequest([stage.name("g")]),
        "the empty group": lambda stage: ConsumerGroupDescribeRequest([""]),
        "the same group twice": lambda stage: ConsumerGroupDescribeRequest([stage.name("g")] * 2),
    }
)
