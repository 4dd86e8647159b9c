"""Heartbeats of share groups, one by one."""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode
from kwire.groups.limits import GroupLimits
from kwire.groups.share.group import ShareGroup
from kwire.groups.share.records import (
    ShareCurrentAssignment,
    ShareGroupEpoch,
    ShareMemberMetadata,
    ShareTargetAssignment,
    ShareTargetEpoch,
    StatePartitions,
)
from kwire.groups.surroundings import ShareSettings
from tests.groups.share.simulation import GROUP_ID, Client, ShareSimulation, Waiting

RETRY_MS = GroupLimits().group_share_initialize_retry_interval_ms


def started(partitions: int = 3, **limits: int) -> ShareSimulation:
    simulation = ShareSimulation(GroupLimits(**limits))  # type: ignore[arg-type] # numbers all
    simulation.put_topic("t", partitions)
    return simulation


def group_in(simulation: ShareSimulation) -> ShareGroup:
    group = simulation.group
    assert group is not None
    return group


def reading(simulation: ShareSimulation, name: str) -> Client:
    """A member that has been given what there is."""
    client = Client(simulation, name)
    client.beat()
    simulation.answer()
    client.beat()
    return client


def test_heartbeat_writes_the_records_of_apache_kafka_in_its_order() -> None:
    simulation = started()
    client = Client(simulation, "a")
    client.beat()
    kinds = [type(record).__bases__[0] if isinstance(record, StatePartitions) else type(record)
             for record in simulation.records]  # fmt: skip
    joined = [
        ShareMemberMetadata,
        ShareGroupEpoch,
        ShareTargetAssignment,
        ShareTargetEpoch,
        ShareCurrentAssignment,
    ]
    assert kinds == [*joined, StatePartitions]
    del simulation.records[:]
    simulation.answer()
    client.beat()
    assert [type(record) for record in simulation.records[1:]] == joined[1:]
    del simulation.records[:]
    client.leave()
    left = [
        ShareCurrentAssignment,
        ShareTargetAssignment,
        ShareMemberMetadata,
        ShareGroupEpoch,
        ShareTargetEpoch,
    ]
    assert [type(record) for record in simulation.records] == left


def test_member_gets_partitions_after_their_state_is_initialized() -> None:
    simulation = started()
    client = Client(simulation, "a")
    assert (client.beat().member_epoch, client.reads) == (2, frozenset())
    (asked,) = simulation.asked
    assert asked.group_epoch == 2
    client.beat()
    assert simulation.asked == [asked], "it is asked once"
    simulation.answer()
    response = client.beat()
    assert (response.member_epoch, len(client.reads)) == (3, 3)
    assert client.beat().assignment is None, "it was told before"


def test_initialization_is_repeated_after_the_retry_interval() -> None:
    simulation = started()
    client = Client(simulation, "a")
    client.beat()
    simulation.asked.clear()
    simulation.wait(RETRY_MS - 1)
    client.beat()
    assert not simulation.asked
    simulation.wait(1)
    client.beat()
    assert len(simulation.asked) == 1


def test_initialization_is_repeated_at_once_after_a_restart() -> None:
    simulation = started()
    client = Client(simulation, "a")
    client.beat()
    simulation.restart()
    client.beat()
    assert len(simulation.asked) == 1


def test_initialization_says_of_which_topics_the_group_has_partitions_already() -> None:
    simulation = started(partitions=1)
    client = Client(simulation, "a")
    client.beat()
    (first,) = simulation.asked
    simulation.answer()
    client.beat()
    assert not first.grown
    simulation.put_topic("t", 2)
    client.beat()
    (again,) = simulation.asked
    topic_id = simulation.image.topics["t"].id
    assert again.topics.partitions == {topic_id: frozenset({1})}
    assert again.grown == {topic_id}


def test_refused_initialization_is_repeated() -> None:
    simulation = started()
    client = Client(simulation, "a")
    client.beat()
    simulation.answer(succeeded=False)
    client.beat()
    assert len(simulation.asked) == 1


def test_more_members_than_partitions_share_partitions() -> None:
    simulation = started(partitions=2)
    clients = [reading(simulation, name) for name in "abcd"]
    for _ in range(2):
        for client in clients:
            client.beat()
    assert [len(client.reads) for client in clients] == [1, 1, 1, 1]
    assert len(frozenset.union(*(client.reads for client in clients))) == 2


def test_new_partitions_are_assigned() -> None:
    simulation = started(partitions=1)
    client = reading(simulation, "a")
    simulation.put_topic("t", 2)
    client.beat()
    (asked,) = simulation.asked
    assert [*asked.topics.partitions.values()] == [frozenset({1})]
    simulation.answer()
    client.beat()
    assert len(client.reads) == 2


def test_deleted_topic_is_removed_from_the_group() -> None:
    simulation = started()
    client = reading(simulation, "a")
    simulation.delete_topic("t")
    assert group_in(simulation).state_topics.is_empty
    client.beat()
    assert not client.reads


def test_heartbeat_with_the_previous_epoch_gets_the_lost_response() -> None:
    simulation = started()
    client = reading(simulation, "a")
    Client(simulation, "b").beat()
    client.beat(lose_reply=True)
    assert client.beat().error_code == ErrorCode.NONE


def test_heartbeat_with_a_wrong_epoch_is_fenced() -> None:
    simulation = started()
    reading(simulation, "a")
    for epoch, what in (
        (9, "greater member epoch (9) than the one known by the group coordinator (3). The"),
        (1, "(3), and it does not match the previous member epoch (2). The member must"),
    ):
        response = simulation.heartbeat(member_id="a-0", member_epoch=epoch)
        assert response.error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert what in (response.error_message or "")


def test_member_is_removed_when_its_session_ends() -> None:
    simulation = started()
    client = reading(simulation, "a")
    simulation.wait(ShareSettings().session_timeout_ms)
    assert not group_in(simulation).members
    assert client.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_join_of_a_full_group_is_refused() -> None:
    simulation = started(group_share_max_size=1)
    client = reading(simulation, "a")
    response = Client(simulation, "b").beat()
    assert response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert client.beat().error_code == ErrorCode.NONE


def test_empty_group_is_deleted() -> None:
    simulation = started()
    client = reading(simulation, "a")
    assert delete(simulation) == ErrorCode.NON_EMPTY_GROUP
    client.leave()
    del simulation.records[:]
    assert delete(simulation) == ErrorCode.NONE
    assert [type(each) for each in simulation.records] == [
        ShareTargetEpoch,
        StatePartitions,
        ShareGroupEpoch,
    ]
    assert simulation.group is None
    assert simulation.reloaded().groups == {}


def delete(simulation: ShareSimulation) -> ErrorCode:
    ticket = Waiting()
    simulation.carry_out(
        simulation.machine.delete_group(GROUP_ID, ticket, simulation.now_ms), ticket
    )
    error: ErrorCode = ticket.reply
    return error
