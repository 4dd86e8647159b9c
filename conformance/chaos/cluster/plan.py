"""What a round in a cluster is: all of it follows from the seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kwire.conformance.chaos.plan import RoundPlan, stream_of, topic_configs

BROKERS = 3
LOAD_S_MIN, LOAD_S_MAX = 3.0, 6.0
RATE_MAX, WAITING_MAX = 150, 100
FAULTS_MAX = 5
CLOCK_STEPS_S = (-3600.0, -5.0, -0.7, 0.7, 5.0, 3600.0)
DISK_ROOM_BYTES_MAX = 200_000


class Store(StrEnum):
    """Where the cluster's metadata is."""

    ZOOKEEPER = "zookeeper"
    SHARED = "shared"
    """`kwire serve --brokers 3`: brokers of one machine."""


class FaultKind(StrEnum):
    KILL = "kill"
    KILL_ALL = "kill all"
    PAUSE = "pause"
    RESTART = "restart"
    CUT = "cut"
    """Two brokers do not reach each other."""
    ONE_WAY = "one way"
    """What one broker says does not reach another one."""
    ISOLATE = "isolate"
    """A broker reaches neither the others nor a ZooKeeper; clients reach it all the same."""
    DEAF = "deaf"
    """The same, but what it says is heard."""
    NO_ZOOKEEPER = "no zookeeper"
    """A broker does not reach ZooKeeper, and is not heard from it."""
    ZOOKEEPER_ONE_WAY = "zookeeper one way"
    """What a broker says does not reach ZooKeeper."""
    ZOOKEEPER_RESTART = "zookeeper restart"
    ZOOKEEPER_PAUSE = "zookeeper pause"
    ZOOKEEPER_STUTTER = "zookeeper stutter"
    """ZooKeeper stands still again and again, for about as long as a session lasts: sessions end
    before brokers are registered in them."""
    EXPIRE = "expire"
    """No ZooKeeper for longer than a session lasts."""
    RESIGN = "resign"
    """The znode of the controller is deleted, as an administrator may do."""
    DISK = "disk"
    CLOCK = "clock"
    HOLDER_PAUSE = "holder pause"
    """The process that shares the metadata stands still."""
    HOLDER_KILL = "holder kill"
    """It is killed, which ends all brokers; the cluster is started again."""


DURATION_S = {
    FaultKind.KILL: (0.0, 2.5),
    FaultKind.KILL_ALL: (0.0, 0.5),
    FaultKind.PAUSE: (0.1, 4.0),
    FaultKind.RESTART: (0.0, 1.0),
    FaultKind.CUT: (0.5, 4.0),
    FaultKind.ONE_WAY: (0.5, 4.0),
    FaultKind.ISOLATE: (0.5, 5.0),
    FaultKind.DEAF: (0.5, 4.0),
    FaultKind.NO_ZOOKEEPER: (0.2, 3.0),
    FaultKind.ZOOKEEPER_ONE_WAY: (0.2, 4.0),
    FaultKind.ZOOKEEPER_RESTART: (0.0, 1.0),
    FaultKind.ZOOKEEPER_PAUSE: (0.2, 3.0),
    FaultKind.ZOOKEEPER_STUTTER: (1.0, 8.0),
    FaultKind.EXPIRE: (0.3, 1.5),  # beyond the session's timeout
    FaultKind.RESIGN: (0.0, 0.0),
    FaultKind.DISK: (0.3, 2.0),
    FaultKind.CLOCK: (0.5, 6.0),
    FaultKind.HOLDER_PAUSE: (0.2, 4.0),
    FaultKind.HOLDER_KILL: (0.0, 1.0),
}
"""Shortest and longest; a broker's session lasts from 1 to 3 seconds."""

OF_ONE_MACHINE = (
    FaultKind.KILL,
    FaultKind.KILL_ALL,
    FaultKind.PAUSE,
    FaultKind.RESTART,
    FaultKind.CUT,
    FaultKind.ONE_WAY,
    FaultKind.ISOLATE,
    FaultKind.DEAF,
    FaultKind.DISK,
    FaultKind.CLOCK,
    FaultKind.HOLDER_PAUSE,
    FaultKind.HOLDER_KILL,
)
"""What can befall brokers of one machine, which has one clock.  Whoever is cut off from the others
is alive by the metadata all the same: to the process that shares it there is no network."""

HOLDERS = (FaultKind.HOLDER_PAUSE, FaultKind.HOLDER_KILL)
"""What befalls the process that shares the metadata: with ZooKeeper there is none."""


@dataclass(frozen=True, slots=True)
class Fault:
    """From `at_s` after the load begins, for `duration_s`; several may overlap.

    `victim` is a broker, `other` the second one where it takes two; `is_controller`: the victim is
    whoever is the controller then, if somebody is.  `step_s` is of a clock, `room_bytes` what a
    full disk has left.
    """

    kind: FaultKind
    at_s: float
    duration_s: float
    victim: int
    other: int
    is_controller: bool
    step_s: float
    room_bytes: int

    def __str__(self) -> str:
        who = "controller" if self.is_controller else f"{self.victim}"
        return f"{self.kind} {who} {self.at_s:g}+{self.duration_s:g}"


@dataclass(frozen=True, slots=True)
class ClusterPlan(RoundPlan):
    """A round with `BROKERS` brokers."""

    store: Store
    faults: tuple[Fault, ...]


def draw(
    seed: int,
    kinds: Sequence[FaultKind],
    workloads: Sequence[str],
    stores: Sequence[Store],
) -> ClusterPlan:
    """The round of `seed`, with faults of these kinds only."""
    rng = stream_of(seed, "plan")
    load_s = round(rng.uniform(LOAD_S_MIN, LOAD_S_MAX), 3)
    store = stream_of(seed, "store").choice(stores)
    is_shared = store is Store.SHARED
    kinds = [each for each in kinds if each in OF_ONE_MACHINE or not is_shared]
    kinds = [each for each in kinds if each not in HOLDERS or is_shared]
    return ClusterPlan(
        seed=seed,
        workload=stream_of(seed, "workload").choice(workloads),
        load_s=load_s,
        broker_settings=_broker_settings(stream_of(seed, "broker")),
        topic_configs=topic_configs(stream_of(seed, "topic")),
        partitions=rng.randint(1, 6),
        rate_max=RATE_MAX,
        waiting_max=WAITING_MAX,
        store=store,
        faults=_faults(stream_of(seed, "faults"), load_s, kinds),
    )


def _faults(rng: random.Random, load_s: float, kinds: Sequence[FaultKind]) -> tuple[Fault, ...]:
    if not kinds:
        return ()
    found = [_fault(rng, load_s, rng.choice(kinds)) for _ in range(rng.randint(1, FAULTS_MAX))]
    return tuple(sorted(found, key=lambda fault: fault.at_s))


def _fault(rng: random.Random, load_s: float, kind: FaultKind) -> Fault:
    victim, other = rng.sample(range(1, BROKERS + 1), 2)
    return Fault(
        kind,
        at_s=round(rng.uniform(0.3, load_s), 3),
        duration_s=round(rng.uniform(*DURATION_S[kind]), 3),
        victim=victim,
        other=other,
        is_controller=rng.random() < 0.3,
        step_s=rng.choice(CLOCK_STEPS_S),
        room_bytes=rng.choice([0, rng.randrange(DISK_ROOM_BYTES_MAX)]),
    )


def _broker_settings(rng: random.Random) -> dict[str, str]:
    partitions = str(rng.choice([1, 3, 5]))
    return {
        # What is promised, is promised of these two.
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
        "offsets.topic.num.partitions": partitions,
        "transaction.state.log.num.partitions": partitions,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        "group.min.session.timeout.ms": "500",
        # Faults take seconds: who has lost another one is to notice within them.
        "zookeeper.session.timeout.ms": rng.choice(["1000", "2000", "3000"]),
        "zookeeper.connection.timeout.ms": "60000",
        "replica.lag.time.max.ms": rng.choice(["1000", "3000", "10000"]),
        "replica.socket.timeout.ms": "2000",
        "controller.socket.timeout.ms": "2000",
        "request.timeout.ms": "5000",
        "socket.connection.setup.timeout.ms": "1000",
        "socket.connection.setup.timeout.max.ms": "2000",
        "auto.leader.rebalance.enable": rng.choice(["true", "false"]),
        "leader.imbalance.check.interval.seconds": "1",
        "replica.high.watermark.checkpoint.interval.ms": rng.choice(["100", "5000"]),
        "num.replica.fetchers": rng.choice(["1", "2"]),
        "log.roll.ms": rng.choice(["700", "604800000"]),
        "log.cleaner.enable": "false",  # replicas are compared byte for byte
    }
