"""Heartbeats of consumer groups, one by one."""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode
from kwire.groups.assigned.member import MemberState
from kwire.groups.consumer.group import ConsumerGroup
from kwire.groups.surroundings import ConsumerSettings
from tests.groups.consumer.simulation import REBALANCE_TIMEOUT_MS, Client, ConsumerSimulation

AT_ONCE = ConsumerSettings(assignment_interval_ms=0)


def started(partitions: int = 4) -> ConsumerSimulation:
    simulation = ConsumerSimulation(settings=AT_ONCE)
    simulation.put_topic("t", partitions)
    return simulation


def group_in(simulation: ConsumerSimulation) -> ConsumerGroup:
    group = simulation.group
    assert group is not None
    return group


def joined(simulation: ConsumerSimulation, name: str, instance_id: str | None = None) -> Client:
    client = Client(simulation, name, instance_id)
    assert client.beat().error_code == ErrorCode.NONE
    client.move()
    return client


def state_of(client: Client) -> MemberState:
    return group_in(client.simulation).members[client.member_id].state


def test_first_member_gets_all_partitions() -> None:
    client = joined(started(), "a")
    assert (client.epoch, len(client.owned)) == (2, 4)
    assert group_in(client.simulation).state_name == "Stable"


def test_partitions_move_after_their_owner_has_given_them_up() -> None:
    simulation = started()
    first, second = joined(simulation, "a"), joined(simulation, "b")
    assert (second.epoch, second.owned, state_of(second)) == (
        3,
        frozenset(),
        MemberState.UNRELEASED,
    )
    first.beat()
    assert (first.epoch, len(first.told), state_of(first)) == (
        2,
        2,
        MemberState.UNREVOKED,
    )
    second.beat()
    assert not second.told, "the first still owns all"
    first.move()
    first.beat()
    assert (first.epoch, state_of(first)) == (3, MemberState.STABLE)
    second.beat()
    assert len(second.told) == 2
    assert not second.told & first.owned


def test_member_that_does_not_revoke_in_time_is_removed() -> None:
    simulation = started()
    first, second = joined(simulation, "a"), joined(simulation, "b")
    first.beat()
    for _ in range(4):
        simulation.wait(REBALANCE_TIMEOUT_MS // 4)
        first.beat()
        second.beat()
    assert not first.is_in
    second.beat()
    assert len(second.told) == 4


def test_member_is_removed_when_its_session_ends() -> None:
    simulation = started()
    client = joined(simulation, "a")
    simulation.wait(AT_ONCE.session_timeout_ms - 1)
    assert client.beat().error_code == ErrorCode.NONE
    simulation.wait(AT_ONCE.session_timeout_ms)
    assert client.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group_in(simulation).state_name == "Empty"


def test_returning_static_member_keeps_its_partitions() -> None:
    simulation = started()
    joined(simulation, "a", "i1")
    second = joined(simulation, "b", "i2")
    assert Client(simulation, "c", "i2").beat().error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    epoch = group_in(simulation).epoch
    assert second.leave(-2).member_epoch == -2
    again = joined(simulation, "c", "i2")
    assert again.epoch == epoch == group_in(simulation).epoch
    assert second.member_id not in group_in(simulation).members
    fenced = simulation.heartbeat(member_id="b-0", member_epoch=3, instance_id="i2")
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_heartbeat_with_the_previous_epoch_gets_the_lost_response() -> None:
    simulation = started()
    first, second = joined(simulation, "a"), joined(simulation, "b")
    first.beat()
    first.move()
    first.beat(lose_reply=True)
    assert (first.epoch, group_in(simulation).members["a-0"].epoch) == (2, 3)
    assert first.beat().error_code == ErrorCode.NONE
    assert first.epoch == 3
    second.epoch = 9
    assert second.beat().error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_changed_or_deleted_topic_begins_an_epoch() -> None:
    simulation = started()
    client = joined(simulation, "a")
    simulation.put_topic("other", 3)
    client.beat()
    assert client.epoch == 2
    simulation.put_topic("t", 6)
    client.beat()
    assert (client.epoch, len(client.told)) == (3, 6)
    simulation.delete_topic("t")
    client.beat()
    assert not client.told
    client.move()
    client.beat()
    assert client.epoch == 4


def test_pattern_is_resolved_after_the_response() -> None:
    simulation = started()
    client = Client(simulation, "a", topics=[], pattern="t|u.*")
    client.beat()
    assert not client.told
    simulation.wait(0)
    client.beat()
    assert len(client.told) == 4
    simulation.put_topic("under", 2)
    simulation.wait(10_000)
    client.beat()
    simulation.wait(0)
    client.beat()
    assert len(client.told) == 6
    client.leave()
    assert not group_in(simulation).patterns


def test_pattern_is_deleted_with_its_last_member() -> None:
    simulation = started()
    clients = [Client(simulation, name, topics=[], pattern="t.*") for name in "ab"]
    for client in clients:
        client.beat()
    simulation.wait(0)
    assert group_in(simulation).pattern_members == {"t.*": 2}
    clients[0].pattern = "u.*"
    clients[0].beat()
    assert group_in(simulation).pattern_members == {"t.*": 1, "u.*": 1}
    simulation.wait(10_000)
    clients[0].beat()
    simulation.wait(0)
    assert group_in(simulation).patterns.keys() == {"t.*", "u.*"}
    clients[1].leave()
    assert group_in(simulation).pattern_members == {"u.*": 1}
    assert group_in(simulation).patterns.keys() == {"u.*"}


def test_invalid_pattern_is_refused() -> None:
    refused = Client(started(), "a", topics=[], pattern="(a").beat()
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_members_that_join_together_share_one_assignment() -> None:
    simulation = ConsumerSimulation(settings=ConsumerSettings(assignment_interval_ms=1_000))
    simulation.put_topic("t", 4)
    clients = [Client(simulation, f"m{number}") for number in range(4)]
    for client in clients:
        client.beat()
    assert (group_in(simulation).epoch, group_in(simulation).target_epoch) == (5, 2)
    simulation.wait(1_000)
    clients[1].beat()
    assert group_in(simulation).target_epoch == 5


def test_members_that_prefer_another_assignor_begin_an_epoch() -> None:
    simulation = started()
    joined(simulation, "a")

    def prefer(assignor: str | None) -> int:
        response = simulation.heartbeat(
            member_id="a-0", member_epoch=group_in(simulation).epoch, server_assignor=assignor
        )
        assert response.error_code == ErrorCode.NONE
        return response.member_epoch

    before = group_in(simulation).epoch
    assert prefer("uniform") == before, "it is the default assignor"
    assert prefer("range") == before + 1
    assert prefer(None) == before + 1
