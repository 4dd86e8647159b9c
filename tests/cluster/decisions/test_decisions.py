"""Decisions that depend only on an image."""

from __future__ import annotations

from collections import Counter

import pytest

from kwire.cluster.decisions.outcome import DecisionOutcome, named_once
from kwire.cluster.decisions.topic_creation import NewTopic, creation
from kwire.cluster.decisions.topic_deletion import TopicDeletion, deletions
from kwire.cluster.decisions.topic_growth import Growth
from kwire.cluster.metadata.changes import AddPartitions, DeleteTopic, apply, decide_all
from kwire.cluster.metadata.image import BrokerImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.settings import load
from tests.cluster.metadata.images import STATE, image, topic

A, B = topic("a", 1), topic("b", 2)


def error_of(decided: TopicDeletion | DecisionOutcome[AddPartitions]) -> ErrorCode | None:
    return None if decided.refusal is None else decided.refusal.error


def test_outcome_keeps_the_last_decision() -> None:
    outcome = DecisionOutcome(Growth("a", 2).decide)
    assert decide_all(image(), [outcome]) == ([], [])
    assert error_of(outcome) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    change = AddPartitions("a", A.id, 1, (STATE,))
    assert decide_all(image(A), [outcome]) == ([change], [0])
    assert error_of(outcome) is None
    assert (outcome.change, outcome.image) == (change, image(A))


def test_named_once_lists_each_repeated_name_once() -> None:
    assert named_once("abcab", str) == (["c"], ["a", "b"])


@pytest.mark.parametrize(
    ("growth", "error"),
    [
        (Growth("a", 1), ErrorCode.INVALID_PARTITIONS),
        (Growth("a", 0), ErrorCode.INVALID_PARTITIONS),
        (Growth("a", 10_002), ErrorCode.POLICY_VIOLATION),
        (Growth("a", 3, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Growth("b", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_growth_to_fewer_or_equal_partitions_is_refused(growth: Growth, error: ErrorCode) -> None:
    with pytest.raises(Refusal) as refused:
        growth.decide(image(A))
    assert refused.value.error == error


def test_growth_uses_manual_assignments() -> None:
    grown = apply(image(A), Growth("a", 3, [[1], [1]]).decide(image(A)))
    assert grown.topics["a"].partitions == (STATE,) * 3


def test_topic_named_once_is_deleted_and_repeated_names_are_refused() -> None:
    both, neither = TopicDeletion("d", A.id), TopicDeletion(None)
    asked = [
        TopicDeletion("a"),
        TopicDeletion("b"),
        TopicDeletion("b"),
        TopicDeletion("c"),
        both,
        neither,
    ]
    results = deletions(image(A, B), asked)
    assert [(each.name, error_of(each)) for each in results] == [
        ("a", None),
        ("b", ErrorCode.INVALID_REQUEST),
        ("c", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("d", ErrorCode.INVALID_REQUEST),
        (None, ErrorCode.INVALID_REQUEST),
    ]
    assert results[0](image(A, B)) == DeleteTopic("a", A.id)


def test_topic_named_by_name_and_by_id_is_not_deleted() -> None:
    results = deletions(image(A), [TopicDeletion("a"), TopicDeletion(None, A.id)])
    assert [(each.name, error_of(each)) for each in results] == [("a", ErrorCode.INVALID_REQUEST)]


def test_topic_recreated_since_the_request_is_not_deleted() -> None:
    (deletion,) = deletions(image(A), [TopicDeletion("a")])
    assert deletion(image(topic("a", 3))) is None
    assert error_of(deletion) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def placed(name: str, *brokers: int) -> list[tuple[int, ...]]:
    """The replicas of a new topic with two partitions and two replicas."""
    cluster = image()
    for number in brokers:
        cluster = cluster.with_broker(BrokerImage(number, ()))
    config = load(None, {"log.dirs": "nowhere"}, {})
    change = creation(cluster, config, NewTopic(name, 2, 2), ())
    return [each.replicas for each in change.topic.partitions]


def test_placement_depends_only_on_name_and_number_of_brokers() -> None:
    """The order in which the brokers registered does not matter."""
    assert placed("orders", 2, 3) == placed("orders", 3, 2) == placed("orders", 2, 3)
    others = [placed(f"orders-{number}", 2, 3) for number in range(300)]
    leaders = Counter(replicas[0] for each in others for replicas in each)
    followers = Counter(replicas[1] for each in others for replicas in each)
    for each in (leaders, followers):
        assert all(150 < each[number] < 250 for number in (1, 2, 3)), each
