"""Offsets of consumer groups: commits, fetches and deletions that member epochs allow."""

from __future__ import annotations

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kwire.codecs.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kwire.codecs.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kwire.groups.surroundings import ConsumerSettings
from tests.groups.consumer.simulation import GROUP_ID, Client, ConsumerSimulation, Waiting

OK = ErrorCode.NONE
STALE = ErrorCode.STALE_MEMBER_EPOCH
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID

LATEST = 10
"""Of OffsetCommit."""


@pytest.fixture
def simulation() -> ConsumerSimulation:
    """Of the topic's four partitions "a-0" has had two since epoch 2, "b-0" has two since 3."""
    simulation = ConsumerSimulation(settings=ConsumerSettings(assignment_interval_ms=0))
    simulation.put_topic("t", 4)
    clients = [Client(simulation, name) for name in "ab"]
    for client in (*clients, *clients, *clients):
        client.beat()
        client.move()
    assert [len(client.owned) for client in clients] == [2, 2]
    return simulation


def owned(simulation: ConsumerSimulation, member_id: str) -> list[int]:
    group = simulation.group
    assert group is not None
    return sorted(partition for _, partition in group.members[member_id].held)


def commit(
    simulation: ConsumerSimulation,
    member_id: str,
    epoch: int,
    *partitions: int,
    version: int = LATEST,
) -> ErrorCode:
    """The error is the same for all partitions."""
    places = [OffsetCommitRequestPartition(partition, 5) for partition in partitions]
    topic_id = simulation.surroundings.image.topics["t"].id
    topics = [OffsetCommitRequestTopic("t", topic_id, places)]
    request = OffsetCommitRequest(GROUP_ID, epoch, member_id, topics=topics)
    ticket: Waiting[OffsetCommitResponse] = Waiting()
    simulation.carry_out(
        simulation.machine.commit_offsets(request, version, ticket, simulation.now_ms)
    )
    assert ticket.response is not None
    codes = {p.error_code for topic in ticket.response.topics for p in topic.partitions}
    (code,) = codes
    return ErrorCode(code)


def commit_in_transaction(
    simulation: ConsumerSimulation,
    member_id: str,
    epoch: int,
    partition: int = 0,
    version: int = 5,
) -> ErrorCode:
    places = [TxnOffsetCommitRequestPartition(partition, 5)]
    topics = [
        TxnOffsetCommitRequestTopic("t", simulation.surroundings.image.topics["t"].id, places)
    ]
    request = TxnOffsetCommitRequest("x", GROUP_ID, 1, 0, epoch, member_id, None, topics)
    ticket: Waiting[TxnOffsetCommitResponse] = Waiting()
    machine, now_ms = simulation.machine, simulation.now_ms
    effects = machine.commit_transactional_offsets(request, version, ticket, now_ms)
    simulation.carry_out(effects)
    assert ticket.response is not None
    return ErrorCode(ticket.response.topics[0].partitions[0].error_code)


def look(simulation: ConsumerSimulation, member_id: str | None, epoch: int) -> ErrorCode:
    topics = [OffsetFetchRequestTopics("t", partition_indexes=[0])]
    request = OffsetFetchRequestGroup(GROUP_ID, member_id, epoch, topics)
    response = simulation.machine.fetch_offsets(request, require_stable=False)
    return ErrorCode(response.error_code)


def delete(simulation: ConsumerSimulation, topic: str) -> ErrorCode:
    places = [OffsetDeleteRequestPartition(0)]
    request = OffsetDeleteRequest(GROUP_ID, [OffsetDeleteRequestTopic(topic, places)])
    ticket: Waiting[OffsetDeleteResponse] = Waiting()
    simulation.carry_out(simulation.machine.delete_offsets(request, ticket, simulation.now_ms))
    assert ticket.response is not None
    return ErrorCode(ticket.response.topics[0].partitions[0].error_code)


def test_member_commits_in_its_epoch_or_since_the_assignment_epoch(
    simulation: ConsumerSimulation,
) -> None:
    mine, others = owned(simulation, "a-0"), owned(simulation, "b-0")
    assert commit(simulation, "a-0", 3, *mine, *others) is OK
    assert commit(simulation, "a-0", 2, *mine) is OK
    assert commit(simulation, "a-0", 2, mine[0], others[0]) is STALE
    assert commit(simulation, "a-0", 1, mine[0]) is STALE
    assert commit(simulation, "a-0", 4, mine[0]) is STALE
    assert commit(simulation, "b-0", 2, others[0]) is STALE
    assert commit(simulation, "nobody", 3, 0) is UNKNOWN


def test_commit_in_a_version_before_member_epochs_is_refused(
    simulation: ConsumerSimulation,
) -> None:
    assert commit(simulation, "a-0", 3, 0, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(simulation, "", -1, 0, version=8) is UNKNOWN


def test_commit_without_member_is_accepted_in_an_empty_group(
    simulation: ConsumerSimulation,
) -> None:
    assert commit(simulation, "", -1, 0) is UNKNOWN
    for member_id in ("a-0", "b-0"):
        simulation.heartbeat(member_id=member_id, member_epoch=-1)
    assert commit(simulation, "", -1, 0) is OK
    assert commit(simulation, "a-0", 3, 0) is UNKNOWN


def test_transactional_commit_with_a_stale_epoch_is_an_illegal_generation(
    simulation: ConsumerSimulation,
) -> None:
    mine, others = owned(simulation, "a-0"), owned(simulation, "b-0")
    assert commit_in_transaction(simulation, "a-0", 3, others[0]) is OK
    assert commit_in_transaction(simulation, "a-0", 2, mine[0]) is OK
    assert commit_in_transaction(simulation, "a-0", 2, others[0]) is ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(simulation, "nobody", 3) is UNKNOWN
    assert commit_in_transaction(simulation, "", -1) is OK
    assert commit_in_transaction(simulation, "a-0", -1) is ErrorCode.ILLEGAL_GENERATION
    for epoch, partition in ((2, others[0]), (4, mine[0])):
        error = commit_in_transaction(simulation, "a-0", epoch, partition, version=6)
        assert error is ErrorCode.STALE_MEMBER_EPOCH
    assert commit_in_transaction(simulation, "nobody", 3, version=6) is UNKNOWN


def test_offset_fetch_without_member_and_epoch_is_allowed(simulation: ConsumerSimulation) -> None:
    assert look(simulation, None, -1) is OK
    assert look(simulation, "a-0", 3) is OK
    assert look(simulation, "a-0", 2) is STALE
    assert look(simulation, "a-0", -1) is STALE
    assert look(simulation, "nobody", 3) is UNKNOWN
    assert look(simulation, None, 3) is UNKNOWN
    assert look(simulation, "", -1) is UNKNOWN


def test_offset_delete_refuses_subscribed_topics(simulation: ConsumerSimulation) -> None:
    simulation.put_topic("other", 1)
    assert commit(simulation, "a-0", 3, 0) is OK
    assert delete(simulation, "t") is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete(simulation, "other") is OK
    assert simulation.machine.offsets.get(GROUP_ID, "t", 0) is not None
    for member_id in ("a-0", "b-0"):
        simulation.heartbeat(member_id=member_id, member_epoch=-1)
    assert delete(simulation, "t") is OK
    assert simulation.machine.offsets.get(GROUP_ID, "t", 0) is None


def test_delete_group_needs_an_empty_group_and_deletes_its_records(
    simulation: ConsumerSimulation,
) -> None:
    def delete_group() -> ErrorCode:
        ticket: Waiting[ErrorCode] = Waiting()
        machine, now_ms = simulation.machine, simulation.now_ms
        simulation.carry_out(machine.delete_group(GROUP_ID, ticket, now_ms))
        assert ticket.response is not None
        return ticket.response

    assert commit(simulation, "a-0", 3, 0) is OK
    assert delete_group() is ErrorCode.NON_EMPTY_GROUP
    for member_id in ("a-0", "b-0"):
        simulation.heartbeat(member_id=member_id, member_epoch=-1)
    assert delete_group() is OK
    assert simulation.machine.offsets.get(GROUP_ID, "t", 0) is None
    assert simulation.group is None
    assert simulation.reloaded().groups == {}
    assert delete_group() is ErrorCode.GROUP_ID_NOT_FOUND
