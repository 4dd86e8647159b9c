"""Cases of StreamsGroupTopologyDescriptionUpdate: what members send, and what the plug-in answers.

Both brokers have a plug-in that keeps descriptions, or fails, as the id of the group says
(kwire.conformance.topology_keeper).
"""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.delete_groups import DeleteGroupsRequest
from kwire.codecs.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.codecs.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from kwire.conformance.access.requests import GROUP
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import create_stable_group, join_first_member
from kwire.conformance.wire.cases.consumer_group import join as join_consumer_group
from kwire.conformance.wire.cases.streams_group import copying, heartbeat, join, new_group
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE)

SOURCE, PROCESSOR, SINK = 1, 2, 3


def access_request(version: int, topic_id: bytes) -> StreamsGroupTopologyDescriptionUpdateRequest:
    return StreamsGroupTopologyDescriptionUpdateRequest(GROUP, "member", 0, TopologyDescription())


def node(name: str, kind: int) -> TopologyDescriptionNode:
    """Return a node with all fields set, also those that its type does not have."""
    return TopologyDescriptionNode(name, kind, ["t", "a", "t"], "out", ["s2", "s1"], ["next", "b"])


def description(*kinds: int) -> TopologyDescription:
    """Return a description with a node of each of these types, and a global store."""
    nodes = [node(f"n{number}", kind) for number, kind in enumerate(kinds)]
    sink = TopologyDescriptionNode("dynamic", SINK)
    store = TopologyDescriptionGlobalStore(node("gs", SOURCE), node("gp", PROCESSOR))
    return TopologyDescription([TopologyDescriptionSubtopology("0", [*nodes, sink])], [store])


FULL = SOURCE, PROCESSOR, SINK


def update(
    group: str,
    member: str = "m",
    epoch: int = 0,
    sent: TopologyDescription | None = None,
) -> StreamsGroupTopologyDescriptionUpdateRequest:
    """Return the request with a full description, if none is given."""
    given = description(*FULL) if sent is None else sent
    return StreamsGroupTopologyDescriptionUpdateRequest(group, member, epoch, given)


def describe(stage: Stage, group: str) -> None:
    """Describe a group with and without its topology description."""
    for wanted in (True, False):
        stage.send(StreamsGroupDescribeRequest([group], False, wanted))


def _joined(stage: Stage, suffix: str = "g", epoch: int = 0) -> str:
    """Return a group with the member "m", whose first heartbeat asks for the description."""
    group = new_group(stage, suffix)
    stage.send(join(group, "m", copying("gone", epoch=epoch)))
    return group


@case("a description, from being asked for to being deleted")
def whole_life(stage: Stage) -> None:
    """One member is asked for the description and sends it; it is described, replaced, deleted."""
    group = _joined(stage)
    stage.send(join(group, "other", copying("gone")))
    describe(stage, group)
    stage.send(update(group))
    describe(stage, group)
    stage.send(heartbeat(group, "m", 2))
    stage.send(update(group, "other", sent=description(PROCESSOR)))
    describe(stage, group)
    stage.send(update(group, sent=TopologyDescription()))
    describe(stage, group)
    stage.send(DeleteGroupsRequest([group]))
    for member in ("m", "other"):
        stage.send(heartbeat(group, member, -1))
    describe(stage, group)
    stage.send(DeleteGroupsRequest([group]))
    describe(stage, group)
    stage.send(join(group, "m", copying("gone")))
    describe(stage, group)


@case("a description that nobody has asked for")
def unasked(stage: Stage) -> None:
    """A member sends the description before version 1 of its heartbeat asks for it."""
    group = new_group(stage)
    stage.send(join(group, "m", copying("gone")), 0)
    stage.send(update(group))
    stage.send(heartbeat(group, "m", 2))
    describe(stage, group)


@case("a plug-in that fails")
def failing(stage: Stage) -> None:
    """The plug-in fails to store, and refuses for good; heartbeats and descriptions follow."""
    for suffix in ("fails", "refuses"):
        group = _joined(stage, suffix)
        for _ in range(2):
            stage.send(update(group))
            stage.send(heartbeat(group, "m", 2))
        stage.send(join(group, "other", copying("gone")))
        describe(stage, group)
        for member in ("m", "other"):
            stage.ask(heartbeat(group, member, -1))
        stage.send(DeleteGroupsRequest([group]))


@case("a plug-in that does not return what it stored")
def unreadable(stage: Stage) -> None:
    for suffix in ("unreadable", "forgets"):
        group = _joined(stage, suffix)
        stage.send(update(group))
        describe(stage, group)


@case("a plug-in that does not delete")
def undeletable(stage: Stage) -> None:
    """Groups are deleted together; of one of them the plug-in cannot delete the description."""
    names = [_joined(stage, suffix) for suffix in ("undeletable", "never", "g")]
    for group in (names[0], names[2]):
        stage.send(update(group))
    for group in names:
        stage.ask(heartbeat(group, "m", -1))
    for version in (2, 3):
        stage.send(DeleteGroupsRequest([*names, stage.name("none")]), version)
    stage.send(StreamsGroupDescribeRequest(names, False, True))
    join_first_member(stage, names[2])


@case("a classic member that replaces a group with a description")
def replaced(stage: Stage) -> None:
    group = _joined(stage)
    stage.send(update(group))
    stage.ask(heartbeat(group, "m", -1))
    join_first_member(stage, group)
    stage.send(StreamsGroupDescribeRequest([group], False, True))


@case("epochs of topologies")
def epochs(stage: Stage) -> None:
    """Descriptions of an older, the present and a newer topology, and of none."""
    group = _joined(stage, epoch=3)
    for epoch in (2, 4, 0, -1, 3, 2):
        stage.send(update(group, epoch=epoch))
    describe(stage, group)


@case("senders that are not members")
def strangers(stage: Stage) -> None:
    """Unknown members, and groups that are unknown or of another kind."""
    group = _joined(stage)
    stage.send(update(group, "nobody"))
    stage.send(update(stage.name("none")))
    create_stable_group(stage, stage.name("classic"))
    stage.send(update(stage.name("classic")))
    stage.ask(join_consumer_group(stage.name("consumer"), "m", "t"))
    stage.send(update(stage.name("consumer")))


@case("descriptions that make no sense")
def senseless(stage: Stage) -> None:
    """Nodes of unknown types, and global stores of other nodes; the group's error comes first."""
    group = _joined(stage)
    for kind in (0, 4, 9, -1):
        stage.send(update(group, sent=description(SOURCE, kind)))
    for kinds in ((PROCESSOR, SOURCE), (SOURCE, SINK), (7, PROCESSOR)):
        store = TopologyDescriptionGlobalStore(*(node("g", kind) for kind in kinds))
        stage.send(update(group, sent=TopologyDescription([], [store])))
    stage.send(update(group, "nobody", sent=description(9)))
    describe(stage, group)


case.requests(
    {
        "no member id": lambda stage: update(stage.name("g"), ""),
        "a blank member id": lambda stage: update(stage.name("g"), " "),
        "the empty group": lambda stage: update(""),
        "neither": lambda stage: update("", ""),
    }
)
