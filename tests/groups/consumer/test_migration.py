"""Groups with members of both protocols: upgrade to a consumer group, and downgrade."""

from __future__ import annotations

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kwire.groups.classic.group import ClassicGroup
from kwire.groups.classic.records import GroupMetadata
from kwire.groups.classic.state import ClassicState
from kwire.groups.consumer.group import ConsumerGroup
from kwire.groups.consumer.records import ConsumerMemberMetadata
from kwire.groups.limits import GroupLimits, MigrationPolicy
from kwire.groups.surroundings import ConsumerSettings
from tests.groups.consumer.classic import (
    PROTOCOL,
    SESSION_TIMEOUT_MS,
    ClassicClient,
    assignment,
)
from tests.groups.consumer.simulation import (
    GROUP_ID,
    REBALANCE_TIMEOUT_MS,
    Client,
    ConsumerSimulation,
)

AT_ONCE = ConsumerSettings(assignment_interval_ms=0)
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS


def started(partitions: int = 4, **limits: object) -> ConsumerSimulation:
    fields = {"group_initial_rebalance_delay_ms": 0, **limits}
    simulation = ConsumerSimulation(GroupLimits(**fields), AT_ONCE)  # type: ignore[arg-type] # its
    simulation.put_topic("t", partitions)
    return simulation


def group_in(simulation: ConsumerSimulation) -> ConsumerGroup:
    group = simulation.group
    assert group is not None
    return group


def classic_group_in(simulation: ConsumerSimulation) -> ClassicGroup:
    group = simulation.machine.groups[GROUP_ID]
    assert isinstance(group, ClassicGroup)
    return group


def round_of(*clients: Client | ClassicClient) -> None:
    for client in clients:
        if isinstance(client, Client):
            client.beat()
            client.move()
        else:
            client.step()


def settled(simulation: ConsumerSimulation, *clients: Client | ClassicClient) -> None:
    for _ in range(20):
        round_of(*clients)
        simulation.wait(100)
    owned = [place for client in clients for place in client.owned]
    assert (
        len(owned) == len(set(owned)) == len(simulation.surroundings.image.topics["t"].partitions)
    )
    assert all(client.owned for client in clients)


def classic_started(simulation: ConsumerSimulation, *names: str) -> list[ClassicClient]:
    """A stable classic group."""
    clients = [ClassicClient(simulation, name) for name in names]
    settled(simulation, *clients)
    return clients


def mixed(simulation: ConsumerSimulation) -> tuple[Client, ClassicClient]:
    """A settled consumer group of one member of each kind."""
    first, second = Client(simulation, "m"), ClassicClient(simulation, "c")
    round_of(first)
    settled(simulation, first, second)
    return first, second


# -- upgrade


def test_classic_group_is_upgraded_and_all_members_settle() -> None:
    simulation = started()
    (old,) = classic_started(simulation, "c")
    generation, owned = old.generation, old.owned
    new = Client(simulation, "m")
    new.beat()
    group = group_in(simulation)
    kept = group.members[old.member_id]
    assert (kept.epoch, group.epoch, group.state_name) == (
        generation,
        generation + 1,
        "Reconciling",
    )
    assert kept.held == owned, "it keeps what it has until it is told"
    assert old.beat() is REBALANCE
    settled(simulation, old, new)
    assert (old.generation, group_in(simulation).state_name) == (generation + 1, "Stable")
    assert [len(client.owned) for client in (old, new)] == [2, 2]


def test_upgrade_writes_the_records_of_classic_members() -> None:
    simulation = started()
    (old,) = classic_started(simulation, "c")
    written = len(simulation.records)
    Client(simulation, "m").beat()
    first, second = simulation.records[written : written + 2]
    assert isinstance(first, GroupMetadata)
    assert first.value is None
    assert isinstance(second, ConsumerMemberMetadata)
    assert second.value is not None
    classic = second.value.classic_member_metadata
    assert classic is not None
    assert classic.session_timeout_ms == SESSION_TIMEOUT_MS
    assert [protocol.name for protocol in classic.supported_protocols] == [PROTOCOL]
    assert (second.value.client_id, second.value.subscribed_topic_names) == ("client", ["t"])
    loaded = simulation.reloaded().groups[GROUP_ID]
    assert loaded == group_in(simulation)
    simulation.restart()
    assert old.beat() is REBALANCE


def test_upgrade_answers_parked_requests_with_rebalance_in_progress() -> None:
    simulation = started()
    first, second = classic_started(simulation, "c", "d")
    second.wants_to_join = True
    second.topics = ["t", "u"]
    second.join()
    assert classic_group_in(simulation).state is ClassicState.PREPARING_REBALANCE
    assert second.waiting()
    new = Client(simulation, "m")
    new.beat()
    second.hear()
    assert not second.waiting()
    assert second.wants_to_join
    settled(simulation, first, second, new)


def test_upgrade_works_before_the_first_generation() -> None:
    simulation = started(group_initial_rebalance_delay_ms=3_000)
    old, new = ClassicClient(simulation, "c"), Client(simulation, "m")
    old.join()
    new.beat()
    assert group_in(simulation).members.keys() == {old.member_id, "m-0"}
    settled(simulation, old, new)


def refused(simulation: ConsumerSimulation) -> str:
    response = Client(simulation, "m").beat()
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(simulation.machine.groups[GROUP_ID], ClassicGroup)
    prefix = f"Cannot upgrade classic group {GROUP_ID} to consumer group because "
    assert response.error_message is not None
    assert response.error_message.startswith(prefix)
    return response.error_message.removeprefix(prefix)


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_upgrade_is_refused_by_the_migration_policy(policy: MigrationPolicy) -> None:
    simulation = started(group_consumer_migration_policy=policy)
    (old,) = classic_started(simulation, "c")
    assert refused(simulation) == "online upgrade is disabled."
    old.leave()
    assert Client(simulation, "m").beat().error_code == ErrorCode.NONE, "nobody is in it"


def test_upgrade_is_refused_for_too_large_or_other_groups() -> None:
    simulation = started(group_consumer_max_size=1)
    classic_started(simulation, "c", "d")
    size = "the group size exceeds the consumer group maximum size."
    assert refused(simulation) == size
    simulation = started()
    classic_started(simulation, "c")
    classic_group_in(simulation).protocol_type = "connect"
    assert refused(simulation) == "the group does not use the consumer embedded protocol."


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (b"\0", "the embedded consumer protocol is malformed."),
        (b"\xff\xff", "the embedded consumer protocol is malformed."),
        (
            assignment({"t": [0]}, b"mine"),
            "an unsupported custom assignor is in use. Please refer to the documentation or "
            "switch to a default assignor before re-attempting the upgrade.",
        ),
    ],
)
def test_upgrade_is_refused_with_user_data_in_assignments(told: bytes, why: str) -> None:
    simulation = started()
    (old,) = classic_started(simulation, "c")
    record = classic_group_in(simulation).to_record({old.member_id: told})
    simulation.write(record)
    assert refused(simulation) == why


# -- members of the classic protocol


def test_classic_member_gives_up_a_partition_before_others_get_it() -> None:
    simulation = started()
    old = ClassicClient(simulation, "c")
    first = Client(simulation, "m")
    round_of(first, old)
    assert old.owned == frozenset()
    assert old.beat() is ErrorCode.NONE, "it waits for what the first has"
    round_of(first, first)
    assert old.beat() is REBALANCE, "that is free now"
    settled(simulation, first, old)


def test_classic_member_rejoins_once_its_awaited_partition_is_free() -> None:
    """What it owns already is held by itself, and nothing to wait for."""
    simulation = started(5)
    first, old = Client(simulation, "b"), ClassicClient(simulation, "c")
    round_of(first)
    settled(simulation, first, old)
    passing = Client(simulation, "d")
    passing.beat()
    first.beat()  # it is to give one up for the new member, and keeps it for now
    for _ in range(3):
        round_of(old, passing)
    simulation.heartbeat(member_id=passing.member_id, member_epoch=-1)
    for _ in range(3):
        old.step()
    assert [partition for _, partition in sorted(old.owned)] == [3, 4]
    assert old.beat() is ErrorCode.NONE, "it waits for the one that the first member keeps"
    first.move()
    first.beat()
    assert old.beat() is REBALANCE, "that is free now"
    old.step()
    assert [partition for _, partition in sorted(old.owned)] == [2, 3, 4]


def test_classic_member_that_does_not_rejoin_in_time_is_removed() -> None:
    simulation = started()
    first, old = mixed(simulation)
    simulation.put_topic("t", 8)
    round_of(first)
    step_ms = REBALANCE_TIMEOUT_MS // 4
    for _ in range(3):
        assert old.beat() is REBALANCE
        simulation.wait(step_ms)
        first.beat()
    assert old.beat() is REBALANCE
    simulation.wait(step_ms)
    assert old.beat() is ErrorCode.UNKNOWN_MEMBER_ID
    settled(simulation, first)


def test_classic_member_that_does_not_sync_in_time_is_removed() -> None:
    simulation = started()
    first = Client(simulation, "m")
    round_of(first)
    old = ClassicClient(simulation, "c", syncs=False)
    old.join()
    for _ in range(4):
        assert old.member_id in group_in(simulation).members
        assert old.beat() is ErrorCode.NONE
        simulation.wait(REBALANCE_TIMEOUT_MS // 4)
        first.beat()
    assert old.member_id not in group_in(simulation).members


def test_classic_member_uses_its_own_session_timeout() -> None:
    simulation = started()
    first, old = mixed(simulation)
    old.beat()
    simulation.wait(SESSION_TIMEOUT_MS - 1)
    first.beat()
    assert old.beat() is ErrorCode.NONE
    simulation.wait(SESSION_TIMEOUT_MS - 1)
    first.beat()
    simulation.wait(1)
    assert old.beat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_join_without_a_common_protocol_is_refused() -> None:
    simulation = started()
    first, old = mixed(simulation)
    other = ClassicClient(simulation, "d", protocols=("range",))
    other.join()
    assert len(group_in(simulation).members) == 2
    other.protocols = ("range", PROTOCOL)
    settled(simulation, first, old, other)


def test_join_before_v4_needs_no_member_id() -> None:
    simulation = started()
    first = Client(simulation, "m")
    round_of(first)
    old = ClassicClient(simulation, "c", version=3)
    old.join()
    assert old.joins == 1
    assert old.member_id in group_in(simulation).members


def test_join_of_a_full_group_is_refused() -> None:
    simulation = started(group_consumer_max_size=2)
    first, old = mixed(simulation)
    late = ClassicClient(simulation, "d")
    late.join()
    assert late.wants_to_join
    assert len(group_in(simulation).members) == 2
    old.join()
    settled(simulation, first, old)


# -- downgrade


def test_group_is_downgraded_when_the_last_consumer_member_leaves() -> None:
    simulation = started()
    first, old = mixed(simulation)
    epoch = group_in(simulation).epoch
    owned = old.owned
    first.leave()
    group = classic_group_in(simulation)
    assert (group.generation_id, group.state) == (epoch, ClassicState.PREPARING_REBALANCE)
    assert old.beat() is REBALANCE
    settled(simulation, old)
    assert len(old.owned) == 4
    assert owned < old.owned
    assert old.generation == epoch + 1


def test_downgraded_group_keeps_its_members_after_a_restart() -> None:
    simulation = started()
    first, old = mixed(simulation)
    first.leave()
    simulation.restart()
    group = classic_group_in(simulation)
    assert group.state is ClassicState.STABLE, "what is known is the last assignment"
    assert group.members.keys() == {old.member_id}
    assert old.beat() is ErrorCode.NONE
    record = next(r for r in reversed(simulation.records) if isinstance(r, GroupMetadata))
    assert record.value is not None
    (member,) = record.value.members
    assert (member.session_timeout, member.rebalance_timeout) == (
        SESSION_TIMEOUT_MS,
        REBALANCE_TIMEOUT_MS,
    )


def test_group_is_downgraded_when_the_last_consumer_session_ends() -> None:
    simulation = started()
    _, old = mixed(simulation)
    for _ in range(3):
        simulation.wait(AT_ONCE.session_timeout_ms // 3)
        old.beat()
    assert isinstance(simulation.machine.groups[GROUP_ID], ClassicGroup)
    settled(simulation, old)


def test_downgraded_group_removes_silent_members() -> None:
    simulation = started()
    first, old = mixed(simulation)
    old.beat()
    simulation.wait(SESSION_TIMEOUT_MS // 2)
    first.leave()
    simulation.wait(SESSION_TIMEOUT_MS - 1)
    assert classic_group_in(simulation).members.keys() == {old.member_id}
    simulation.wait(1)
    assert classic_group_in(simulation).state is ClassicState.EMPTY


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_downgrade_is_prevented_by_the_migration_policy(policy: MigrationPolicy) -> None:
    simulation = started(group_consumer_migration_policy=policy)
    first, old = mixed(simulation)
    first.leave()
    assert group_in(simulation).members.keys() == {old.member_id}
    settled(simulation, old)
    old.leave()
    assert group_in(simulation).state_name == "Empty"


def test_group_over_the_classic_size_limit_is_not_downgraded() -> None:
    simulation = started(group_max_size=1)
    first, old = mixed(simulation)
    another = ClassicClient(simulation, "d")
    settled(simulation, first, old, another)
    first.leave()
    settled(simulation, old, another)
    another.leave()
    assert isinstance(simulation.machine.groups[GROUP_ID], ClassicGroup)


def test_group_stays_a_consumer_group_when_the_last_classic_member_leaves() -> None:
    simulation = started()
    first, old = mixed(simulation)
    answer = old.leave()
    assert [member.error_code for member in answer.members] == [0]
    settled(simulation, first)


def test_downgrade_that_cannot_be_written_changes_nothing() -> None:
    simulation = started()
    first, old = mixed(simulation)
    simulation.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    response = first.leave()
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    assert response.error_code != ErrorCode.NONE
    assert group_in(simulation).members.keys() == {"m-0", old.member_id}
    simulation.append_error = None
    assert old.beat() is ErrorCode.NONE


# -- static members


def test_static_member_returns_with_the_consumer_protocol_to_its_partitions() -> None:
    simulation = started()
    old = ClassicClient(simulation, "c", "i")
    settled(simulation, old)
    new = Client(simulation, "m", "i")
    round_of(new)
    assert group_in(simulation).members.keys() == {new.member_id}
    assert new.owned == old.owned
    assert old.beat() is ErrorCode.FENCED_INSTANCE_ID


def test_static_member_returns_with_the_classic_protocol_without_a_rebalance() -> None:
    simulation = started()
    new = Client(simulation, "m", "i")
    round_of(new)
    epoch, owned = new.epoch, new.owned
    old = ClassicClient(simulation, "c", "i")
    old.join()
    group = classic_group_in(simulation)
    assert (group.state, group.generation_id, old.generation) == (ClassicState.STABLE, epoch, epoch)
    assert old.owned == owned
    assert simulation.reloaded().groups.keys() == {GROUP_ID}
    refused = new.beat()
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_static_member_returns_with_other_topics_and_a_rebalance() -> None:
    simulation = started()
    simulation.put_topic("u", 1)
    other, new = ClassicClient(simulation, "d"), Client(simulation, "m", "i")
    round_of(new)
    settled(simulation, new, other)
    old = ClassicClient(simulation, "c", "i", topics=["t", "u"])
    old.join()
    assert classic_group_in(simulation).state is ClassicState.PREPARING_REBALANCE
    for _ in range(10):
        round_of(old, other)
        simulation.wait(100)
    assert len(old.owned | other.owned) == 5


def test_classic_join_takes_over_the_instance_id_of_a_consumer_member() -> None:
    simulation = started()
    first, new = Client(simulation, "f"), Client(simulation, "m", "i")
    round_of(first, new)
    settled(simulation, first, new)
    owned = new.owned
    old = ClassicClient(simulation, "c", "i")
    old.join()
    assert group_in(simulation).members.keys() == {first.member_id, old.member_id}
    assert old.owned == owned
    assert new.beat().error_code == ErrorCode.UNRELEASED_INSTANCE_ID or not new.is_in


def test_leave_group_removes_members_of_both_protocols_by_instance_id() -> None:
    simulation = started()
    new, old = Client(simulation, "m", "i"), ClassicClient(simulation, "c", "j")
    round_of(new)
    settled(simulation, new, old)
    unknown = ClassicClient(simulation, "x", "k").leave("")
    assert unknown.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    fenced = ClassicClient(simulation, "x", "i").leave("nobody")
    assert fenced.members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert ClassicClient(simulation, "x", "i").leave("").members[0].error_code == ErrorCode.NONE
    assert classic_group_in(simulation).members.keys() == {old.member_id}
