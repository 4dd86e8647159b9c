"""Cases of ShareGroupDescribe: each state, unknown groups, other requests about a share group."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.delete_groups import DeleteGroupsRequest
from kwire.codecs.messages.describe_groups import DescribeGroupsRequest
from kwire.codecs.messages.list_groups import ListGroupsRequest
from kwire.codecs.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.conformance.access.requests import GROUP
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import create_stable_group
from kwire.conformance.wire.cases.consumer_group import join as join_consumer_group
from kwire.conformance.wire.cases.share_group import heartbeat, join, join_until_assigned, new_group
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.SHARE_GROUP_DESCRIBE)


def access_request(version: int, topic_id: bytes) -> ShareGroupDescribeRequest:
    return ShareGroupDescribeRequest([GROUP], True)


@case("each state")
def states(stage: Stage) -> None:
    """A share group is described with one, two and no members, and after its deletion.

    Other requests are asked about the group, such as a join with the consumer protocol.
    """
    group, topic = new_group(stage), stage.topic(partitions=2)
    request = ShareGroupDescribeRequest([group], True)
    join_until_assigned(stage, group, "first", topic)
    stage.send(request)
    stage.ask(join(group, "second", topic, "gone"))
    stage.send(request)
    stage.send(ListGroupsRequest(types_filter=["share"]))
    stage.send(DescribeGroupsRequest([group]))
    stage.send(join_consumer_group(group, "m", topic))
    stage.send(DeleteGroupsRequest([group]))
    stage.ask(heartbeat(group, "first", -1))
    stage.ask(heartbeat(group, "second", -1))
    stage.send(request)
    stage.send(DeleteGroupsRequest([group]))
    stage.send(request)
    join_until_assigned(stage, group, "again", topic)


@case("groups that are not there, or of another kind")
def others(stage: Stage) -> None:
    create_stable_group(stage, stage.name("g"))
    stage.send(ShareGroupDescribeRequest([stage.name("g"), stage.name("none"), ""], True))
    stage.send(ShareGroupDescribeRequest([]))
