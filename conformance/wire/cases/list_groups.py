"""Cases of ListGroups: all groups, by state and by type."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.list_groups import ListGroupsRequest
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
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.LIST_GROUPS)


def access_request(version: int, topic_id: bytes) -> ListGroupsRequest:
    return ListGroupsRequest()


def _groups(stage: Stage) -> None:
    """Create a classic group in each state that lasts, and one of another protocol type."""
    create_stable_group(stage, stage.name("stable"))
    join_first_member(stage, stage.name("awaiting"))
    create_empty_group(stage, stage.name("empty"))
    stage.ask(commit(stage.name("offsets"), filled_topic(stage)))
    stage.ask(join(stage.name("pending")), 4)
    create_stable_group(stage, stage.name("connect"), protocol_type="connect")


@case("all")
def everything(stage: Stage) -> None:
    _groups(stage)
    stage.send(ListGroupsRequest())


@case("by state", since=4)
def by_state(stage: Stage) -> None:
    _groups(stage)
    for states in (["Stable"], ["stable"], ["EMPTY", "Dead"], ["CompletingRebalance"], ["x", ""]):
        stage.send(ListGroupsRequest(states))


@case("by type", since=5)
def by_type(stage: Stage) -> None:
    """Groups are filtered by type, in upper and lower case, with unknown types and with a state."""
    _groups(stage)
    for types in (
        ["classic"],
        ["Classic"],
        ["CONSUMER"],
        ["consumer", "classic"],
        ["x"],
        ["share"],
    ):
        stage.send(ListGroupsRequest(types_filter=types))
    stage.send(ListGroupsRequest(["Stable"], ["classic"]))


@case("consumer groups in each state")
def consumer(stage: Stage) -> None:
    """Consumer groups in each state are listed, by state (version 4 on) and by type (5 on)."""
    topic = stage.topic(partitions=3)
    groups_in_each_state(stage, topic)
    stage.send(ListGroupsRequest())
    if stage.version < 4:
        return
    for states in (["Reconciling"], ["stable", "empty"], ["Assigning"], ["PreparingRebalance"]):
        stage.send(ListGroupsRequest(states))
    if stage.version < 5:
        return
    for types in (["consumer"], ["Consumer", "classic"]):
        stage.send(ListGroupsRequest([], types))
