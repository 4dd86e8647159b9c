"""What a group notes in its log about the description of its topology (KIP-1331)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import streams_group_topology_description_update as update
from kwire.groups.effects import GroupEffects
from kwire.groups.streams.description import SINK, described, description_of
from kwire.groups.streams.records import StreamsGroupEpoch
from tests.groups.streams.simulation import GROUP_ID, Client, StreamsSimulation, Waiting, counting
from tests.groups.streams.test_heartbeat import started


def decided(simulation: StreamsSimulation, decide: Callable[[Waiting], GroupEffects]) -> Any:  # noqa: ANN401 - of any decision
    """The reply of a decision, whose effects are carried out."""
    ticket = Waiting()
    simulation.carry_out(decide(ticket), ticket)
    return ticket.reply


def expect(simulation: StreamsSimulation, *, to_delete: bool = False) -> object:
    kind, now_ms = simulation.machine.streams, simulation.now_ms
    return decided(
        simulation,
        lambda ticket: kind.expect_description_call(GROUP_ID, ticket, now_ms, to_delete=to_delete),
    )


def answer(simulation: StreamsSimulation, epoch: int, *, stored: bool = True) -> object:
    kind, now_ms = simulation.machine.streams, simulation.now_ms
    return decided(
        simulation,
        lambda ticket: kind.description_answered(GROUP_ID, epoch, ticket, now_ms, stored=stored),
    )


def deleted(simulation: StreamsSimulation) -> object:
    kind, now_ms = simulation.machine.streams, simulation.now_ms
    return decided(simulation, lambda ticket: kind.description_deleted(GROUP_ID, ticket, now_ms))


def noted(simulation: StreamsSimulation) -> tuple[int, int]:
    """The epochs of the stored and of the refused description, also after a restart."""
    group = simulation.there
    found = group.stored_description_epoch, group.failed_description_epoch
    reloaded = simulation.reloaded().streams.description_epochs(GROUP_ID)
    assert found == (reloaded.stored, reloaded.failed)
    return found


def grouped(epoch: int = 3) -> tuple[StreamsSimulation, Client]:
    simulation = started()
    client = Client(simulation, "a", topology=counting(epoch))
    client.beat()
    return simulation, client


def test_stored_description_is_uncertain_until_the_plugin_has_answered() -> None:
    simulation, client = grouped()
    epoch = simulation.there.epoch
    assert noted(simulation) == (-1, -1)
    assert client.beat().descriptions == (3, -1, -1)
    assert client.beat().descriptions.is_missing
    assert expect(simulation) is True
    assert noted(simulation) == (-2, -1)
    assert answer(simulation, 3) is ErrorCode.NONE
    assert noted(simulation) == (3, -1)
    reply = client.beat()
    assert (reply.descriptions, reply.descriptions.is_missing) == ((3, 3, -1), False)
    assert simulation.there.epoch == epoch


def test_refused_description_is_not_missing_and_keeps_its_note_in_later_epochs() -> None:
    simulation, client = grouped()
    expect(simulation)
    answer(simulation, 3, stored=False)
    assert noted(simulation) == (-2, 3)
    assert not client.beat().descriptions.is_missing
    Client(simulation, "b", topology=counting(3)).beat()
    assert noted(simulation) == (-2, 3)


def test_note_of_a_description_keeps_the_other_fields_of_the_record() -> None:
    simulation, _ = grouped()
    before = [each for each in simulation.records if isinstance(each, StreamsGroupEpoch)][-1]
    expect(simulation)
    after = simulation.records[-1]
    assert isinstance(after, StreamsGroupEpoch)
    assert after.value is not None
    assert after.value.stored_description_topology_epoch == -2
    after.value.stored_description_topology_epoch = -1
    assert after.value == before.value


def test_description_is_deleted_only_from_a_group_without_members() -> None:
    simulation, client = grouped()
    assert expect(simulation, to_delete=True) is False
    expect(simulation)
    answer(simulation, 3)
    assert expect(simulation, to_delete=True) is False
    client.leave()
    assert simulation.machine.groups_to_clean() == [GROUP_ID]
    assert expect(simulation, to_delete=True) is True
    assert noted(simulation) == (-2, -1)
    assert deleted(simulation) is ErrorCode.NONE
    assert noted(simulation) == (-1, -1)
    assert simulation.machine.groups_to_clean() == []


def test_description_that_arrives_during_a_deletion_stays_uncertain() -> None:
    simulation, client = grouped()
    expect(simulation)
    answer(simulation, 3)
    client.leave()
    expect(simulation, to_delete=True)
    answer(simulation, 3)
    deleted(simulation)
    assert noted(simulation) == (-2, -1)


def test_answer_for_a_group_that_is_gone_is_group_id_not_found() -> None:
    simulation = started()
    assert expect(simulation) is False
    assert answer(simulation, 3) is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("keeps", [True, False])
def test_group_with_a_description_does_not_expire_while_the_plugin_has_it(keeps: bool) -> None:
    simulation = started(keeps_topology_descriptions=keeps)
    client = Client(simulation, "a")
    client.beat()
    expect(simulation)
    client.leave()
    simulation.wait(simulation.limits.offsets_retention_check_interval_ms + 1)
    assert (simulation.group is not None) == keeps


@pytest.mark.parametrize(
    ("member_id", "epoch", "error", "message"),
    [
        ("x", 3, ErrorCode.UNKNOWN_MEMBER_ID, "Member x is not a member of group g."),
        (
            "a-0",
            2,
            ErrorCode.INVALID_REQUEST,
            "Topology epoch 2 does not match the group's current topology epoch 3.",
        ),
    ],
)
def test_description_of_another_member_or_epoch_is_refused(
    member_id: str, epoch: int, error: ErrorCode, message: str
) -> None:
    simulation, _ = grouped()
    refusal = simulation.machine.streams.check_description(GROUP_ID, member_id, epoch)
    assert refusal is not None
    assert (refusal.error, refusal.message) == (error, message)
    assert simulation.machine.streams.check_description(GROUP_ID, "a-0", 3) is None


def node(kind: int) -> update.TopologyDescriptionNode:
    return update.TopologyDescriptionNode("n", kind, ["t", "a", "t"], "out", ["s"], ["b", "a"])


def test_described_node_has_the_fields_of_its_type_only() -> None:
    nodes = [*(node(kind) for kind in (1, 2, 3)), update.TopologyDescriptionNode("n", SINK)]
    sent = update.TopologyDescription([update.TopologyDescriptionSubtopology("0", nodes)])
    shown = described(description_of(sent)).subtopologies[0].nodes
    assert [
        (each.node_type, each.source_topics, each.sink_topic, each.stores, each.successors)
        for each in shown
    ] == [
        (1, ["t", "a"], None, [], ["b", "a"]),
        (2, [], None, ["s"], ["b", "a"]),
        (3, [], "out", [], ["b", "a"]),
        (3, [], None, [], []),
    ]


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ((9, 2), "Unknown topology node type: 9"),
        ((2, 1), "Global store must be composed of a source and a processor node."),
    ],
)
def test_global_store_of_other_nodes_is_refused(kinds: tuple[int, int], message: str) -> None:
    store = update.TopologyDescriptionGlobalStore(*map(node, kinds))
    with pytest.raises(Refusal) as refused:
        description_of(update.TopologyDescription([], [store]))
    assert (refused.value.error, refused.value.message) == (ErrorCode.INVALID_REQUEST, message)
