"""Topology descriptions of streams groups: what members send, and what is described and deleted."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest
import trio

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import streams_group_describe as describe
from kwire.codecs.messages.delete_groups import DeleteGroupsRequest
from kwire.codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.codecs.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.codecs.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from kwire.codecs.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from kwire.conformance.topology_keeper import OWN_SETTINGS, SETTING, TopologyKeeper
from kwire.coordinators.runtime.description_plugins import (
    FILE_NAME,
    DescriptionPlugin,
    TopologyFile,
)
from kwire.coordinators.runtime.descriptions import Pauses, TopologyDescriptions
from tests.requests.handlers.node import Node

FILE = {SETTING: "kwire.coordinators.runtime.description_plugins.TopologyFile"}
JAVA = {SETTING: "com.example.Keeper"}
SETTINGS = {"group.streams.initial.rebalance.delay.ms": "0"}
OK, UNSUPPORTED = ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION
NOT_REQUESTED, NOT_STORED, FAILED, AVAILABLE = range(4)

MakeNode = Callable[..., Node]


def started(make_node: MakeNode, plugin: dict[str, str] | None = None) -> Node:
    """A broker with the partition of `__consumer_offsets`."""
    node = make_node({**SETTINGS, **(OWN_SETTINGS if plugin is None else plugin)})
    node.broker.coordinators.groups.partitions = 1
    node.create("__consumer_offsets")
    return node


def beat(
    node: Node, group: str, member: str = "m", epoch: int = 0, version: int = 1
) -> StreamsGroupHeartbeatResponse:
    """The response to a heartbeat; with epoch 0 the member joins."""
    joining = epoch == 0
    tasks: list[Any] | None = [] if joining else None
    request = StreamsGroupHeartbeatRequest(
        group,
        member,
        epoch,
        rebalance_timeout_ms=1000 if joining else -1,
        topology=Topology(0, [Subtopology("0", source_topics=["gone"])]) if joining else None,
        active_tasks=tasks,
        standby_tasks=tasks,
        warmup_tasks=tasks,
        process_id="p",
        client_tags=[],
    )
    response: StreamsGroupHeartbeatResponse = node.call(request, version)
    return response


def asked(node: Node, group: str, member: str = "m", epoch: int = 0, version: int = 1) -> bool:
    required: bool = beat(node, group, member, epoch, version).topology_description_required
    return required


def full(*kinds: int) -> TopologyDescription:
    source, processor = (TopologyDescriptionNode(name, kind) for name, kind in (("s", 1), ("p", 2)))
    nodes = [TopologyDescriptionNode(str(kind), kind, ["t"], "t", ["s"]) for kind in kinds]
    store = TopologyDescriptionGlobalStore(source, processor)
    return TopologyDescription([TopologyDescriptionSubtopology("0", nodes)], [store])


async def send(
    node: Node,
    group: str,
    member: str = "m",
    epoch: int = 0,
    sent: TopologyDescription | None = None,
) -> tuple[ErrorCode, str | None]:
    given = full(1, 2, 3) if sent is None else sent
    request = StreamsGroupTopologyDescriptionUpdateRequest(group, member, epoch, given)
    response, _ = await node.wait_for(request, 0)
    return ErrorCode(response.error_code), response.error_message


async def described(node: Node, group: str) -> tuple[int, describe.TopologyDescription | None]:
    """The status and the description of a group's topology."""
    response, _ = await node.wait_for(StreamsGroupDescribeRequest([group], False, True), 1)
    return response.groups[0].topology_description_status, response.groups[0].topology_description


async def delete(node: Node, *groups: str, version: int = 3) -> list[tuple[int, str | None]]:
    response, _ = await node.wait_for(DeleteGroupsRequest([*groups]), version)
    return [(each.error_code, each.error_message) for each in response.results]


@pytest.mark.parametrize("plugin", [{}, JAVA])
async def test_broker_without_a_plugin_refuses_before_anything_else_and_never_asks(
    make_node: MakeNode, plugin: dict[str, str]
) -> None:
    node = started(make_node, plugin)
    response = node.call(StreamsGroupTopologyDescriptionUpdateRequest(), 0)
    assert (response.error_code, response.error_message) == (
        UNSUPPORTED,
        "The broker has no streams group topology description plugin configured.",
    )
    assert not asked(node, "g")
    for wanted, status in ((True, NOT_STORED), (False, NOT_REQUESTED)):
        request = StreamsGroupDescribeRequest(["g", "none"], False, wanted)
        group, missing = node.call(request, 1).groups
        assert (group.topology_description_status, group.assignor_name) == (status, "sticky")
        assert (missing.topology_description_status, missing.assignor_name) == (NOT_REQUESTED, None)
    assert node.call(DeleteGroupsRequest(["none"]), 3).results[0].error_message is None


async def test_description_is_asked_for_once_stored_described_and_deleted(
    make_node: MakeNode,
) -> None:
    node = started(make_node)
    assert not asked(node, "g", "old", version=0)
    assert asked(node, "g")
    assert not asked(node, "g", "other")
    assert not asked(node, "g", epoch=2)
    assert await described(node, "g") == (NOT_STORED, None)
    assert await send(node, "g") == (OK, None)
    status, description = await described(node, "g")
    assert status == AVAILABLE
    assert description is not None
    assert [each.node_type for each in description.subtopologies[0].nodes] == [1, 2, 3]
    assert await send(node, "g", sent=TopologyDescription()) == (OK, None)
    status, description = await described(node, "g")
    assert status == AVAILABLE
    assert description is not None
    assert (description.subtopologies, description.global_stores) == ([], [])
    for member in ("m", "other", "old"):
        beat(node, "g", member, -1)
    assert await delete(node, "g") == [(OK, None)]
    keeper = node.broker.coordinators.groups.descriptions
    assert keeper is not None
    assert not keeper.has_any("g")


async def test_wrong_senders_and_descriptions_are_refused(make_node: MakeNode) -> None:
    node = started(make_node)
    beat(node, "g")
    empty = ErrorCode.INVALID_REQUEST
    request = StreamsGroupTopologyDescriptionUpdateRequest("g", " ")
    assert node.call(request, 0).error_message == "MemberId can't be empty."
    request = StreamsGroupTopologyDescriptionUpdateRequest("", "m")
    assert node.call(request, 0).error_message == "GroupId can't be empty."
    assert await send(node, "none") == (ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found.")
    assert (await send(node, "g", "x"))[0] == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await send(node, "g", epoch=1))[0] == empty
    assert await send(node, "g", sent=full(9)) == (empty, "Unknown topology node type: 9")
    assert await described(node, "g") == (NOT_STORED, None)


async def test_plugin_that_fails_is_asked_again_later_and_one_that_refuses_never(
    make_node: MakeNode,
) -> None:
    node, now = started(make_node), [0]
    groups = node.broker.coordinators.groups
    groups.runtime.now_ms = lambda: now[0]
    groups.descriptions = TopologyDescriptions(
        groups, cast("DescriptionPlugin", TopologyKeeper({}))
    )
    failed = ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
    for group, message in (("fails", "cannot store 0"), ("refuses", "never stores 0")):
        assert asked(node, group)
        assert await send(node, group) == (failed, message)
        assert await described(node, group) == (NOT_STORED, None)
        assert not asked(node, group, epoch=2)
    now[0] = 80_000
    assert asked(node, "fails", epoch=2)
    assert not asked(node, "refuses", epoch=2)


async def test_description_that_the_plugin_does_not_return_has_its_status(
    make_node: MakeNode,
) -> None:
    node = started(make_node)
    for group, status in (("unreadable", FAILED), ("forgets", NOT_STORED)):
        beat(node, group)
        assert await send(node, group) == (OK, None)
        assert await described(node, group) == (status, None)


async def test_group_stays_if_the_plugin_cannot_delete_its_description(
    make_node: MakeNode,
) -> None:
    node = started(make_node)
    for group in ("undeletable", "g"):
        beat(node, group)
        await send(node, group)
        beat(node, group, epoch=-1)
    message = "Topology description plugin failed to delete the topology."
    groups = ("undeletable", "g", "none")
    old = await delete(node, *groups, version=2)
    assert [error for error, _ in old] == [ErrorCode.UNKNOWN_SERVER_ERROR, OK, 69]
    assert await delete(node, *groups) == [
        (ErrorCode.GROUP_DELETION_FAILED, message),
        (ErrorCode.GROUP_ID_NOT_FOUND, None),
        (ErrorCode.GROUP_ID_NOT_FOUND, None),
    ]


async def test_classic_member_replaces_a_group_once_its_description_is_deleted(
    make_node: MakeNode,
) -> None:
    node = started(make_node)
    protocols = [JoinGroupRequestProtocol("range", b"")]
    for group, error in (("g", ErrorCode.MEMBER_ID_REQUIRED), ("undeletable", 27)):
        beat(node, group)
        await send(node, group)
        beat(node, group, epoch=-1)
        request = JoinGroupRequest(group, 10_000, 1000, "", None, "consumer", protocols)
        for _ in range(2):
            reply = node.start(request, 5)
            response = await reply if hasattr(reply, "__await__") else reply
            assert response.error_code == error
    keeper = node.broker.coordinators.groups.descriptions
    assert keeper is not None
    assert (keeper.has_any("g"), keeper.has_any("undeletable")) == (False, True)


async def test_cleaner_deletes_descriptions_of_groups_without_members(
    make_node: MakeNode,
) -> None:
    node = started(make_node)
    keeper = node.broker.coordinators.groups.descriptions
    assert keeper is not None
    for group in ("g", "used"):
        beat(node, group)
        await send(node, group)
    beat(node, "g", epoch=-1)
    await keeper.clean()
    assert (keeper.has_any("g"), keeper.has_any("used")) == (False, True)


async def test_topology_file_keeps_descriptions_through_a_restart(make_node: MakeNode) -> None:
    node = started(make_node, FILE)
    for group in ("g", "h"):
        beat(node, group)
        assert await send(node, group) == (OK, None)
    shown = await described(node, "g")
    assert shown[0] == AVAILABLE
    groups = node.broker.coordinators.groups
    settings = {"log.dirs": node.broker.config.log_dirs[0]}
    groups.descriptions = TopologyDescriptions(groups, TopologyFile(settings))
    assert await described(node, "g") == shown
    beat(node, "g", epoch=-1)
    assert await delete(node, "g") == [(OK, None)]
    kept = await trio.Path(node.broker.config.log_dirs[0], FILE_NAME).read_text()
    assert list(json.loads(kept)) == ["h"]


def test_pauses_double_up_to_an_hour_and_start_anew_with_an_epoch() -> None:
    now = [0]
    pauses = Pauses(lambda: now[0], Random(1))
    lengths = []
    for _ in range(9):
        began = now[0]
        assert pauses.begin_unless_active("g", 1)
        while pauses.is_active("g", 1):
            now[0] += 1000
        lengths.append(now[0] - began)
    for length, mean in zip(lengths, [30_000 * 2**n for n in range(7)], strict=False):
        assert 0.8 * mean <= length <= 1.2 * mean + 1000
    assert lengths[-2:] == [3_600_000] * 2
    assert pauses.begin_unless_active("g", 2)
    pauses.begin_or_extend("g", 1)
    assert not pauses.begin_unless_active("g", 2), "an older epoch changes nothing"
    pauses.end("g", 2)
    assert pauses.begin_unless_active("g", 2)
