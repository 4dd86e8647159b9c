"""The plan of a round with one broker; the seed determines all of it.

Each part has its own random numbers, so that a seed keeps its faults when a workload draws more
numbers.
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
"""The longest time for which a broker is paused, starved or down.

With the start of the broker, a round takes 3 to 6 seconds.
"""
DISK_ROOM_BYTES_MAX = 200_000
SPARE_DESCRIPTORS_MAX = 6


class BrokerFaultKind(StrEnum):
    KILL = "kill"
    PAUSE = "pause"
    RESTART = "restart"
    DESCRIPTORS = "descriptors"
    DISK = "disk"
    SLOW = "slow"
    """Stops of the whole process that are shorter than all timeouts, as on a slow disk.

    The broker's one loop waits for its writes. A file layer with delays or a throttled device would
    not do: the limits of a control group do not apply to writes to the page cache.
    """


class Reading(StrEnum):
    """What happens to the broker, after all clients have ended, before the end state is read."""

    AT_ONCE = "at once"
    RESTARTED = "restarted"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class BrokerFault:
    """A fault that begins `after_s` after the last one has ended, and takes `duration_s`.

    A killed broker is started and, `again_after_s` later, killed once more during its recovery;
    None means no second kill. `ended_by` says how a starved broker is ended before it gets its
    resources back: KILL, RESTART or not at all.
    """

    kind: BrokerFaultKind
    after_s: float
    duration_s: float
    again_after_s: float | None = None
    ended_by: BrokerFaultKind | None = None
    room_bytes: int = 0
    spare_descriptors: int = 0


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """The part of a round's plan that clients need."""

    seed: int
    workload: str
    load_s: float
    broker_settings: dict[str, str]
    topic_configs: dict[str, str]
    partitions: int
    rate_max: int
    """Limit on the records of one producer in a second.

    It makes load, but no more than can be sent again soon after a fault with one record in each
    batch.
    """
    waiting_max: int
    """Limit on a producer's records without an answer; at the limit it sends no more.

    So records do not expire on a slow machine.
    """


@dataclass(frozen=True, slots=True)
class BrokerPlan(RoundPlan):
    """The plan of a round with one broker."""

    faults: tuple[BrokerFault, ...]
    reading: Reading


def stream_of(seed: int, part: str) -> random.Random:
    """Return the random numbers of one part of a round."""
    return random.Random(f"{seed}/{part}")


def draw(seed: int, kinds: Sequence[BrokerFaultKind], workloads: Sequence[str]) -> BrokerPlan:
    """Return the plan of `seed`, with faults of these kinds only."""
    rng = stream_of(seed, "plan")
    load_s = round(rng.uniform(LOAD_S_MIN, LOAD_S_MAX), 3)
    return BrokerPlan(
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


def _faults(
    rng: random.Random, load_s: float, kinds: Sequence[BrokerFaultKind]
) -> tuple[BrokerFault, ...]:
    """Return 1 to FAULTS_MAX faults, one after the other, spread over the load."""
    count = rng.randint(1, FAULTS_MAX)
    return tuple(_fault(rng, load_s / (count + 1), rng.choice(kinds)) for _ in range(count))


def _fault(rng: random.Random, gap_s: float, kind: BrokerFaultKind) -> BrokerFault:
    """Return a random fault.

    Each field is drawn for every kind, so that the draws after it do not depend on the kind. None
    stands twice in the choices: two of three faults do not have that part.
    """
    return BrokerFault(
        kind,
        after_s=round(rng.uniform(0.1, gap_s), 3),
        duration_s=round(rng.uniform(0.0, DURATION_S_MAX[kind]), 3),
        again_after_s=rng.choice([None, None, round(rng.uniform(0.0, 0.5), 3)]),
        ended_by=rng.choice([None, None, BrokerFaultKind.KILL, BrokerFaultKind.RESTART]),
        room_bytes=rng.choice([0, rng.randrange(DISK_ROOM_BYTES_MAX)]),
        spare_descriptors=rng.randint(0, SPARE_DESCRIPTORS_MAX),
    )


def _broker_settings(rng: random.Random) -> dict[str, str]:
    """Return random broker settings: few or many partitions, short or long intervals."""
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
    """Return random topic configs: small or large segments, seldom or frequent flushes."""
    return {
        "segment.bytes": str(rng.choice([1 << 20, 1 << 30])),
        "segment.ms": str(rng.choice([100, 700, 604_800_000])),
        "flush.messages": rng.choice(["1", "50", "9223372036854775807"]),
        "index.interval.bytes": rng.choice(["0", "500", "4096"]),
        "compression.type": rng.choice(["producer", "producer", "lz4", "uncompressed"]),
        "message.timestamp.type": rng.choice(["CreateTime", "LogAppendTime"]),
    }
