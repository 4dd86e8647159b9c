"""Leaders: for partitions that have none, the preferred ones, those that somebody asks for.

ElectLeaders (key 43), v0-2, in the words and the order of Apache Kafka 4.3.  A partition that has
its leader is ELECTION_NOT_NEEDED, and is left out where all are asked for; its topic is not.  An
unclean election is held only for a partition without a leader.
The automatic balancing looks each `leader.imbalance.check.interval.seconds` which brokers lead so
few of the partitions they should that more than a tenth are elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from kwire.cluster.controller.effects import Effects
from kwire.cluster.controller.state import ControllerState, Place, is_left_alone, partition_of
from kwire.cluster.decisions.outcome import Outcome
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
"""Kafka's default of leader.imbalance.per.broker.percentage, a setting that 4.x has no more."""
BALANCING = "balancing"
FIRST_BALANCING_MS = 5000


def settling(state: ControllerState, places: Iterable[Place]) -> list[Decision]:
    """Decisions that give partitions a leader that have none, where one can be had."""
    return [partial(_settled, state, place) for place in sorted(places)]


def _settled(state: ControllerState, place: Place, image: ClusterImage) -> AlterPartition | None:
    known = partition_of(image, place)
    if known is None or is_left_alone(image, place, known):
        return None
    if is_new(known):
        return state.alteration(image, place, first_state(known, state.online(place)))
    if known.leader != NO_LEADER and state.reachable(place)(known.leader):
        return None
    unclean = state.unclean(place[0])
    after = elected_offline(known, state.online(place), unclean=unclean)
    return state.alteration(image, place, after)


# -- by an administrator


class Election:
    """One partition that is to be elected; asked as an `Outcome`."""

    def __init__(self, state: ControllerState, place: Place, kind: int) -> None:
        self._state = state
        self.place = place
        self._kind = kind

    def __call__(self, image: ClusterImage) -> AlterPartition:
        """Raises Refusal."""
        known = partition_of(image, self.place)
        if known is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, self._unknown(image))
        if self.place[0] in image.deleting:
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
        if not self._is_needed(known):
            raise Refusal(
                ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
            )
        change = self._state.alteration(image, self.place, self._elected(known))
        if change is None:
            raise _impossible(self._kind)
        return change

    def _unknown(self, image: ClusterImage) -> str:
        topic, index = self.place
        if topic in image.topics:
            return f"No such partition as {topic}-{index}"
        return f"No such topic as {topic}"

    def _is_needed(self, known: PartitionImage) -> bool:
        if self._kind == PREFERRED:
            return known.leader != known.replicas[0]
        live = self._state.members.keys() - self._state.shutting_down
        return known.leader == NO_LEADER or known.leader not in live

    def _elected(self, known: PartitionImage) -> PartitionImage | None:
        online = self._state.online(self.place)
        if is_new(known):
            return first_state(known, online)
        if self._kind == PREFERRED:
            return elected_preferred(known, online)
        return elected_offline(known, online, unclean=True)


def _impossible(kind: int) -> Refusal:
    if kind == PREFERRED:
        return Refusal(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
        )
    return Refusal(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    )


def elect_leaders(state: ControllerState, request: ElectLeadersRequest) -> Effects:
    kind, topics = request.election_type, request.topic_partitions
    if kind not in (PREFERRED, UNCLEAN):
        return Effects(reply=_unknown_kind(request))
    all_are_asked_for = topics is None
    if topics is None:
        topics = [
            TopicPartitions(name, list(range(len(topic.partitions))))
            for name, topic in state.image.topics.items()
        ]
    outcomes = [
        [Outcome(Election(state, (asked.topic, index), kind)) for index in asked.partitions]
        for asked in topics
    ]

    def reply() -> Effects:
        results = [
            ReplicaElectionResult(asked.topic, list(_results(asked, its, all_are_asked_for)))
            for asked, its in zip(topics, outcomes, strict=True)
        ]
        return Effects(reply=ElectLeadersResponse(replica_election_results=results))

    return Effects(decisions=[each for its in outcomes for each in its], then=reply)


def _results(
    asked: TopicPartitions, outcomes: Sequence[Outcome[AlterPartition]], all_are_asked_for: bool
) -> Iterator[PartitionResult]:
    for index, outcome in zip(asked.partitions, outcomes, strict=True):
        refusal = outcome.refusal
        if refusal is None:
            yield PartitionResult(index, ErrorCode.NONE, None)
        elif not (all_are_asked_for and refusal.error == ErrorCode.ELECTION_NOT_NEEDED):
            yield PartitionResult(index, refusal.error, refusal.message)


def _unknown_kind(request: ElectLeadersRequest) -> ElectLeadersResponse:
    error = ErrorCode.INVALID_REQUEST
    reason = f"Unknown election type {request.election_type}"
    return ElectLeadersResponse(
        error_code=error,
        replica_election_results=[
            ReplicaElectionResult(
                asked.topic, [PartitionResult(index, error, reason) for index in asked.partitions]
            )
            for asked in request.topic_partitions or ()
        ],
    )


def preferred_elections(state: ControllerState, places: Iterable[Place]) -> list[Decision]:
    """As ElectLeaders, for who does not ask by a request."""
    return [Outcome(Election(state, place, PREFERRED)) for place in places]


# -- by the clock


def balancing(state: ControllerState) -> Effects:
    """Have brokers lead what they should, where too much of that is led elsewhere."""
    effects = next_balancing(state)
    for broker_id, places in sorted(state.displaced.items()):
        if len(places) > IMBALANCE_MAX * state.preferred.get(broker_id, 0):
            possible = [place for place in sorted(places) if _can_lead(state, place)]
            effects.decisions += preferred_elections(state, possible)
    return effects


def _can_lead(state: ControllerState, place: Place) -> bool:
    known = state.partition(place)
    return (
        known is not None
        and not is_new(known)
        and not state.is_deleting(place[0])
        and elected_preferred(known, state.online(place)) is not None
    )


def next_balancing(state: ControllerState, first: bool = False) -> Effects:
    config = state.settings.config
    if not config.auto_leader_rebalance_enable:
        return Effects()
    interval_ms = config.leader_imbalance_check_interval_seconds * 1000
    return Effects(timers=[(BALANCING, FIRST_BALANCING_MS if first else interval_ms)])
