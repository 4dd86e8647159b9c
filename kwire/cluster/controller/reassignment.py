"""Other replicas for a partition (KIP-455): by request or in the store, cancelled, and completed.

While it is reassigned, a partition has the replicas of before and those to come (`adding`, which
are named first) and is led as before.  Once all that it is to have are in sync, those that are
`removing` go, in one change with a new leader if the old one is among them.

AlterPartitionReassignments (key 45), v0-1, and ListPartitionReassignments (key 46), v0, are
answered in the words and the order of Apache Kafka 4.3.  Replicas that come must be alive, except
where it is asked for in the store; those that are there may be away.  Where a partition has the
replicas already that it is to have, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from kwire.cluster.controller.effects import Effects
from kwire.cluster.controller.state import ControllerState, Place, partition_of
from kwire.cluster.decisions.outcome import Outcome
from kwire.cluster.metadata.changes import AlterPartition, Decision
from kwire.cluster.metadata.election import (
    Online,
    changed,
    elected_for_reassignment,
    elected_offline,
    first_state,
    is_new,
    original_replicas,
    target_replicas,
)
from kwire.cluster.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from kwire.cluster.metadata.placement import check_manual
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from kwire.codecs.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def is_complete(state: PartitionImage) -> bool:
    """Whether all replicas that it is to have are in sync."""
    return set(target_replicas(state)) <= set(state.isr)


def begun(
    known: PartitionImage, target: Sequence[int], online: Online, *, unclean: bool
) -> PartitionImage | None:
    """The state with the replicas of `target` on their way, or already in the place of the others.

    Those that came by an earlier reassignment and are not wanted any longer go at once.  None:
    these are all that are in sync, and no other replica may (`unclean`) or can lead.
    """
    before = original_replicas(known)
    replicas = tuple(dict.fromkeys([*target, *before]))
    isr = tuple([each for each in known.isr if each in replicas])
    after = replace(
        known,
        leader=known.leader if known.leader in replicas else NO_LEADER,
        replicas=replicas,
        isr=isr,
        adding=tuple([each for each in replicas if each not in before]),
        removing=tuple([each for each in replicas if each not in target]),
    )
    if not isr:
        return elected_offline(after, online, unclean=unclean)
    completed = _completed(after, online)
    if completed is not None:
        return completed
    if after.leader == NO_LEADER:
        elected = elected_offline(after, online, unclean=False)
        if elected is not None:
            return elected
    return changed(after, after.leader, isr)


def _completed(known: PartitionImage, online: Online) -> PartitionImage | None:
    """The state without the replicas that go; None while it cannot be so yet."""
    target = target_replicas(known)
    if not is_complete(known):
        return None
    after = replace(known, replicas=target, adding=(), removing=())
    isr = tuple([each for each in known.isr if each in target])
    if known.leader in target and online(known.leader):
        return changed(after, known.leader, isr)
    elected = elected_for_reassignment(after, target, online)
    return None if elected is None else replace(elected, isr=isr)


def completion(state: ControllerState, place: Place) -> Decision:
    """A decision that ends a reassignment whose replicas are in sync."""
    return partial(_complete, state, place)


def _complete(state: ControllerState, place: Place, image: ClusterImage) -> AlterPartition | None:
    known = partition_of(image, place)
    if known is None or not (known.adding or known.removing):
        return None
    return state.alteration(image, place, _completed(known, state.online(place)))


def resumption(state: ControllerState, place: Place) -> Decision:
    """A decision that tells all replicas anew, after a controller or one of them was away."""
    return partial(_resume, state, place)


def _resume(state: ControllerState, place: Place, image: ClusterImage) -> AlterPartition | None:
    known = partition_of(image, place)
    if known is None or not (known.adding or known.removing):
        return None
    after = _completed(known, state.online(place)) or changed(known, known.leader, known.isr)
    return state.alteration(image, place, after)


# -- what is asked for


class Reassignment:
    """One partition and the replicas that it is to have; None ends what is under way.

    `keeps_factor`: it must have as many as before.  `may_be_away`: they need not be alive.
    """

    def __init__(
        self,
        state: ControllerState,
        place: Place,
        target: Sequence[int] | None,
        *,
        keeps_factor: bool = False,
        may_be_away: bool = False,
    ) -> None:
        self._state = state
        self.place = place
        self._target = target
        self._keeps_factor = keeps_factor
        self._may_be_away = may_be_away

    def __call__(self, image: ClusterImage) -> AlterPartition | None:
        """Raises Refusal."""
        known = partition_of(image, self.place)
        if known is None or self.place[0] in image.deleting:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, self._unknown(image))
        target = self._checked_target(known)
        if target == known.replicas and not (known.adding or known.removing):
            return None
        online = self._state.online(self.place)
        if is_new(known):  # nothing was written: there is nothing to be moved
            after = first_state(replace(known, replicas=target), online)
        else:
            unclean = self._state.unclean(self.place[0])
            after = begun(known, target, online, unclean=unclean)
        change = self._state.alteration(image, self.place, after)
        if change is None:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to change the replicas of {self.place[0]}-{self.place[1]}: nobody in sync "
                "would be left to lead it.",
            )
        return change

    def _unknown(self, image: ClusterImage) -> str:
        topic, index = self.place
        if topic in image.topics:
            return f"Unable to find partition {topic}:{index}."
        return f"Unable to find a topic named {topic}."

    def _checked_target(self, known: PartitionImage) -> tuple[int, ...]:
        """Raises Refusal."""
        if self._target is None:
            if not (known.adding or known.removing):
                raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            return original_replicas(known)
        possible = self._state.members.keys() - self._state.shutting_down
        possible.update(self._target if self._may_be_away else original_replicas(known))
        check_manual(self._target, possible)
        factor = len(target_replicas(known))
        if self._keeps_factor and len(self._target) != factor:
            raise Refusal(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {factor} to {len(self._target)}",
            )
        return tuple(self._target)


def alter_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest
) -> Effects:
    may_change = request.allow_replication_factor_change
    if not request.topics:
        empty = AlterPartitionReassignmentsResponse(allow_replication_factor_change=may_change)
        return Effects(reply=empty)
    outcomes = [
        [
            Outcome(
                Reassignment(
                    state,
                    (topic.name, each.partition_index),
                    each.replicas,
                    keeps_factor=not may_change,
                )
            )
            for each in topic.partitions
        ]
        for topic in request.topics
    ]

    def reply() -> Effects:
        responses = [
            _answered(topic, its) for topic, its in zip(request.topics, outcomes, strict=True)
        ]
        return Effects(
            reply=AlterPartitionReassignmentsResponse(
                allow_replication_factor_change=may_change,
                error_message=None,
                responses=responses,
            )
        )

    return Effects(decisions=[each for its in outcomes for each in its], then=reply)


def _answered(
    topic: ReassignableTopic, outcomes: Sequence[Outcome[AlterPartition]]
) -> ReassignableTopicResponse:
    return ReassignableTopicResponse(
        topic.name,
        [
            ReassignablePartitionResponse(
                asked.partition_index,
                ErrorCode.NONE if outcome.refusal is None else outcome.refusal.error,
                None if outcome.refusal is None else outcome.refusal.message,
            )
            for asked, outcome in zip(topic.partitions, outcomes, strict=True)
        ],
    )


def reassignments_asked(
    state: ControllerState, replicas: Mapping[Place, tuple[int, ...]]
) -> Effects:
    """What an administrator wrote into the store; the reply are the places where it cannot be."""
    asked = [
        Reassignment(state, place, target, may_be_away=True) for place, target in replicas.items()
    ]
    outcomes = [Outcome(each) for each in asked]

    def reply() -> Effects:
        pairs = zip(asked, outcomes, strict=True)
        return Effects(reply=[each.place for each, its in pairs if its.refusal is not None])

    return Effects(decisions=list(outcomes), then=reply)


def list_reassignments(
    state: ControllerState, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    if request.topics is None:
        places = sorted(state.reassigned)
    else:
        asked = {(topic.name, each) for topic in request.topics for each in topic.partition_indexes}
        places = sorted(asked & state.reassigned)
    topics = []
    for topic, its in groupby(places, key=lambda place: place[0]):
        partitions = []
        for place in its:
            known = state.partition(place)
            assert known is not None, "the index follows the image"
            partitions.append(
                OngoingPartitionReassignment(
                    place[1], list(known.replicas), list(known.adding), list(known.removing)
                )
            )
        topics.append(OngoingTopicReassignment(topic, partitions))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)
