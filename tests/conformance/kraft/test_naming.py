"""Metadata records as text, by a log that Apache Kafka wrote."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache

import pytest

from kwire.codecs.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.codecs.messages.delegation_token_record import DelegationTokenRecord
from kwire.codecs.messages.no_op_record import NoOpRecord
from kwire.codecs.messages.partition_change_record import PartitionChangeRecord
from kwire.codecs.messages.partition_record import PartitionRecord
from kwire.codecs.messages.register_broker_record import RegisterBrokerRecord
from kwire.codecs.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.codecs.messages.topic_record import TopicRecord
from kwire.codecs.primitives import Message
from kwire.conformance.kraft.metadata_log import decode
from kwire.conformance.kraft.naming import UNASSIGNED, Naming, RecordLine
from kwire.conformance.kraft.state import ClusterState
from tests.cluster.stores.kraft.recorded import recording

TOPIC_ID = b"t" * 16
FIRST, SECOND = b"a" * 16, b"b" * 16


@cache
def recorded() -> dict[str, list[str]]:
    """The text of the recorded log, by subject."""
    naming = Naming({})
    written: dict[str, list[str]] = defaultdict(list)
    for record in decode(recording("from-4.4").log):
        for line in naming.lines(record.message):
            written[line.subject].append(line.text)
    return written


def text(*messages: Message, directories: dict[bytes, str] | None = None) -> list[RecordLine]:
    """The lines of records that begin with the topic `t`."""
    naming = Naming(directories or {}, lambda topic: topic == "random")
    topic = TopicRecord("t", TOPIC_ID)
    return [line for each in (topic, *messages) for line in naming.lines(each)][1:]


def test_second_topic_of_a_name_has_a_number() -> None:
    assert recorded()["topic gone"] == ["TopicRecord", "RemoveTopicRecord"]
    assert recorded()["topic gone (2)"] == ["TopicRecord"]
    assert [subject for subject in recorded() if re.fullmatch(r"gone \(2\)-\d", subject)] == [
        "gone (2)-0"
    ]


def test_removed_rule_is_named() -> None:
    removed = [line for line in recorded()["rules"] if line.startswith("Remove")]
    assert len(removed) == 1
    assert removed[0].removeprefix("Remove ") in recorded()["rules"]


def test_token_has_a_number_and_the_time_that_it_may_be_renewed_for() -> None:
    first, second = (
        DelegationTokenRecord("User:a", "User:b", [], 1_000, 5_000, 3_000, token_id)
        for token_id in ("x", "y")
    )
    lines = text(first, second, first, RemoveDelegationTokenRecord("y"))
    token = "DelegationTokenRecord owner='User:a' requester='User:b' max_timestamp=4000"
    assert lines == [
        ("tokens", f"{token} token_id='token 1'"),
        ("tokens", f"{token} token_id='token 2'"),
        ("tokens", f"{token} token_id='token 1'"),
        ("tokens", "Remove token 2"),
    ]


def test_text_has_no_epoch_of_a_broker_and_no_port() -> None:
    lines = [line for lines in recorded().values() for line in lines]
    assert not [line for line in lines if "broker_epoch" in line or "incarnation" in line]
    assert not [line for line in lines if re.search(r"\bport=", line)]


def test_only_the_first_fencing_of_a_broker_has_text() -> None:
    registered = RegisterBrokerRecord(1, fenced=True)
    fenced = BrokerRegistrationChangeRecord(1, fenced=1)
    unfenced = BrokerRegistrationChangeRecord(1, fenced=-1)
    other = BrokerRegistrationChangeRecord(2, fenced=1)
    lines = text(registered, fenced, unfenced, fenced, fenced, other)
    assert [line for line in lines if "Change" in line.text] == [
        ("broker 1", "BrokerRegistrationChangeRecord broker_id=1 fenced=-1"),
        ("broker 1", "BrokerRegistrationChangeRecord broker_id=1 fenced=1"),
        ("broker 2", "BrokerRegistrationChangeRecord broker_id=2 fenced=1"),
    ]


def test_no_op_record_has_no_text() -> None:
    assert text(NoOpRecord()) == []


def test_directory_is_a_subject_of_its_own_and_only_changes_are_text() -> None:
    created = PartitionRecord(0, TOPIC_ID, [1, 2], [1, 2], [], [], 1, 0, 0, 0, [UNASSIGNED, SECOND])
    told = PartitionChangeRecord(0, TOPIC_ID, directories=[FIRST, SECOND])
    shrunk = PartitionChangeRecord(0, TOPIC_ID, isr=[2], leader=2, directories=[FIRST, SECOND])
    lines = text(created, told, shrunk, directories={FIRST: "1/data", SECOND: "2/data"})
    assert lines[1:] == [
        ("t-0, directory of 1", "unassigned"),
        ("t-0, directory of 2", "of the broker"),
        ("t-0, directory of 1", "of the broker"),
        ("t-0", "PartitionChangeRecord isr=[2] leader=2"),
    ]
    assert lines[0].subject == "t-0"
    assert "replicas=[1, 2]" in lines[0].text
    assert "directories" not in lines[0].text


def test_topic_that_is_placed_at_random_has_its_creation_only() -> None:
    topic = TopicRecord("random", b"r" * 16)
    created = PartitionRecord(0, b"r" * 16, [2, 1], [2, 1], leader=2)
    change = PartitionChangeRecord(0, b"r" * 16, isr=[2])
    assert text(topic, created, change) == [
        ("topic random", "TopicRecord"),
        ("random-0", "PartitionRecord with 2 replicas"),
    ]


@pytest.fixture
def state() -> ClusterState:
    """Brokers 1 and 2 are unfenced, and t-0 has replicas on both."""
    state = ClusterState()
    for broker_id in (1, 2):
        state.apply(RegisterBrokerRecord(broker_id, fenced=False))
    state.apply(TopicRecord("t", TOPIC_ID))
    state.apply(PartitionRecord(0, TOPIC_ID, [1, 2], [1, 2], [], [], 1, 0, 0, 0, [FIRST, SECOND]))
    return state


def test_cluster_is_whole_with_all_replicas_in_sync(state: ClusterState) -> None:
    assert state.is_whole({1, 2})
    assert not state.is_whole({1})
    assert not state.is_whole({1, 2, 3})


@pytest.mark.parametrize(
    "change",
    [
        PartitionChangeRecord(0, TOPIC_ID, isr=[1]),
        PartitionChangeRecord(0, TOPIC_ID, directories=[FIRST, UNASSIGNED]),
        PartitionChangeRecord(0, TOPIC_ID, removing_replicas=[2]),
        PartitionChangeRecord(0, TOPIC_ID, leader=-1),
    ],
    ids=["not in sync", "no directory", "in a reassignment", "no leader"],
)
def test_cluster_is_not_whole_while_something_is_to_be_done(
    state: ClusterState, change: PartitionChangeRecord
) -> None:
    state.apply(change)
    assert not state.is_whole({1, 2})


@pytest.mark.parametrize("name", ["one", "two", "a.b_c", "moved", "gone", "cordon"])
def test_state_is_what_apache_kafka_answers_about_a_topic(name: str) -> None:
    recorded = recording("from-4.4")
    state = ClusterState()
    for record in decode(recorded.log):
        if record.offset < recorded.answered_at:
            state.apply(record.message)
    [topic] = [each for each in recorded.answer("partitions").topics if each.name == name]
    for answered in topic.partitions:
        partition = state.partition(name, answered.partition_index)
        assert partition.leader == answered.leader_id
        assert partition.replicas == answered.replica_nodes
        assert partition.isr == answered.isr_nodes
        elr = answered.eligible_leader_replicas or []
        assert (partition.eligible_leader_replicas or []) == elr
