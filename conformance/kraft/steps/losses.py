"""Steps in which a broker is slow, fenced, shut down, killed or unregistered."""

from __future__ import annotations

from kwire.codecs.messages.unregister_broker import UnregisterBrokerRequest
from kwire.conformance.kraft.stage import IDS, ClusterStep, RecordsStage
from kwire.conformance.kraft.state import NO_LEADER
from kwire.conformance.kraft.steps.requests import (
    LEADER,
    PREFERRED,
    TOPIC,
    UNCLEAN,
    alter,
    create,
    delete,
    elect,
    produce,
    reassign,
    succeed,
)


def _slow_follower(stage: RecordsStage) -> None:
    """Broker 3 stands still, but not for a session: the leader of one partition removes it."""
    with stage.paused(3):
        produce(stage, "placed", 0, acks=LEADER)
        stage.wait_for(
            lambda: 3 not in stage.state.partition("placed", 0).isr, "the ISR is smaller"
        )


def _fenced(stage: RecordsStage) -> None:
    """Broker 3 stands still until it is fenced, and goes on with its old epoch."""
    with stage.paused(3):
        stage.wait_for(lambda: 3 not in stage.state.unfenced, "broker 3 is fenced")
    stage.settle()
    _elect_preferred(stage, 1)


def _elect_preferred(stage: RecordsStage, broker_id: int) -> None:
    elect(stage, broker_id, PREFERRED, "placed", [0, 1, 2])
    elect(stage, broker_id, PREFERRED, "pair", [0, 1, 2])


def _shut_down(broker_id: int) -> ClusterStep:
    def run(stage: RecordsStage) -> None:
        stage.stop(broker_id)
        stage.settle()
        stage.start(broker_id)
        stage.settle()
        _elect_preferred(stage, broker_id)

    return ClusterStep(f"broker {broker_id} is shut down and started again", run)


def _killed(stage: RecordsStage) -> None:
    """Broker 2 is killed; topics are deleted, created and created again without it."""
    create(stage, 1, "deleted", [[1, 2], [2, 3]])
    create(stage, 1, "replaced", [[2, 3]])
    stage.settle()
    produce(stage, "replaced", 0)
    stage.kill(2)
    delete(stage, 1, "deleted")
    delete(stage, 3, "replaced")
    stage.settle()
    create(stage, 3, "replaced", [[3, 2]], {"min.insync.replicas": "1"})
    create(stage, 1, "without", [[2, 1]])
    stage.settle()
    stage.start(2)
    stage.settle()
    _elect_preferred(stage, 2)


def _reassign_to_nobody(stage: RecordsStage) -> None:
    """Reassign to a broker that is down; one reassignment is cancelled, one goes on later."""
    create(stage, 1, "moving", [[1], [2]])
    stage.settle()
    stage.stop(3)
    reassign(stage, 1, "moving", {0: [3], 1: [2, 3]})
    stage.settle()
    reassign(stage, 2, "moving", {0: None})
    stage.settle()
    stage.start(3)
    stage.settle()
    _elect_preferred(stage, 3)


def _lose_both(stage: RecordsStage) -> None:
    """Both replicas of a partition are killed; the last known leader comes back last."""
    create(stage, 3, "both", [[1, 2]])
    stage.settle()
    produce(stage, "both", 0)
    stage.kill(2)
    stage.kill(1)
    stage.wait_for(lambda: stage.state.partition("both", 0).leader == NO_LEADER, "no leader")
    stage.start(2)
    stage.start(1)
    stage.wait_for(lambda: stage.state.partition("both", 0).leader != NO_LEADER, "a leader")
    stage.settle()
    produce(stage, "both", 0)
    _elect_preferred(stage, 1)


def _elect_uncleanly(stage: RecordsStage) -> None:
    """A replica that was not in sync leads: a request says so, or the config of the topic."""
    create(stage, 3, "asked", [[1, 2]])
    create(stage, 3, "unclean", [[1, 2]], {"unclean.leader.election.enable": "true"})
    stage.settle()
    produce(stage, "asked", 0)
    produce(stage, "unclean", 0)
    stage.kill(2)
    produce(stage, "asked", 0)
    produce(stage, "unclean", 0)
    stage.kill(1)
    stage.start(2)
    stage.wait_for(lambda: stage.state.partition("unclean", 0).leader == 2, "an unclean leader")
    elect(stage, 3, UNCLEAN, "asked", [0])
    stage.wait_for(lambda: stage.state.partition("asked", 0).leader == 2, "the leader asked for")
    stage.settle()
    stage.start(1)
    stage.settle()
    produce(stage, "asked", 0)
    produce(stage, "unclean", 0)
    _elect_preferred(stage, 2)


def _unregister(stage: RecordsStage) -> None:
    stage.stop(3)
    succeed(stage.ask(1, UnregisterBrokerRequest(3)))
    stage.ask(2, UnregisterBrokerRequest(9))
    stage.settle()
    stage.start(3)
    stage.settle()
    alter(stage, 1, TOPIC, "placed", {"min.insync.replicas": None})


STEPS = (
    ClusterStep("a follower is slow", _slow_follower),
    ClusterStep("a broker is fenced and goes on", _fenced),
    *map(_shut_down, IDS),
    ClusterStep("a broker is killed, topics change without it", _killed),
    ClusterStep("partitions are reassigned to a broker that is down", _reassign_to_nobody),
    ClusterStep("both replicas are lost", _lose_both),
    ClusterStep("leaders are elected uncleanly", _elect_uncleanly),
    ClusterStep("a broker is unregistered and comes back", _unregister),
)
