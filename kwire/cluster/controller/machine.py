"""The controller: told what happened, it says what is to be decided and sent.

It reads no clock, socket or store.  A driver (effects.py says how) begins it when its broker has
been elected, and drops it when that is over; tests/cluster/controller/simulation.py is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwire.cluster.controller import (
    deletion,
    elections,
    isr,
    liveness,
    reassignment,
    shutdown,
)
from kwire.cluster.controller.effects import Effects, ToBroker
from kwire.cluster.controller.propagation import Batch
from kwire.cluster.controller.state import ControllerState, Place
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
    """One term as controller; `image` is the whole of the cluster's, as it is at its begin."""

    def __init__(self, settings: LiveSettings, image: ClusterImage) -> None:
        self.state = ControllerState(settings, image)
        self._unclean_by_default = settings.config.unclean_leader_election_enable
        """As of the last change of configs."""

    def begin(self) -> Effects:
        """Tell everybody everything, and go on with what others have left."""
        state = self.state
        state.members = {broker.id: broker.epoch for broker in state.image.brokers.values()}
        brokers, everything = Batch(state), Batch(state)
        brokers.show(())  # first, for brokers look in it for the leaders that they are to follow
        shown: list[Place] = []
        for name, topic in state.image.topics.items():
            for index, known in enumerate(topic.partitions):
                place = (name, index)
                state.index(place, known)
                if not is_new(known):
                    everything.lead(known.replicas, place)
                    shown.append(place)
        everything.show(shown)
        effects = Effects(requests=[*brokers.requests(), *everything.requests()])
        effects.also(liveness.absent(state))
        effects.decisions += elections.settling(state, state.leaderless)
        effects.decisions += [
            reassignment.resumption(state, place) for place in sorted(state.reassigned)
        ]
        deletion.taken_up(state)
        deletion.halt_where_replicas_are_away(state)
        effects.also(deletion.resume(state, sorted(state.deletions)))
        effects.also(elections.next_balancing(state, first=True))
        return effects

    # -- the store

    def changed(self, image: ClusterImage, delta: ClusterDelta) -> Effects:
        """The store published `image`, to which `delta` led, whoever changed it."""
        state = self.state
        before = state.follow(image, delta)
        effects = Effects()
        marked = deletion.taken_up(state)
        effects.also(self._partitions_changed(before))
        if marked:
            effects.also(deletion.resume(state, marked))
        if delta.brokers:
            effects.also(liveness.brokers_changed(state, delta))
        if delta.configs:
            effects.also(self._configs_changed(delta))
        return effects

    def _partitions_changed(self, before: Mapping[Place, PartitionImage]) -> Effects:
        state = self.state
        batch, effects = Batch(state), Effects()
        fresh, resumed = [], set()
        for place, old in before.items():
            now = state.image.topics[place[0]].partitions[place[1]]
            self._propagate(batch, place, old, now)
            if is_new(now):
                fresh.append(place)
                continue
            effects.decisions += liveness.departures(state, place, now)
            if (now.adding or now.removing) and reassignment.is_complete(now):
                effects.decisions.append(reassignment.completion(state, place))
            elif old.adding or old.removing:
                resumed.add(place[0])
        effects.requests = batch.requests()
        effects.decisions += elections.settling(state, fresh)
        effects.also(deletion.resume(state, sorted(resumed & state.deletions.keys()), anew=True))
        return effects

    def _propagate(
        self, batch: Batch, place: Place, old: PartitionImage, now: PartitionImage
    ) -> None:
        """Tell the replicas who leads, all how it is, and those that go that it is over."""
        state = self.state
        if is_new(now):
            return
        batch.show([place])
        if now.leader_epoch != old.leader_epoch:
            reachable = state.reachable(place)
            for broker_id in now.replicas:
                leaving = broker_id in state.shutting_down
                if reachable(broker_id) and (not leaving or broker_id in (old.leader, now.leader)):
                    batch.lead([broker_id], place, new=is_new(old) or broker_id in now.adding)
        batch.stop([each for each in old.replicas if each not in now.replicas], place, delete=True)

    def _configs_changed(self, delta: ClusterDelta) -> Effects:
        """Elect leaders where `unclean.leader.election.enable` has become true.

        It may be a topic's own or this broker's, as in Apache Kafka 3.9, whose controller goes by
        the config of its own broker: a value for that broker alone comes before the cluster's.
        """
        state = self.state
        was_by_default = self._unclean_by_default
        self._unclean_by_default = state.settings.config.unclean_leader_election_enable
        if self._unclean_by_default and not was_by_default:
            return Effects(decisions=elections.settling(state, state.leaderless))
        topics = {
            name
            for resource, name in delta.configs
            if resource == TOPIC_RESOURCE and state.unclean(name)
        }
        waiting = [place for place in state.leaderless if topics and place[0] in topics]
        return Effects(decisions=elections.settling(state, waiting))

    def log_dirs_failed(self, broker_ids: Iterable[int]) -> Effects:
        return liveness.log_dirs_failed(self.state, broker_ids)

    def isr_changed(self, places: Iterable[Place]) -> Effects:
        """A leader has changed its ISR in the store itself; the store has published that."""
        batch = Batch(self.state)
        batch.show(places)
        return Effects(requests=batch.requests())

    def reassignments_asked(self, replicas: Mapping[Place, tuple[int, ...]]) -> Effects:
        """By an administrator, in the store; `reply` are the places that are refused."""
        return reassignment.reassignments_asked(self.state, replicas)

    def elections_asked(self, places: Iterable[Place]) -> Effects:
        """By an administrator, in the store: the preferred replicas are to lead."""
        return Effects(decisions=elections.preferred_elections(self.state, places))

    # -- the brokers

    def answered(self, sent: ToBroker, response: Message | None) -> Effects:
        """To what was sent; None: there will be no answer, for the broker is gone."""
        state = self.state
        if state.members.get(sent.broker_id) != sent.broker_epoch:
            return Effects()
        if isinstance(response, LeaderAndIsrResponse):
            return liveness.leader_and_isr_answered(state, sent.broker_id, response)
        if isinstance(response, StopReplicaResponse):
            assert isinstance(sent.request, StopReplicaRequest)
            return deletion.answered(state, sent.broker_id, sent.request, response)
        return Effects()

    def alter_partition(self, request: AlterPartitionRequest) -> Effects:
        return isr.alter_partition(self.state, request)

    def controlled_shutdown(self, request: ControlledShutdownRequest) -> Effects:
        return shutdown.controlled_shutdown(self.state, request)

    def elect_leaders(self, request: ElectLeadersRequest) -> Effects:
        return elections.elect_leaders(self.state, request)

    def alter_reassignments(self, request: AlterPartitionReassignmentsRequest) -> Effects:
        return reassignment.alter_reassignments(self.state, request)

    def list_reassignments(self, request: ListPartitionReassignmentsRequest) -> Effects:
        return Effects(reply=reassignment.list_reassignments(self.state, request))

    def may_allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> Effects:
        """Whether the store may be asked for a block of ids for this broker: an ErrorCode."""
        epoch = self.state.members.get(request.broker_id)
        if epoch is None:
            return Effects(reply=ErrorCode.BROKER_ID_NOT_REGISTERED)
        is_current = epoch == request.broker_epoch
        return Effects(reply=ErrorCode.NONE if is_current else ErrorCode.STALE_BROKER_EPOCH)

    # -- the clock

    def timer(self, name: str) -> Effects:
        """A timer that was set has come due."""
        assert name == elections.BALANCING, name
        return elections.balancing(self.state)
