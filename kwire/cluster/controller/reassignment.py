"""Reassignment of partitions to other replicas (KIP-455).

During a reassignment a partition has both its original and its new replicas.  The new ones are
`adding` and come first; those that will be removed are `removing`.  The leader stays.  Once all
target replicas are in sync, one change removes the `removing` ones, and elects a new leader if the
old one is among them.

AlterPartitionReassignments (key 45), v0-1, and ListPartitionReassignments (key 46), v0, have the
error messages and the order of Apache Kafka 4.4.  New replicas must be on live brokers, except for
a reassignment that was written into the store.  Replicas that the partition already has may be
offline.  A request for the replicas that a partition already has changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, groupby

from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.controller.state import ControllerState, TopicPartition, partition_of
from kwire.cluster.decisions.outcome import DecisionOutcome
from kwire.cluster.metadata.changes import AlterPartition, Decision
from kwire.cluster.metadata.cordoning import cordoned_brokers
from kwire.cluster.metadata.election import (
    Online,
    elected_for_reassignment,
    elected_offline,
    first_state,
    is_new,
    next_state,
    original_replicas,
    target_replicas,
)
from kwire.cluster.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from kwire.cluster.metadata.placement import check_manual_assignment
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
    """Whether all target replicas are in sync."""
    return set(target_replicas(state)) <= set(state.isr)


def reassigning_state(
    partition: PartitionImage, target: Sequence[int], online: Online, *, unclean: bool
) -> PartitionImage | None:
    """The state in which the partition moves to `target`, or has already moved there.

    Replicas of an earlier reassignment that are not in `target` are removed at once.  Returns None
    if those are all that are in sync and no other replica can lead, by an `unclean` election if
    allowed.
    """
    before = original_replicas(partition)
    replicas = tuple(dict.fromkeys([*target, *before]))
    isr = tuple([each for each in partition.isr if each in replicas])
    after = replace(
        partition,
        leader=partition.leader if partition.leader in replicas else NO_LEADER,
        replicas=replicas,
        isr=isr,
        adding=tuple([each for each in replicas if each not in before]),
        removing=tuple([each for each in replicas if each not in target]),
    )
    if not isr:
        return elected_offline(after, online, unclean=unclean)
    completed = _completed_state(after, online)
    if completed is not None:
        return completed
    if after.leader == NO_LEADER:
        elected = elected_offline(after, online, unclean=False)
        if elected is not None:
            return elected
    return next_state(after, after.leader, isr)


def _completed_state(partition: PartitionImage, online: Online) -> PartitionImage | None:
    """Return the state with only the target replicas; None if that is not possible yet."""
    target = target_replicas(partition)
    if not is_complete(partition):
        return None
    after = replace(partition, replicas=target, adding=(), removing=())
    isr = tuple([each for each in partition.isr if each in target])
    if partition.leader in target and online(partition.leader):
        return next_state(after, partition.leader, isr)
    elected = elected_for_reassignment(after, target, online)
    return None if elected is None else replace(elected, isr=isr)


def completion_decision(state: ControllerState, topic_partition: TopicPartition) -> Decision:
    """A decision that ends a reassignment whose target replicas are in sync."""
    return partial(_complete, state, topic_partition)


def _complete(
    state: ControllerState, topic_partition: TopicPartition, image: ClusterImage
) -> AlterPartition | None:
    """Return the change that ends a reassignment; None if it cannot end yet or has ended."""
    partition = partition_of(image, topic_partition)
    if partition is None or not (partition.adding or partition.removing):
        return None
    return state.alteration(
        image, topic_partition, _completed_state(partition, state.online(topic_partition))
    )


def resumption_decision(state: ControllerState, topic_partition: TopicPartition) -> Decision:
    """A decision that ends a reassignment, or sends its state to all replicas again.

    Needed after a new controller is elected, or one of the brokers has restarted.
    """
    return partial(_resume, state, topic_partition)


def _resume(
    state: ControllerState, topic_partition: TopicPartition, image: ClusterImage
) -> AlterPartition | None:
    """Return the change that ends a reassignment, or that sends its state again.

    If the reassignment cannot end yet, the partition keeps its leader and ISR and gets a new leader
    epoch, so that all replicas receive its state.  None if no reassignment is in progress.
    """
    partition = partition_of(image, topic_partition)
    if partition is None or not (partition.adding or partition.removing):
        return None
    after = _completed_state(partition, state.online(topic_partition)) or next_state(
        partition, partition.leader, partition.isr
    )
    return state.alteration(image, topic_partition, after)


# -- requests of clients and tools


class PartitionReassignment:
    """A decision: move a partition to the replicas of `target`; None cancels its reassignment.

    With `keeps_factor` the replication factor must not change.  With `may_be_away` the target
    replicas need not be live.
    """

    def __init__(
        self,
        state: ControllerState,
        topic_partition: TopicPartition,
        target: Sequence[int] | None,
        *,
        keeps_factor: bool = False,
        may_be_away: bool = False,
    ) -> None:
        """The decision reads live brokers from `state` when it is called."""
        self._state = state
        self.topic_partition = topic_partition
        self._target = target
        self._keeps_factor = keeps_factor
        self._may_be_away = may_be_away

    def __call__(self, image: ClusterImage) -> AlterPartition | None:
        """Return the change that begins or cancels the reassignment.

        None if the partition has these replicas already.  Raises Refusal.
        """
        partition = partition_of(image, self.topic_partition)
        if partition is None or self.topic_partition[0] in image.deleting:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, self._unknown(image))
        target = self._checked_target(partition, cordoned_brokers(image))
        if target == partition.replicas and not (partition.adding or partition.removing):
            return None
        online = self._state.online(self.topic_partition)
        if is_new(partition):  # never led: there are no records to copy
            after = first_state(replace(partition, replicas=target), online)
        else:
            unclean = self._state.allows_unclean_election(self.topic_partition[0])
            after = reassigning_state(partition, target, online, unclean=unclean)
        change = self._state.alteration(image, self.topic_partition, after)
        if change is None:
            topic, index = self.topic_partition
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to change the replicas of {topic}-{index}: nobody in sync would be left "
                "to lead it.",
            )
        return change

    def _unknown(self, image: ClusterImage) -> str:
        """Return the error message for a partition that does not exist."""
        topic, index = self.topic_partition
        if topic in image.topics:
            return f"Unable to find partition {topic}:{index}."
        return f"Unable to find a topic named {topic}."

    def _checked_target(
        self, partition: PartitionImage, cordoned: frozenset[int]
    ) -> tuple[int, ...]:
        """Return the replicas to move to.  Raises Refusal if they are not possible."""
        if self._target is None:
            if not (partition.adding or partition.removing):
                raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            return original_replicas(partition)
        possible = self._state.members.keys() - self._state.shutting_down
        possible.update(self._target if self._may_be_away else original_replicas(partition))
        check_manual_assignment(self._target, possible, cordoned)
        factor = len(target_replicas(partition))
        if self._keeps_factor and len(self._target) != factor:
            raise Refusal(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {factor} to {len(self._target)}",
            )
        return tuple(self._target)


def alter_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest
) -> ControllerEffects:
    """AlterPartitionReassignments: begins, changes or cancels reassignments."""
    may_change = request.allow_replication_factor_change
    if not request.topics:
        empty = AlterPartitionReassignmentsResponse(allow_replication_factor_change=may_change)
        return ControllerEffects(reply=empty)
    outcomes = [
        [
            DecisionOutcome(
                PartitionReassignment(
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

    def reply() -> ControllerEffects:
        """Return the response, with the result of each partition."""
        responses = [
            _answered(topic, of_topic)
            for topic, of_topic in zip(request.topics, outcomes, strict=True)
        ]
        return ControllerEffects(
            reply=AlterPartitionReassignmentsResponse(
                allow_replication_factor_change=may_change,
                error_message=None,
                responses=responses,
            )
        )

    return ControllerEffects(decisions=list(chain.from_iterable(outcomes)), then=reply)


def _answered(
    topic: ReassignableTopic, outcomes: Sequence[DecisionOutcome[AlterPartition]]
) -> ReassignableTopicResponse:
    """Return the part of the response about one topic."""
    return ReassignableTopicResponse(
        topic.name,
        [
            ReassignablePartitionResponse(
                request.partition_index,
                ErrorCode.NONE if outcome.refusal is None else outcome.refusal.error,
                None if outcome.refusal is None else outcome.refusal.message,
            )
            for request, outcome in zip(topic.partitions, outcomes, strict=True)
        ],
    )


def reassignments_requested(
    state: ControllerState, replicas: Mapping[TopicPartition, tuple[int, ...]]
) -> ControllerEffects:
    """Begin reassignments that a tool wrote into the store; `reply` lists those refused."""
    decisions = [
        PartitionReassignment(state, topic_partition, target, may_be_away=True)
        for topic_partition, target in replicas.items()
    ]
    outcomes = [DecisionOutcome(each) for each in decisions]

    def reply() -> ControllerEffects:
        """Replies with the partitions whose reassignment was refused."""
        pairs = zip(decisions, outcomes, strict=True)
        return ControllerEffects(
            reply=[each.topic_partition for each, outcome in pairs if outcome.refusal is not None]
        )

    return ControllerEffects(decisions=list(outcomes), then=reply)


def list_reassignments(
    state: ControllerState, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the reassignments in progress: all, or those of the request's topics."""
    if request.topics is None:
        topic_partitions = sorted(state.reassigned)
    else:
        named = {(topic.name, each) for topic in request.topics for each in topic.partition_indexes}
        topic_partitions = sorted(named & state.reassigned)
    topics = []
    for topic, of_topic in groupby(
        topic_partitions, key=lambda topic_partition: topic_partition[0]
    ):
        partitions = []
        for topic_partition in of_topic:
            partition = state.partition(topic_partition)
            assert partition is not None, "the index follows the image"
            partitions.append(
                OngoingPartitionReassignment(
                    topic_partition[1],
                    list(partition.replicas),
                    list(partition.adding),
                    list(partition.removing),
                )
            )
        topics.append(OngoingTopicReassignment(topic, partitions))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)
