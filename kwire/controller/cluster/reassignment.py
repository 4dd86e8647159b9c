"""Other replicas for a partition (KIP-455): by request or in the store, cancelled, and completed.

While it is reassigned, a partition has the replicas of before and those to come (`adding`, which
are named first) and is led as before.  Once all that it is to have are in sync, those that are
`removing` go, in one change with a new leader if the old one is among them.

AlterPartitionReassignments (key 45), v0-1, and ListPartitionReassignments (key 46), v0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kwire.codecs.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kwire.controller.cluster.effects import Effects
from kwire.controller.cluster.state import ControllerState, Place, partition_of
from kwire.controller.outcome import Outcome
from kwire.metadata.changes import AlterPartition, Decision
from kwire.metadata.election import (
    Online,
    changed,
    elected_for_reassignment,
    elected_offline,
    first_state,
    is_new,
    original_replicas,
    target_replicas,
)
from kwire.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from kwire.metadata.refusal import Refusal

NO_SUCH_PARTITION = "The partition does not exist."
NO_REASSIGNMENT = "No partition reassignment is in progress."


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
    """One partition and the replicas that it is to have; None ends what is under way."""

    def __init__(
        self, state: ControllerState, place: Place, target: Sequence[int] | None, checked: bool
    ) -> None:
        self._state = state
        self.place = place
        self._target = target
        self._checked = checked

    def __call__(self, image: ClusterImage) -> AlterPartition:
        """Raises Refusal."""
        known = partition_of(image, self.place)
        if self._target is not None and not self._checked:
            self._check(known, self._target)
        if self._target is None:
            if known is None or not (known.adding or known.removing):
                raise Refusal(
                    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                    NO_REASSIGNMENT,
                )
            target: Sequence[int] = original_replicas(known)
        else:
            target = self._target
        if known is None or self.place[0] in image.deleting:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_SUCH_PARTITION)
        online = self._state.online(self.place)
        if is_new(known):  # nothing was written: there is nothing to be moved
            after = first_state(replace(known, replicas=tuple(target)), online)
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

    def _check(self, known: PartitionImage | None, target: Sequence[int]) -> None:
        """Raises Refusal, in Apache Kafka's words."""

        def refusal(reason: str) -> Refusal:
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)

        shown = _scala(target, "ArrayBuffer")
        if not target:
            raise refusal("Empty replica list specified in partition reassignment.")
        if len(set(target)) != len(target):
            raise refusal(f"Duplicate replica ids in partition reassignment replica list: {shown}")
        if min(target) < 0:
            raise refusal(f"Invalid broker id in replica list: {shown}")
        before = () if known is None else original_replicas(known)
        adding = [each for each in target if each not in before]
        live = sorted(self._state.members.keys() - self._state.shutting_down)
        if not set(adding) <= set(live):
            raise refusal(
                "Replica assignment has brokers that are not alive. Replica list: "
                f"{_scala(adding, 'ArrayBuffer')}, live broker list: {_scala(live, 'Set')}"
            )


def _scala(numbers: Sequence[int], kind: str) -> str:
    return f"{kind}({', '.join(map(str, numbers))})"


def alter_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest
) -> Effects:
    asked = [
        Reassignment(state, (topic.name, each.partition_index), each.replicas, checked=False)
        for topic in request.topics
        for each in topic.partitions
    ]
    outcomes = [Outcome(each) for each in asked]

    def reply() -> Effects:
        answers = [
            (each.place, outcome.refusal) for each, outcome in zip(asked, outcomes, strict=True)
        ]
        return Effects(reply=_answered(answers))

    return Effects(decisions=list(outcomes), then=reply)


def _answered(
    answers: Sequence[tuple[Place, Refusal | None]],
) -> AlterPartitionReassignmentsResponse:
    responses = []
    for topic, its in groupby(answers, key=lambda answer: answer[0][0]):
        responses.append(
            ReassignableTopicResponse(
                topic,
                [
                    ReassignablePartitionResponse(
                        place[1],
                        ErrorCode.NONE if refusal is None else refusal.error,
                        None if refusal is None else refusal.message,
                    )
                    for place, refusal in its
                ],
            )
        )
    return AlterPartitionReassignmentsResponse(error_message=None, responses=responses)


def reassignments_asked(
    state: ControllerState, replicas: Mapping[Place, tuple[int, ...]]
) -> Effects:
    """What an administrator wrote into the store; the reply are the places where it cannot be."""
    asked = [Reassignment(state, place, target, checked=True) for place, target in replicas.items()]
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
