"""Administrators alter and delete the offsets of share groups."""

from __future__ import annotations

from typing import Any

from kwire.codecs.errors import ErrorCode
from kwire.groups.share.initializing import StateTopicPartitions
from kwire.groups.share.offsets import OffsetAlteration, OffsetDeletion
from tests.groups.share.simulation import GROUP_ID, Client, ShareSimulation, Waiting


def alter(simulation: ShareSimulation, **wanted: list[tuple[int, int]]) -> OffsetAlteration:
    ticket = Waiting()
    share = simulation.machine.share
    simulation.carry_out(share.alter_offsets(GROUP_ID, wanted, ticket, simulation.now_ms), ticket)
    decided: OffsetAlteration = ticket.reply
    return decided


def delete(simulation: ShareSimulation, *names: str) -> OffsetDeletion:
    ticket = Waiting()
    simulation.carry_out(simulation.machine.share.delete_offsets(GROUP_ID, names, ticket), ticket)
    decided: OffsetDeletion = ticket.reply
    return decided


def told(decided: OffsetAlteration | OffsetDeletion) -> Any:  # noqa: ANN401 - of either
    return decided.response.error_code, decided.response.error_message


def answered(simulation: ShareSimulation, topics: StateTopicPartitions) -> None:
    ticket = Waiting()
    simulation.carry_out(simulation.machine.share.initialized(GROUP_ID, topics, ticket), ticket)


def test_altered_offsets_initialize_a_new_group() -> None:
    simulation = ShareSimulation()
    topic_id = simulation.put_topic("t", 2)
    decided = alter(simulation, t=[(1, 7), (2, 7)])
    assert told(decided) == (ErrorCode.NONE, None)
    assert decided.offsets == {(topic_id, 1): 7}
    errors = [each.error_code for each in decided.response.responses[0].partitions]
    assert errors == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    share = simulation.machine.share
    assert share.offsets_known(GROUP_ID).partitions == {}, "the share coordinator has not answered"
    answered(simulation, decided.topics)
    assert share.offsets_known(GROUP_ID).partitions == {topic_id: {1}}
    assert simulation.reloaded().share.offsets_known(GROUP_ID).partitions == {topic_id: {1}}


def test_alter_offsets_refuses_missing_topics_and_partitions() -> None:
    simulation = ShareSimulation()
    simulation.put_topic("t", 1)
    assert alter(simulation).offsets == {}
    assert alter(simulation, gone=[(0, 1)]).offsets == {}
    error, sentence = told(alter(simulation, t=[(0, 1), (-1, 1)]))
    assert error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert sentence.startswith("Initialize share group parameters has invalid partitionId - g ")
    assert simulation.records == []
    assert simulation.group is None


def test_offsets_of_a_group_with_members_are_not_changed() -> None:
    simulation = ShareSimulation()
    simulation.put_topic("t", 1)
    client = Client(simulation, "a")
    client.beat()
    simulation.answer()
    for decided in (alter(simulation, t=[(0, 1)]), delete(simulation, "t")):
        assert told(decided) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        assert decided.topics.partitions == {}
    client.leave()
    assert told(alter(simulation, t=[(0, 1)])) == (ErrorCode.NONE, None)


def test_deleted_offsets_are_recorded_after_the_share_coordinators_answer() -> None:
    simulation = ShareSimulation()
    topic_id, other_id = simulation.put_topic("t", 2), simulation.put_topic("other", 1)
    answered(simulation, alter(simulation, t=[(0, 1), (1, 1)], other=[(0, 1)]).topics)
    simulation.put_topic("unread", 1)
    decided = delete(simulation, "gone", "t", "unread")
    assert decided.topics.partitions == {topic_id: {0, 1}}
    assert [(each.topic_name, each.error_message) for each in decided.response.responses] == [
        ("t", None),
        ("gone", "This server does not host this topic-partition."),
        ("unread", "There is no offset information to delete."),
    ]
    group = simulation.group
    assert group is not None
    assert dict(group.state_topics.deleting) == {topic_id: "t"}
    ticket = Waiting()
    share = simulation.machine.share
    simulation.carry_out(share.offsets_deleted(GROUP_ID, decided.topics, ticket), ticket)
    assert dict(group.state_topics.deleting) == {}
    assert share.offsets_known(GROUP_ID).partitions == {other_id: {0}}
    assert simulation.reloaded().share.offsets_known(GROUP_ID).partitions == {other_id: {0}}


def test_delete_offsets_of_a_missing_group_is_refused() -> None:
    simulation = ShareSimulation()
    simulation.put_topic("t", 1)
    not_found = (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")
    assert told(delete(simulation, "t")) == not_found
