"""Brokers that came, went, and were replaced; disks that failed.

A broker that is gone leads nothing and is in no ISR, except as the last one of it.  One that is
registered anew (its epoch grew) was gone, too: that is decided and committed before it counts as
alive again and is told what it leads (`start`), and so it is for one that comes while its going is
still being decided.

What was decided with it before it went may be committed after that was heard: `departures` decides
once more without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from functools import partial

from kwire.cluster.controller import deletion
from kwire.cluster.controller.effects import Effects
from kwire.cluster.controller.elections import settling
from kwire.cluster.controller.propagation import Batch
from kwire.cluster.controller.reassignment import resumption
from kwire.cluster.controller.state import ControllerState, Place, is_left_alone, partition_of
from kwire.cluster.metadata.changes import AlterPartition, Decision
from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.election import (
    elected_offline,
    is_new,
    target_replicas,
    without_replica,
)
from kwire.cluster.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.leader_and_isr import LeaderAndIsrResponse


def brokers_changed(state: ControllerState, delta: ClusterDelta) -> Effects:
    effects = Effects()
    arrived: dict[int, int] = {}
    modified = False
    for broker_id, broker in sorted(delta.brokers.items()):
        epoch = state.members.get(broker_id)
        if epoch is not None and (broker is None or broker.epoch != epoch):
            effects.also(_gone(state, broker_id))
        if broker is not None and broker.epoch == epoch:
            modified = True
        elif broker is not None:
            arrived[broker_id] = broker.epoch
    if arrived:
        effects.also(Effects(then=partial(start, state, arrived)))
    if modified:
        batch = Batch(state)
        batch.show(())
        effects.requests += batch.requests()
    return effects


def _gone(state: ControllerState, broker_id: int) -> Effects:
    del state.members[broker_id]
    state.shutting_down.discard(broker_id)
    state.offline.pop(broker_id, None)
    places = sorted(state.hosted.get(broker_id, ()))
    deletion.failed(state, broker_id, places)
    return _replicas_gone(state, broker_id, places)


def absent(state: ControllerState) -> Effects:
    """Brokers that had gone when this controller came: what the one before had no time to do."""
    effects = Effects()
    for broker_id in sorted(state.hosted.keys() - state.members.keys()):
        effects.also(_replicas_gone(state, broker_id, sorted(state.hosted[broker_id])))
    return effects


def _replicas_gone(state: ControllerState, broker_id: int, places: list[Place]) -> Effects:
    """Decide without replicas that are away; of the others all are told who is away."""
    concerned: list[Place] = []
    others: list[Place] = []
    for place in places:
        known = state.partition(place)
        if known is None or is_new(known):
            continue
        state.judge(place, known)
        if is_left_alone(state.image, place, known):
            continue
        is_concerned = broker_id in known.isr or known.leader == broker_id
        (concerned if is_concerned else others).append(place)

    def show() -> Effects:
        batch = Batch(state)
        batch.show(others)
        return Effects(requests=batch.requests())

    if not concerned:
        return show()
    decisions = [partial(_without, state, broker_id, place) for place in concerned]
    return Effects(decisions=list(decisions), then=show if others else None)


def departures(state: ControllerState, place: Place, now: PartitionImage) -> list[Decision]:
    """Go on without who leads or is in sync by a partition's newest state, and is no member.

    It may be one by the time that this is committed, and then lead anew.
    """
    gone = [each for each in now.isr if each not in state.members]
    if not gone or (now.leader == NO_LEADER and len(now.isr) == 1):
        return []
    return [*(partial(_without, state, each, place) for each in gone), *settling(state, [place])]


def _without(
    state: ControllerState, broker_id: int, place: Place, image: ClusterImage
) -> AlterPartition | None:
    known = partition_of(image, place)
    if known is None or broker_id not in known.replicas or is_left_alone(image, place, known):
        return None
    online = state.online(place)
    after = None
    if known.leader == broker_id or not state.reachable(place)(known.leader):
        after = elected_offline(
            known,
            lambda each: each != broker_id and online(each),
            unclean=state.unclean(place[0]),
        )
    return state.alteration(image, place, after or without_replica(known, broker_id))


def start(state: ControllerState, arrived: Mapping[int, int]) -> Effects:
    """Have brokers take up what is theirs, if they are still there in the epochs given."""
    there = {
        broker_id: epoch
        for broker_id, epoch in arrived.items()
        if broker_id not in state.members
        and (broker := state.image.brokers.get(broker_id)) is not None
        and broker.epoch == epoch
    }
    if not there:
        return Effects()
    others = list(state.members)
    state.members |= there
    whole, theirs = Batch(state), Batch(state)
    whole.show((place for topic in state.image.topics for place in state.places(topic)), there)
    theirs.show((), others)
    hosted: dict[Place, None] = {}
    for broker_id in there:
        for place in state.hosted.get(broker_id, ()):
            known = state.partition(place)
            assert known is not None, "the index follows the image"
            hosted[place] = None
            state.judge(place, known)
            if not is_new(known):
                theirs.lead([broker_id], place)
                theirs.show([place], others)
    effects = Effects(requests=[*whole.requests(), *theirs.requests()])
    effects.also(_taken_up(state, hosted.keys(), there.keys()))
    return effects


def _taken_up(state: ControllerState, places: Set[Place], brokers: Set[int]) -> Effects:
    """What waited for replicas of these partitions on these brokers, which are there again."""
    effects = Effects(decisions=settling(state, places & state.leaderless))
    effects.decisions += [
        resumption(state, place)
        for place in sorted(places & state.reassigned)
        if (known := state.partition(place)) is not None
        and not brokers.isdisjoint(target_replicas(known))
    ]
    deleting = sorted({place[0] for place in places} & state.deletions.keys())
    effects.also(deletion.resume(state, deleting, anew=True))
    return effects


# -- disks


def log_dirs_failed(state: ControllerState, broker_ids: Iterable[int]) -> Effects:
    """Ask brokers that have lost disks which of their replicas were on them."""
    batch = Batch(state)
    for broker_id in broker_ids:
        for place in state.hosted.get(broker_id, ()):
            known = state.partition(place)
            if known is not None and not is_new(known):
                batch.lead([broker_id], place)
                batch.show([place])
    return Effects(requests=batch.requests())


def leader_and_isr_answered(
    state: ControllerState, broker_id: int, response: LeaderAndIsrResponse
) -> Effects:
    """Note which replicas are on failed disks, and decide without those that were not before.

    A disk that was full only fails no longer (kwire's brokers; Apache Kafka's restart for that).
    """
    if response.error_code:
        return Effects()
    before = state.offline.get(broker_id, set())
    now = set(before)
    for topic in response.topics:
        name = state.image.names_by_id.get(topic.topic_id)
        for each in topic.partition_errors if name is not None else ():
            place = (name or "", each.partition_index)
            if each.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                now.add(place)
            elif each.error_code == ErrorCode.NONE:
                now.discard(place)
    if now:
        state.offline[broker_id] = now
    else:
        state.offline.pop(broker_id, None)
    effects = _replicas_back(state, broker_id, before - now) if before - now else Effects()
    failed = sorted(now - before)
    if not failed:
        return effects
    batch = Batch(state)
    for place in failed:
        if not state.is_deleting(place[0]):
            batch.stop([broker_id], place, delete=False)
    deletion.failed(state, broker_id, failed)
    effects.requests += batch.requests()
    effects.also(_replicas_gone(state, broker_id, failed))
    return effects


def _replicas_back(state: ControllerState, broker_id: int, places: Set[Place]) -> Effects:
    """Go on with replicas that there is room for again.

    They are told of once more: that they are to stop may have been sent after what they answered.
    """
    batch = Batch(state)
    for place in sorted(places):
        known = state.partition(place)
        if known is not None and not is_new(known):
            batch.lead([broker_id], place)
            batch.show([place])
    effects = Effects(requests=batch.requests())
    effects.also(_taken_up(state, places, {broker_id}))
    return effects
