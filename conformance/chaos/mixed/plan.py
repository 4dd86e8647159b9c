"""The plan of a round with a mixed cluster; the seed determines all of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kwire.conformance.chaos.plan import RoundPlan, stream_of, topic_configs
from kwire.conformance.kraft_cluster import APACHE, FIRST_CONTROLLER, KWIRE

BROKERS = 3
LOAD_S_MIN, LOAD_S_MAX = 8.0, 16.0
"""The start of a broker of Apache Kafka takes several seconds."""
RATE_MAX, WAITING_MAX = 100, 100
FAULTS_MAX = 4
MIXTURES = (
    (KWIRE, KWIRE, APACHE),
    (KWIRE, APACHE, APACHE),
    (APACHE, KWIRE, KWIRE),
    (KWIRE, KWIRE, KWIRE),
)


class MixedFaultKind(StrEnum):
    KILL = "kill"
    KILL_ALL = "kill all"
    PAUSE = "pause"
    RESTART = "restart"
    REPLACE = "replace"
    """A broker is stopped, and one of the other kind starts on its data."""
    KILL_AND_REPLACE = "kill and replace"
    """A broker is killed, and one of the other kind starts on its data."""
    SHRINK = "shrink"
    """A broker gives up its replicas, and gets new ones later."""
    ELECT = "elect"
    """The first replica of each partition becomes its leader, if it is in sync."""
    CONTROLLER_KILL = "controller kill"
    """The leading controller is killed."""
    CONTROLLER_PAUSE = "controller pause"
    """The leading controller is paused."""
    CONTROLLERS_KILL = "controllers kill"
    """All controllers are killed."""


DURATION_S = {
    MixedFaultKind.KILL: (0.0, 5.0),
    MixedFaultKind.KILL_ALL: (0.0, 1.0),
    MixedFaultKind.PAUSE: (0.2, 8.0),
    MixedFaultKind.RESTART: (0.0, 2.0),
    MixedFaultKind.REPLACE: (0.0, 1.0),
    MixedFaultKind.KILL_AND_REPLACE: (0.0, 3.0),
    MixedFaultKind.SHRINK: (0.5, 4.0),
    MixedFaultKind.ELECT: (0.0, 0.0),
    MixedFaultKind.CONTROLLER_KILL: (0.0, 4.0),
    MixedFaultKind.CONTROLLER_PAUSE: (0.5, 6.0),
    MixedFaultKind.CONTROLLERS_KILL: (0.0, 5.0),
}
"""Shortest and longest duration; a broker's session lasts from 2 to 6 seconds."""


@dataclass(frozen=True, slots=True)
class MixedFault:
    """A fault of the broker `victim` from `at_s` after the load begins, for `duration_s`."""

    kind: MixedFaultKind
    at_s: float
    duration_s: float
    victim: int

    def __str__(self) -> str:
        return f"{self.kind} {self.victim} {self.at_s:g}+{self.duration_s:g}"


@dataclass(frozen=True, slots=True)
class MixedPlan(RoundPlan):
    """The plan of a round; `kinds` are those of the brokers at the start."""

    kinds: tuple[str, ...]
    controllers: int
    faults: tuple[MixedFault, ...]

    @property
    def controller_ids(self) -> range:
        return range(FIRST_CONTROLLER, FIRST_CONTROLLER + self.controllers)


def draw(
    seed: int,
    fault_kinds: Sequence[MixedFaultKind],
    workloads: Sequence[str],
    kinds: Sequence[str] = (),
    controllers: int | None = None,
) -> MixedPlan:
    """Return the plan of `seed`, with faults of these kinds only.

    The brokers are of the given `kinds`, or drawn from MIXTURES.  Without `controllers`, there are
    one or three.
    """
    rng = stream_of(seed, "plan")
    load_s = round(rng.uniform(LOAD_S_MIN, LOAD_S_MAX), 3)
    mixture = stream_of(seed, "mixture").choice(MIXTURES)
    drawn = stream_of(seed, "controllers").choice((1, 1, 3))
    return MixedPlan(
        seed=seed,
        workload=stream_of(seed, "workload").choice(workloads),
        load_s=load_s,
        broker_settings=_settings(stream_of(seed, "broker")),
        topic_configs=topic_configs(stream_of(seed, "topic")),
        partitions=rng.randint(1, 6),
        rate_max=RATE_MAX,
        waiting_max=WAITING_MAX,
        kinds=tuple(kinds) or mixture,
        controllers=drawn if controllers is None else controllers,
        faults=_faults(stream_of(seed, "faults"), load_s, fault_kinds),
    )


def _faults(
    rng: random.Random, load_s: float, kinds: Sequence[MixedFaultKind]
) -> tuple[MixedFault, ...]:
    """Return 1 to FAULTS_MAX faults of these kinds, in the order of their begin; none without
    kinds."""
    if not kinds:
        return ()
    faults = [_fault(rng, load_s, rng.choice(kinds)) for _ in range(rng.randint(1, FAULTS_MAX))]
    return tuple(sorted(faults, key=lambda fault: fault.at_s))


def _fault(rng: random.Random, load_s: float, kind: MixedFaultKind) -> MixedFault:
    """Return a random fault that begins during the load."""
    return MixedFault(
        kind,
        at_s=round(rng.uniform(0.3, load_s), 3),
        duration_s=round(rng.uniform(*DURATION_S[kind]), 3),
        victim=rng.randint(1, BROKERS),
    )


def _settings(rng: random.Random) -> dict[str, str]:
    """Return random settings of all nodes, with timeouts shorter than the faults."""
    partitions = str(rng.choice([1, 3, 5]))
    return {
        # An acknowledged record has two replicas.
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
        "offsets.topic.num.partitions": partitions,
        "transaction.state.log.num.partitions": partitions,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        "group.min.session.timeout.ms": "500",
        "broker.session.timeout.ms": rng.choice(["2000", "3000", "6000"]),
        "broker.heartbeat.interval.ms": "300",
        "replica.lag.time.max.ms": rng.choice(["1000", "3000", "10000"]),
        "replica.socket.timeout.ms": "2000",
        "replica.fetch.wait.max.ms": "500",
        "request.timeout.ms": "5000",
        "socket.connection.setup.timeout.ms": "1000",
        "socket.connection.setup.timeout.max.ms": "2000",
        "auto.leader.rebalance.enable": rng.choice(["true", "false"]),
        "leader.imbalance.check.interval.seconds": "1",
        "replica.high.watermark.checkpoint.interval.ms": rng.choice(["100", "5000"]),
        "num.replica.fetchers": rng.choice(["1", "2"]),
        "log.roll.ms": rng.choice(["700", "604800000"]),
        "log.segment.delete.delay.ms": "100",
        "metadata.log.max.record.bytes.between.snapshots": rng.choice(["2000", "20971520"]),
        "log.cleaner.enable": "false",  # replicas are compared byte for byte
    }
