"""Cases of DeleteGroups: groups in each state."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.codecs.messages.delete_groups import DeleteGroupsRequest
from kwire.conformance.access.requests import GROUP
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import (
    commit,
    create_empty_group,
    create_stable_group,
    filled_topic,
    join,
    join_first_member,
)
from kwire.conformance.wire.cases.consumer_group import groups_in_each_state
from kwire.conformance.wire.cases.consumer_group import join as join_consumer
from kwire.conformance.wire.cases.offset_fetch import ask as ask_offsets
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.DELETE_GROUPS)


def access_request(version: int, topic_id: bytes) -> DeleteGroupsRequest:
    return DeleteGroupsRequest([GROUP])


@case("each state, twice")
def states(stage: Stage) -> None:
    """Groups in five states are deleted twice: stable, awaiting sync, empty, with offsets only,
    joining. The committed offsets of the fourth group are read at the end."""
    names = [stage.name(f"g{number}") for number in range(5)]
    create_stable_group(stage, names[0])
    join_first_member(stage, names[1])
    create_empty_group(stage, names[2])
    stage.ask(commit(names[3], filled_topic(stage)))
    stage.ask(join(names[4]), 4)
    for _ in range(2):
        for name in names:
            stage.send(DeleteGroupsRequest([name]))
    stage.send(ask_offsets(names[3], None), 8)


@case("several at once")
def several(stage: Stage) -> None:
    """One request deletes an empty group, a group with a member and a missing one."""
    names = [stage.name(f"g{number}") for number in range(3)]
    stage.ask(commit(names[0], filled_topic(stage)))
    create_stable_group(stage, names[1])
    stage.send(DeleteGroupsRequest(names))


@case("consumer groups in each state")
def consumer(stage: Stage) -> None:
    """Consumer groups in each state are deleted twice; the group without members loses its
    offsets."""
    topic = stage.topic(partitions=3)
    names = list(groups_in_each_state(stage, topic).values())
    stage.ask(commit(names[-1], topic))
    stage.send(DeleteGroupsRequest(names))
    stage.send(ask_offsets(names[-1], None), 8)
    stage.send(DeleteGroupsRequest(names))
    stage.send(ConsumerGroupDescribeRequest(names))
    stage.send(join_consumer(names[-1], "m", topic))


case.requests(
    {
        "an unknown group": lambda stage: DeleteGroupsRequest([stage.name("g")]),
        "the empty group": lambda stage: DeleteGroupsRequest([""]),
        "the same group twice": lambda stage: DeleteGroupsRequest([stage.name("g")] * 2),
    }
)
