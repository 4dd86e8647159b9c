"""Cases of StreamsGroupDescribe: each state, unknown groups, and other requests about a group."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.delete_groups import DeleteGroupsRequest
from kwire.codecs.messages.describe_groups import DescribeGroupsRequest
from kwire.codecs.messages.list_groups import ListGroupsRequest
from kwire.codecs.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.codecs.messages.streams_group_heartbeat import Endpoint, KeyValue
from kwire.conformance.access.requests import GROUP
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import create_stable_group, join_first_member
from kwire.conformance.wire.cases.consumer_group import join as join_consumer_group
from kwire.conformance.wire.cases.streams_group import (
    configure,
    copying,
    counting,
    heartbeat,
    join,
    join_until_assigned,
    new_group,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.STREAMS_GROUP_DESCRIBE)


def access_request(version: int, topic_id: bytes) -> StreamsGroupDescribeRequest:
    return StreamsGroupDescribeRequest([GROUP], True)


@case("each state")
def states(stage: Stage) -> None:
    """A streams group is described with one, two and no members, and after its deletion.

    Other requests are asked about the group, such as a join with the consumer protocol.
    """
    topic, group = stage.topic(partitions=2), new_group(stage)
    request = StreamsGroupDescribeRequest([group], True)
    topology = counting(stage, topic)
    tags, endpoint = [KeyValue("zone", "a")], Endpoint("h", 1)
    join_until_assigned(stage, join(group, "first", topology, client_tags=tags, rack_id="r"))
    stage.send(request)
    stage.ask(join(group, "second", topology, user_endpoint=endpoint))
    stage.send(request)
    stage.ask(heartbeat(group, "first", 4, ("0", [0, 1]), ("1", [0, 1])))
    stage.send(request)
    stage.send(ListGroupsRequest(types_filter=["streams"]))
    stage.send(DescribeGroupsRequest([group]))
    stage.send(join_consumer_group(group, "m", topic))
    stage.send(DeleteGroupsRequest([group]))
    stage.ask(heartbeat(group, "first", -1))
    stage.ask(heartbeat(group, "second", -1))
    stage.send(request)
    stage.send(DeleteGroupsRequest([group]))
    stage.send(request)
    stage.send(join(group, "again", topology))
    stage.send(request)


@case("a group whose topics are missing")
def not_ready(stage: Stage) -> None:
    """A streams group whose source topic is missing is described and listed."""
    group = new_group(stage)
    stage.ask(join(group, "m", copying("gone")))
    stage.send(StreamsGroupDescribeRequest([group]))
    stage.send(ListGroupsRequest(types_filter=["streams"]))


@case("a group that is to be assigned")
def assigning(stage: Stage) -> None:
    """A streams group that delays its first assignment (by 10 minutes) is described."""
    group, topic = stage.name("g"), stage.topic()
    configure(stage, group, **{"streams.initial.rebalance.delay.ms": "600000"})
    stage.ask(join(group, "m", copying(topic)))
    stage.send(StreamsGroupDescribeRequest([group]))


@case("a classic group that becomes one, and back")
def converted(stage: Stage) -> None:
    """A classic member joins an empty streams group, which becomes a classic group."""
    topic, group = stage.topic(), new_group(stage)
    stage.ask(join(group, "m", copying(topic)))
    stage.ask(heartbeat(group, "m", -1))
    join_first_member(stage, group)
    stage.send(DescribeGroupsRequest([group]))
    stage.send(StreamsGroupDescribeRequest([group]))


@case("groups that are not there, or of another kind")
def others(stage: Stage) -> None:
    create_stable_group(stage, stage.name("g"))
    stage.send(StreamsGroupDescribeRequest([stage.name("g"), stage.name("none"), ""], True))
    stage.send(StreamsGroupDescribeRequest([]))
