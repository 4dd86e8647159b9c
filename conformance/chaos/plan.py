"""What a round is: all of it follows from the seed.

Each part draws from random numbers of its own, so that a seed still means the same faults when a
workload begins to draw more.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

LOAD_S_MIN, LOAD_S_MAX = 1.5, 3.0
RATE_MAX, WAITING_MAX = 800, 3000
FAULTS_MAX = 3
DURATION_S_MAX = {
    "pause": 1.5,
    "descriptors": 1.0,
    "disk": 1.0,
    "kill": 0.3,
    "restart": 0.3,
    "slow": 1.5,
}
"""How long the broker is paused, starved or away; with its own start a round stays at 3 to 6 s."""
DISK_ROOM_BYTES_MAX = 200_000
SPARE_DESCRIPTORS_MAX = 6


class FaultKind(StrEnum):
    KILL = "kill"
    PAUSE = "pause"
    RESTART = "restart"
    DESCRIPTORS = "descriptors"
    DISK = "disk"
    SLOW = "slow"
    """Stops of the whole process, too short for anybody's timeout, as a disk that is busy with
    others makes them: one loop waits for its writes. No file layer with delays, nor a throttled
    device: a control group's limits do not reach writes to the page cache."""


class Reading(StrEnum):
    """What the broker goes through, with all clients gone, before the end state is read."""

    AT_ONCE = "at once"
    RESTARTED = "restarted"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `after_s` after the last one was over, for `duration_s`.

    `again_after_s` is for a kill: the broker is started and killed once more that much later, as
    it recovers; None is no second time. `ended_by` is how a starved broker is ended before it is
    given back what it lacks: KILL, RESTART or not at all.
    """

    kind: FaultKind
    after_s: float
    duration_s: float
    again_after_s: float | None = None
    ended_by: FaultKind | None = None
    room_bytes: int = 0
    spare_descriptors: int = 0


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """What clients have to know of a round."""

    seed: int
    workload: str
    load_s: float
    broker_settings: dict[str, str]
    topic_configs: dict[str, str]
    partitions: int
    rate_max: int
    """Records a second of one producer: load, but no more than is written again soon after a fault,
    one batch a record."""
    waiting_max: int
    """Records of one producer without an answer: who has more writes no others, so that they do not
    get too old on a slow machine."""


@dataclass(frozen=True, slots=True)
class Plan(RoundPlan):
    """A round with one broker."""

    faults: tuple[Fault, ...]
    reading: Reading


def stream_of(seed: int, part: str) -> random.Random:
    """The random numbers of one part of a round."""
    return random.Random(f"{seed}/{part}")


def draw(seed: int, kinds: Sequence[FaultKind], workloads: Sequence[str]) -> Plan:
    """The round of `seed`, with faults of these kinds only."""
    rng = stream_of(seed, "plan")
    load_s = round(rng.uniform(LOAD_S_MIN, LOAD_S_MAX), 3)
    return Plan(
        seed=seed,
        workload=stream_of(seed, "workload").choice(workloads),
        load_s=load_s,
        faults=_faults(stream_of(seed, "faults"), load_s, kinds),
        broker_settings=_broker_settings(stream_of(seed, "broker")),
        topic_configs=topic_configs(stream_of(seed, "topic")),
        partitions=rng.randint(1, 6),
        rate_max=RATE_MAX,
        waiting_max=WAITING_MAX,
        reading=rng.choice(list(Reading)),
    )


def _faults(rng: random.Random, load_s: float, kinds: Sequence[FaultKind]) -> tuple[Fault, ...]:
    count = rng.randint(1, FAULTS_MAX)
    return tuple(_fault(rng, load_s / (count + 1), rng.choice(kinds)) for _ in range(count))


def _fault(rng: random.Random, gap_s: float, kind: FaultKind) -> Fault:
    return Fault(
        kind,
        after_s=round(rng.uniform(0.1, gap_s), 3),
        duration_s=round(rng.uniform(0.0, DURATION_S_MAX[kind]), 3),
        again_after_s=rng.choice([None, None, round(rng.uniform(0.0, 0.5), 3)]),
        ended_by=rng.choice([None, None, FaultKind.KILL, FaultKind.RESTART]),
        room_bytes=rng.choice([0, rng.randrange(DISK_ROOM_BYTES_MAX)]),
        spare_descriptors=rng.randint(0, SPARE_DESCRIPTORS_MAX),
    )


def _broker_settings(rng: random.Random) -> dict[str, str]:
    return {
        "offsets.topic.num.partitions": str(rng.choice([1, 3, 10])),
        "log.roll.ms": rng.choice(["100", "700", "604800000"]),
        "group.min.session.timeout.ms": "500",
        "log.flush.scheduler.interval.ms": rng.choice(["50", "9223372036854775807"]),
        "log.flush.offset.checkpoint.interval.ms": rng.choice(["100", "60000"]),
        "connections.max.idle.ms": rng.choice(["600000", "1500"]),
        "transaction.state.log.num.partitions": rng.choice(["1", "5", "50"]),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    }


def topic_configs(rng: random.Random) -> dict[str, str]:
    return {
        "segment.bytes": str(rng.choice([1 << 20, 1 << 30])),
        "segment.ms": str(rng.choice([100, 700, 604_800_000])),
        "flush.messages": rng.choice(["1", "50", "9223372036854775807"]),
        "index.interval.bytes": rng.choice(["0", "500", "4096"]),
        "compression.type": rng.choice(["producer", "producer", "lz4", "uncompressed"]),
        "message.timestamp.type": rng.choice(["CreateTime", "LogAppendTime"]),
    }
