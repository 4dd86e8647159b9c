"""Elections of leaders: for leaderless partitions, by ElectLeaders, and to balance leaders.

ElectLeaders (key 43), v0-2, has the error messages and the order of Apache Kafka 4.4.  A partition
that needs no election is answered with ELECTION_NOT_NEEDED.  If the request asks for all
partitions, the answer leaves such partitions out, but still names their topics.  An unclean
election is held only for a partition without a leader.

Every `leader.imbalance.check.interval.seconds` the controller balances leaders: if more than a
tenth of the partitions that prefer a broker have another leader, it elects that broker for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.controller.state import (
    ControllerState,
    TopicPartition,
    needs_no_leader,
    partition_of,
)
from kwire.cluster.decisions.outcome import DecisionOutcome
from kwire.cluster.metadata.changes import AlterPartition, Decision
from kwire.cluster.metadata.election import elected_offline, elected_preferred, first_state, is_new
from kwire.cluster.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)

PREFERRED, UNCLEAN = 0, 1
IMBALANCE_MAX = 0.1
"""Kafka's default of leader.imbalance.per.broker.percentage, a setting that 4.x removed."""
BALANCING = "balancing"
FIRST_BALANCING_MS = 5000
"""Delay after a controller's start, as in Apache Kafka 3.9."""


def leader_elections(
    state: ControllerState, topic_partitions: Iterable[TopicPartition]
) -> list[Decision]:
    """Return decisions that elect a leader for each partition that has none."""
    return [
        partial(_elect_leader, state, topic_partition)
        for topic_partition in sorted(topic_partitions)
    ]


def _elect_leader(
    state: ControllerState, topic_partition: TopicPartition, image: ClusterImage
) -> AlterPartition | None:
    """Return the change that gives a partition a leader.

    None if the partition has a reachable leader or needs none, or if no replica can lead it.
    """
    partition = partition_of(image, topic_partition)
    if partition is None or needs_no_leader(image, topic_partition, partition):
        return None
    if is_new(partition):  # never led: all online replicas become in sync
        return state.alteration(
            image, topic_partition, first_state(partition, state.online(topic_partition))
        )
    if partition.leader != NO_LEADER and state.reachable(topic_partition)(partition.leader):
        return None
    unclean = state.allows_unclean_election(topic_partition[0])
    after = elected_offline(partition, state.online(topic_partition), unclean=unclean)
    return state.alteration(image, topic_partition, after)


# -- elections that a client or tool requests


class PartitionElection:
    """A decision to elect the leader of one partition."""

    def __init__(self, state: ControllerState, topic_partition: TopicPartition, kind: int) -> None:
        self._state = state
        self.topic_partition = topic_partition
        self._kind = kind

    def __call__(self, image: ClusterImage) -> AlterPartition:
        """Return the change that elects the partition's leader.

        Raises Refusal, for instance if no election is needed or no replica can lead.
        """
        partition = partition_of(image, self.topic_partition)
        if partition is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, self._unknown(image))
        if self.topic_partition[0] in image.deleting:
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
        if not self._is_needed(partition):
            raise Refusal(
                ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
            )
        change = self._state.alteration(image, self.topic_partition, self._elected(partition))
        if change is None:
            raise _no_leader_available(self._kind)
        return change

    def _unknown(self, image: ClusterImage) -> str:
        """Return Kafka's error message for a partition that does not exist."""
        topic, index = self.topic_partition
        if topic in image.topics:
            return f"No such partition as {topic}-{index}"
        return f"No such topic as {topic}"

    def _is_needed(self, partition: PartitionImage) -> bool:
        """Return whether the partition's leader is not the one that is wanted.

        A preferred election wants the first replica; an unclean one any live broker.
        """
        if self._kind == PREFERRED:
            return partition.leader != partition.replicas[0]
        live = self._state.members.keys() - self._state.shutting_down
        return partition.leader == NO_LEADER or partition.leader not in live

    def _elected(self, partition: PartitionImage) -> PartitionImage | None:
        """Return the state after the election; None if no replica can lead.

        The request's election type decides: PREFERRED elects only the first replica; the other
        type, UNCLEAN, also elects a live replica that is not in sync, so committed records may be
        lost.
        """
        online = self._state.online(self.topic_partition)
        if is_new(partition):
            return first_state(partition, online)
        if self._kind == PREFERRED:
            return elected_preferred(partition, online)
        return elected_offline(partition, online, unclean=True)


def _no_leader_available(kind: int) -> Refusal:
    """Return the refusal of an election that found no replica to lead."""
    if kind == PREFERRED:
        return Refusal(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
        )
    return Refusal(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    )


def elect_leaders(state: ControllerState, request: ElectLeadersRequest) -> ControllerEffects:
    """ElectLeaders: elects leaders for the partitions of the request.

    A request without topics means all partitions.
    """
    kind, topics = request.election_type, request.topic_partitions
    if kind not in (PREFERRED, UNCLEAN):
        return ControllerEffects(reply=_unknown_election_type(request))
    is_for_all = topics is None
    if topics is None:
        topics = [
            TopicPartitions(name, list(range(len(topic.partitions))))
            for name, topic in state.image.topics.items()
        ]
    outcomes = [
        [
            DecisionOutcome(PartitionElection(state, (topic.topic, index), kind))
            for index in topic.partitions
        ]
        for topic in topics
    ]

    def reply() -> ControllerEffects:
        """Return the response, with the result of each partition."""
        results = [
            ReplicaElectionResult(topic.topic, list(_results(topic, of_topic, is_for_all)))
            for topic, of_topic in zip(topics, outcomes, strict=True)
        ]
        return ControllerEffects(reply=ElectLeadersResponse(replica_election_results=results))

    return ControllerEffects(decisions=list(chain.from_iterable(outcomes)), then=reply)


def _results(
    topic: TopicPartitions, outcomes: Sequence[DecisionOutcome[AlterPartition]], is_for_all: bool
) -> Iterator[PartitionResult]:
    """Yield the result of each partition of one topic.

    With `is_for_all` the request named no partitions.  Then partitions that need no election are
    left out, as in Kafka.
    """
    for index, outcome in zip(topic.partitions, outcomes, strict=True):
        refusal = outcome.refusal
        if refusal is None:
            yield PartitionResult(index, ErrorCode.NONE, None)
        elif not (is_for_all and refusal.error == ErrorCode.ELECTION_NOT_NEEDED):
            yield PartitionResult(index, refusal.error, refusal.message)


def _unknown_election_type(request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Return the response to a request with an unknown election type."""
    error = ErrorCode.INVALID_REQUEST
    reason = f"Unknown election type {request.election_type}"
    return ElectLeadersResponse(
        error_code=error,
        replica_election_results=[
            ReplicaElectionResult(
                topic.topic, [PartitionResult(index, error, reason) for index in topic.partitions]
            )
            for topic in request.topic_partitions or ()
        ],
    )


def preferred_elections(
    state: ControllerState, topic_partitions: Iterable[TopicPartition]
) -> list[Decision]:
    """Return decisions that elect the preferred replicas as leaders.

    A partition whose election is refused keeps its leader; no error is reported.
    """
    return [
        DecisionOutcome(PartitionElection(state, topic_partition, PREFERRED))
        for topic_partition in topic_partitions
    ]


# -- balancing of leaders


def balance_leaders(state: ControllerState) -> ControllerEffects:
    """Elect preferred leaders for brokers that lead too few of the partitions that prefer them."""
    effects = balancing_timer(state)
    for broker_id, topic_partitions in sorted(state.displaced.items()):
        if len(topic_partitions) > IMBALANCE_MAX * state.preferred.get(broker_id, 0):
            possible = [
                topic_partition
                for topic_partition in sorted(topic_partitions)
                if _can_lead(state, topic_partition)
            ]
            effects.decisions += preferred_elections(state, possible)
    return effects


def _can_lead(state: ControllerState, topic_partition: TopicPartition) -> bool:
    """Return whether the preferred replica could be elected leader now."""
    partition = state.partition(topic_partition)
    return (
        partition is not None
        and not is_new(partition)
        and not state.is_deleting(topic_partition[0])
        and elected_preferred(partition, state.online(topic_partition)) is not None
    )


def balancing_timer(state: ControllerState, first: bool = False) -> ControllerEffects:
    """Return the timer of the next balancing.

    Returns no timer unless `auto.leader.rebalance.enable` is set.  The `first` one after a
    controller's start fires sooner.
    """
    config = state.settings.config
    if not config.auto_leader_rebalance_enable:
        return ControllerEffects()
    interval_ms = config.leader_imbalance_check_interval_seconds * 1000
    return ControllerEffects(timers=[(BALANCING, FIRST_BALANCING_MS if first else interval_ms)])
