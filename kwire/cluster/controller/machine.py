"""The controller's dispatcher: each event of the cluster in, `ControllerEffects` out.

It reads no clock, socket or store.  A driver creates one `ClusterController` when its broker is
elected, calls `start` once, then one method for each event, and drops it when the term ends.
effects.py says what a driver does with the effects.  Drivers are
kwire.cluster.membership.controlling, and a simulation in the tests.

Every change goes through the store: a method here never changes `state.image` itself.  It returns
decisions, the driver commits them, and only `image_changed` updates the image and sends requests to
brokers.  So changes that another broker or a tool made in the store have the same effects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from kwire.cluster.controller import (
    deletion,
    elections,
    isr,
    liveness,
    reassignment,
    shutdown,
)
from kwire.cluster.controller.effects import BrokerRequest, ControllerEffects
from kwire.cluster.controller.propagation import BrokerRequestBatch
from kwire.cluster.controller.state import ControllerState, TopicPartition
from kwire.cluster.decisions.registrations import drop_registration
from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.election import is_new
from kwire.cluster.metadata.image import TOPIC_RESOURCE, ClusterImage, PartitionImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kwire.codecs.messages.alter_partition import AlterPartitionRequest
from kwire.codecs.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kwire.codecs.messages.controlled_shutdown import ControlledShutdownRequest
from kwire.codecs.messages.elect_leaders import ElectLeadersRequest
from kwire.codecs.messages.leader_and_isr import LeaderAndIsrResponse
from kwire.codecs.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kwire.codecs.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kwire.codecs.primitives import Message
from kwire.settings.live import LiveSettings


class ClusterController:
    """The controller for one term; `image` is the whole metadata when the term begins."""

    def __init__(self, settings: LiveSettings, image: ClusterImage) -> None:
        self.state = ControllerState(settings, image)
        self._unclean_by_default = settings.config.unclean_leader_election_enable
        """The broker's `unclean.leader.election.enable` at the last change of configs."""

    def start(self) -> ControllerEffects:
        """Send the whole metadata to all brokers, and resume what earlier controllers began."""
        state = self.state
        state.members = {broker.id: broker.epoch for broker in state.image.brokers.values()}
        # A broker looks up the addresses of leaders in its metadata when LeaderAndIsr tells it to
        # follow them.  So all brokers first get the list of live brokers, without partitions.
        brokers, everything = BrokerRequestBatch(state), BrokerRequestBatch(state)
        brokers.add_update_metadata(())
        shown: list[TopicPartition] = []
        for name, topic in state.image.topics.items():
            for index, partition in enumerate(topic.partitions):
                topic_partition = (name, index)
                state.add_to_indexes(topic_partition, partition)
                if not is_new(partition):
                    everything.add_leader_and_isr(partition.replicas, topic_partition)
                    shown.append(topic_partition)
        everything.add_update_metadata(shown)
        effects = ControllerEffects(requests=[*brokers.requests(), *everything.requests()])
        # The controller before may have ended before it decided about these brokers.
        effects.add(liveness.remove_absent_brokers(state))
        effects.decisions += elections.leader_elections(state, state.leaderless)
        effects.decisions += [
            reassignment.resumption_decision(state, topic_partition)
            for topic_partition in sorted(state.reassigned)
        ]
        # Deletions are halted before `resume`, so that none begins while a replica is offline.
        deletion.note_marked_topics(state)
        deletion.halt_where_replicas_are_offline(state)
        effects.add(deletion.resume(state, sorted(state.deletions)))
        effects.add(elections.balancing_timer(state, first=True))
        return effects

    # -- events of the store

    def image_changed(self, image: ClusterImage, delta: ClusterDelta) -> ControllerEffects:
        """Handles a new `image` of the store, the result of `delta`.

        Any broker or tool may have made the change, this controller included.
        """
        state = self.state
        before = state.follow(image, delta)
        effects = ControllerEffects()
        # Before the partitions: UpdateMetadata shows the topics that are being deleted as such.
        marked = deletion.note_marked_topics(state)
        effects.add(self._partitions_changed(before))
        # After the partitions: brokers learn of a new state before they delete their replicas.
        if marked:
            effects.add(deletion.resume(state, marked))
        if delta.brokers:
            effects.add(liveness.brokers_changed(state, delta))
        if delta.configs:
            effects.add(self._configs_changed(delta))
        return effects

    def _partitions_changed(
        self, before: Mapping[TopicPartition, PartitionImage]
    ) -> ControllerEffects:
        """Send the new states to brokers, and decide what has to follow from each.

        `before` has the former state of each partition that changed.
        """
        state = self.state
        batch, effects = BrokerRequestBatch(state), ControllerEffects()
        new_partitions: list[TopicPartition] = []
        reassigned_topics: set[str] = set()
        for topic_partition, old in before.items():
            now = state.image.topics[topic_partition[0]].partitions[topic_partition[1]]
            self._propagate(batch, topic_partition, old, now)
            if is_new(now):
                new_partitions.append(topic_partition)  # they still need their first leader
                continue
            # A change that was decided before a broker left can be committed after: the broker
            # then is in the new state again, and has to be removed once more.
            effects.decisions += liveness.remove_departed_members(state, topic_partition, now)
            if (now.adding or now.removing) and reassignment.is_complete(now):
                effects.decisions.append(reassignment.completion_decision(state, topic_partition))
            elif old.adding or old.removing:
                # A deletion of the topic may have waited for the end of the reassignment.
                reassigned_topics.add(topic_partition[0])
        effects.requests = batch.requests()
        effects.decisions += elections.leader_elections(state, new_partitions)
        waiting = sorted(reassigned_topics & state.deletions.keys())
        effects.add(deletion.resume(state, waiting, anew=True))
        return effects

    def _propagate(
        self,
        batch: BrokerRequestBatch,
        topic_partition: TopicPartition,
        old: PartitionImage,
        now: PartitionImage,
    ) -> None:
        """Send the new state of a partition: LeaderAndIsr, UpdateMetadata and StopReplica."""
        state = self.state
        if is_new(now):  # no broker learns of a partition before it has a leader
            return
        batch.add_update_metadata([topic_partition])
        # Within one leader epoch it is the leader that changes the ISR, by AlterPartition, and it
        # already has the answer; its followers do not need to know the ISR.
        if now.leader_epoch != old.leader_epoch:
            reachable = state.reachable(topic_partition)
            for broker_id in now.replicas:
                # A broker that shuts down was told to stop following; it must not start again.
                # Only a former or new leader still has to know who leads.
                leaving = broker_id in state.shutting_down
                if reachable(broker_id) and (not leaving or broker_id in (old.leader, now.leader)):
                    batch.add_leader_and_isr(
                        [broker_id], topic_partition, new=is_new(old) or broker_id in now.adding
                    )
        # Replicas that a reassignment removed delete their logs.
        batch.add_stop_replica(
            [each for each in old.replicas if each not in now.replicas],
            topic_partition,
            delete=True,
        )

    def _configs_changed(self, delta: ClusterDelta) -> ControllerEffects:
        """Elect leaders for partitions that may now have an unclean election.

        `unclean.leader.election.enable` may have become true for a topic or for this broker.  As in
        Apache Kafka 3.9, the controller uses the config of its own broker, in which a value for
        that broker takes precedence over the default of the cluster.
        """
        state = self.state
        was_by_default = self._unclean_by_default
        self._unclean_by_default = state.settings.config.unclean_leader_election_enable
        if self._unclean_by_default and not was_by_default:  # concerns all topics at once
            return ControllerEffects(decisions=elections.leader_elections(state, state.leaderless))
        topics = {
            name
            for resource, name in delta.configs
            if resource == TOPIC_RESOURCE and state.allows_unclean_election(name)
        }
        waiting = [
            topic_partition
            for topic_partition in state.leaderless
            if topics and topic_partition[0] in topics
        ]
        return ControllerEffects(decisions=elections.leader_elections(state, waiting))

    def log_dirs_failed(self, broker_ids: Iterable[int]) -> ControllerEffects:
        return liveness.log_dirs_failed(self.state, broker_ids)

    def isr_changed(self, topic_partitions: Iterable[TopicPartition]) -> ControllerEffects:
        """Leaders changed their ISR in the store themselves, and the store has published it."""
        batch = BrokerRequestBatch(self.state)
        batch.add_update_metadata(topic_partitions)
        return ControllerEffects(requests=batch.requests())

    def reassignments_requested(
        self, replicas: Mapping[TopicPartition, tuple[int, ...]]
    ) -> ControllerEffects:
        """A tool wrote reassignments into the store; `reply` is the list of refused partitions."""
        return reassignment.reassignments_requested(self.state, replicas)

    def preferred_elections_requested(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> ControllerEffects:
        """Handles a tool's request in the store to elect the preferred replicas."""
        return ControllerEffects(
            decisions=elections.preferred_elections(self.state, topic_partitions)
        )

    # -- responses and requests of brokers and clients

    def response_received(self, sent: BrokerRequest, response: Message | None) -> ControllerEffects:
        """Handles a broker's response to a request; `response` is None if the broker is gone."""
        state = self.state
        # The response of an earlier registration says nothing about the broker that runs now.
        if state.members.get(sent.broker_id) != sent.broker_epoch:
            return ControllerEffects()
        if isinstance(response, LeaderAndIsrResponse):
            return liveness.leader_and_isr_answered(state, sent.broker_id, response)
        if isinstance(response, StopReplicaResponse):
            assert isinstance(sent.request, StopReplicaRequest)
            return deletion.stop_replica_answered(state, sent.broker_id, sent.request, response)
        return ControllerEffects()  # nothing follows from a response to UpdateMetadata

    def alter_partition(self, request: AlterPartitionRequest) -> ControllerEffects:
        return isr.alter_partition(self.state, request)

    def controlled_shutdown(self, request: ControlledShutdownRequest) -> ControllerEffects:
        return shutdown.controlled_shutdown(self.state, request)

    def elect_leaders(self, request: ElectLeadersRequest) -> ControllerEffects:
        return elections.elect_leaders(self.state, request)

    def alter_reassignments(self, request: AlterPartitionReassignmentsRequest) -> ControllerEffects:
        return reassignment.alter_reassignments(self.state, request)

    def unregister_broker(self, broker_id: int) -> ControllerEffects:
        """Remove a broker and its registration; raises Refusal if it is not registered.

        A live broker is removed like one that has left.
        """
        decision = partial(drop_registration, broker_id=broker_id)
        return ControllerEffects(decisions=[decision])

    def list_reassignments(self, request: ListPartitionReassignmentsRequest) -> ControllerEffects:
        return ControllerEffects(reply=reassignment.list_reassignments(self.state, request))

    def may_allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> ControllerEffects:
        """Replies NONE if the broker may take a block of producer ids, or else the error."""
        epoch = self.state.members.get(request.broker_id)
        if epoch is None:
            return ControllerEffects(reply=ErrorCode.BROKER_ID_NOT_REGISTERED)
        is_current = epoch == request.broker_epoch
        return ControllerEffects(
            reply=ErrorCode.NONE if is_current else ErrorCode.STALE_BROKER_EPOCH
        )

    # -- timers

    def timer_fired(self, name: str) -> ControllerEffects:
        """A timer of earlier effects fired."""
        assert name == elections.BALANCING, name
        return elections.balance_leaders(self.state)
