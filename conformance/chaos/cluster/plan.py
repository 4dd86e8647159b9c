"""The plan of a round with a cluster; the seed determines all of it."""

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
    """Where the cluster keeps its metadata."""

    ZOOKEEPER = "zookeeper"
    SHARED = "shared"
    """`kwire serve --brokers 3`: brokers on one machine with shared metadata."""


class ClusterFaultKind(StrEnum):
    KILL = "kill"
    KILL_ALL = "kill all"
    PAUSE = "pause"
    RESTART = "restart"
    CUT = "cut"
    """Two brokers do not reach each other."""
    ONE_WAY = "one way"
    """Packets of one broker do not reach another one."""
    ISOLATE = "isolate"
    """A broker reaches neither the others nor ZooKeeper; clients still reach it."""
    DEAF = "deaf"
    """Packets do not reach a broker from the others and ZooKeeper; its own packets arrive."""
    NO_ZOOKEEPER = "no zookeeper"
    """A broker and ZooKeeper do not reach each other."""
    ZOOKEEPER_ONE_WAY = "zookeeper one way"
    """Packets of a broker do not reach ZooKeeper."""
    ZOOKEEPER_RESTART = "zookeeper restart"
    ZOOKEEPER_PAUSE = "zookeeper pause"
    ZOOKEEPER_STUTTER = "zookeeper stutter"
    """ZooKeeper is paused again and again, each time for about the timeout of a session.

    Sessions then expire before brokers are registered in them.
    """
    EXPIRE = "expire"
    """A broker does not reach ZooKeeper for longer than the timeout of its session."""
    RESIGN = "resign"
    """The znode of the controller is deleted, as an administrator may do."""
    DISK = "disk"
    CLOCK = "clock"
    HOLDER_PAUSE = "holder pause"
    """The process that holds the metadata is paused."""
    HOLDER_KILL = "holder kill"
    """The process that holds the metadata is killed, which ends all brokers; all start again."""


DURATION_S = {
    ClusterFaultKind.KILL: (0.0, 2.5),
    ClusterFaultKind.KILL_ALL: (0.0, 0.5),
    ClusterFaultKind.PAUSE: (0.1, 4.0),
    ClusterFaultKind.RESTART: (0.0, 1.0),
    ClusterFaultKind.CUT: (0.5, 4.0),
    ClusterFaultKind.ONE_WAY: (0.5, 4.0),
    ClusterFaultKind.ISOLATE: (0.5, 5.0),
    ClusterFaultKind.DEAF: (0.5, 4.0),
    ClusterFaultKind.NO_ZOOKEEPER: (0.2, 3.0),
    ClusterFaultKind.ZOOKEEPER_ONE_WAY: (0.2, 4.0),
    ClusterFaultKind.ZOOKEEPER_RESTART: (0.0, 1.0),
    ClusterFaultKind.ZOOKEEPER_PAUSE: (0.2, 3.0),
    ClusterFaultKind.ZOOKEEPER_STUTTER: (1.0, 8.0),
    ClusterFaultKind.EXPIRE: (0.3, 1.5),  # beyond the session's timeout
    ClusterFaultKind.RESIGN: (0.0, 0.0),
    ClusterFaultKind.DISK: (0.3, 2.0),
    ClusterFaultKind.CLOCK: (0.5, 6.0),
    ClusterFaultKind.HOLDER_PAUSE: (0.2, 4.0),
    ClusterFaultKind.HOLDER_KILL: (0.0, 1.0),
}
"""Shortest and longest duration; a broker's session lasts from 1 to 3 seconds."""

OF_ONE_MACHINE = (
    ClusterFaultKind.KILL,
    ClusterFaultKind.KILL_ALL,
    ClusterFaultKind.PAUSE,
    ClusterFaultKind.RESTART,
    ClusterFaultKind.CUT,
    ClusterFaultKind.ONE_WAY,
    ClusterFaultKind.ISOLATE,
    ClusterFaultKind.DEAF,
    ClusterFaultKind.DISK,
    ClusterFaultKind.CLOCK,
    ClusterFaultKind.HOLDER_PAUSE,
    ClusterFaultKind.HOLDER_KILL,
)
"""Faults for brokers on one machine, which has one clock.

The metadata still counts a broker that is cut off from the others as alive, since there is no
network to the process that holds the metadata.
"""

HOLDERS = (ClusterFaultKind.HOLDER_PAUSE, ClusterFaultKind.HOLDER_KILL)
"""Faults of the process that holds the metadata, which a cluster on ZooKeeper does not have."""


@dataclass(frozen=True, slots=True)
class ClusterFault:
    """A fault from `at_s` after the load begins, for `duration_s`; several may overlap.

    `victim` is a broker, and `other` the second one if the fault needs two. With `is_controller`,
    the victim is the current controller, if there is one. `step_s` is the step of a clock, and
    `room_bytes` the space left on a full disk.
    """

    kind: ClusterFaultKind
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
    """The plan of a round with `BROKERS` brokers."""

    store: Store
    faults: tuple[ClusterFault, ...]


def draw(
    seed: int,
    kinds: Sequence[ClusterFaultKind],
    workloads: Sequence[str],
    stores: Sequence[Store],
) -> ClusterPlan:
    """Return the plan of `seed`, with faults of these kinds only."""
    rng = stream_of(seed, "plan")
    load_s = round(rng.uniform(LOAD_S_MIN, LOAD_S_MAX), 3)
    store = stream_of(seed, "store").choice(stores)
    is_shared = store is Store.SHARED
    kinds = [kind for kind in kinds if kind in OF_ONE_MACHINE or not is_shared]
    kinds = [kind for kind in kinds if kind not in HOLDERS or is_shared]
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


def _faults(
    rng: random.Random, load_s: float, kinds: Sequence[ClusterFaultKind]
) -> tuple[ClusterFault, ...]:
    """Return 1 to FAULTS_MAX faults of these kinds, in the order of their begin; none without
    kinds."""
    if not kinds:
        return ()
    faults = [_fault(rng, load_s, rng.choice(kinds)) for _ in range(rng.randint(1, FAULTS_MAX))]
    return tuple(sorted(faults, key=lambda fault: fault.at_s))


def _fault(rng: random.Random, load_s: float, kind: ClusterFaultKind) -> ClusterFault:
    """Return a random fault that begins during the load.

    Each field is drawn for every kind, so that the draws after it do not depend on the kind.
    """
    victim, other = rng.sample(range(1, BROKERS + 1), 2)
    return ClusterFault(
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
    """Return random broker settings, which make timeouts shorter than the faults."""
    partitions = str(rng.choice([1, 3, 5]))
    return {
        # An acknowledged record has two replicas.
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
        "offsets.topic.num.partitions": partitions,
        "transaction.state.log.num.partitions": partitions,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        "group.min.session.timeout.ms": "500",
        # Faults take seconds, so the timeouts must be shorter than that.
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
