"""Cases of DescribeGroups: each state, and unknown groups."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.describe_groups import DescribeGroupsRequest
from kwire.conformance.access.requests import GROUP
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import (
    commit,
    create_empty_group,
    create_stable_group,
    filled_topic,
    join,
    join_first_member,
    start_rebalance,
)
from kwire.conformance.wire.cases.consumer_group import groups_in_each_state
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.DESCRIBE_GROUPS)


def access_request(version: int, topic_id: bytes) -> DescribeGroupsRequest:
    return DescribeGroupsRequest([GROUP], version >= 3)


@case("each state")
def states(stage: Stage) -> None:
    """Groups in five states are described, first each alone, then all in one request."""
    names = [stage.name(f"g{number}") for number in range(5)]
    create_stable_group(stage, names[0])
    join_first_member(stage, names[1])
    create_empty_group(stage, names[2])
    stage.ask(commit(names[3], filled_topic(stage)))
    stage.ask(join(names[4]), 4)  # has received its member id, but has not joined yet
    for name in names:
        stage.send(DescribeGroupsRequest([name]))
    stage.send(DescribeGroupsRequest(names))


@case("while members join")
def while_joining(stage: Stage) -> None:
    """A group is described during a rebalance."""
    group = stage.name("g")
    member = start_rebalance(stage, group, "second")
    stage.send(DescribeGroupsRequest([group]))
    stage.ask(join(group, member.member_id), 4)
    stage.end("second")


@case("a static member", since=4)
def static(stage: Stage) -> None:
    create_stable_group(stage, stage.name("g"), instance=stage.name("i"))
    stage.send(DescribeGroupsRequest([stage.name("g")]))


@case("authorized operations", since=3)
def operations(stage: Stage) -> None:
    create_stable_group(stage, stage.name("g"))
    stage.send(DescribeGroupsRequest([stage.name("g"), stage.name("none")], True))


@case("consumer groups in each state")
def consumer(stage: Stage) -> None:
    topic = stage.topic(partitions=3)
    for group in groups_in_each_state(stage, topic).values():
        stage.send(DescribeGroupsRequest([group], True))


case.requests(
    {
        "an unknown group": lambda stage: DescribeGroupsRequest([stage.name("g")]),
        "the empty group": lambda stage: DescribeGroupsRequest([""]),
        "the same group twice": lambda stage: DescribeGroupsRequest([stage.name("g")] * 2),
    }
)
