"""The plan of a churn test: what happens to members and broker; the seed determines it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kwire.conformance.chaos.churn.member import KINDS
from kwire.conformance.chaos.plan import RoundPlan, stream_of

STREAMS = "streams"
ALL_KINDS = (*KINDS, STREAMS)
PARTITIONS = 6
RATE_MAX = 50
"""Records per second of each producer; half an hour of them fits into memory for the checks."""
GAP_S = (0.3, 3.0)
PAUSE_S = (0.5, 12.0)
"""Both shorter and longer than sessions and acquisition locks last."""
DOWN_S = (0.0, 2.0)


class ChurnEventKind(StrEnum):
    JOIN = "join"
    LEAVE = "leave"
    KILL = "kill"
    PAUSE = "pause"
    BROKER = "broker"
    """Kill the broker (kill -9), and start it some time later."""


WEIGHTS = {
    ChurnEventKind.JOIN: 5,
    ChurnEventKind.LEAVE: 3,
    ChurnEventKind.KILL: 3,
    ChurnEventKind.PAUSE: 3,
    ChurnEventKind.BROKER: 2,
}
KIND_WEIGHTS = dict.fromkeys(KINDS, 4) | {STREAMS: 1}
"""Starting an instance of Kafka Streams takes a core some seconds, so it is rare."""


@dataclass(frozen=True, slots=True)
class ChurnEvent:
    """An event `after_s` after the one before; `which` selects the member by a number from 0 to
    1."""

    after_s: float
    what: ChurnEventKind
    kind: str
    which: float
    duration_s: float


def moves(seed: int, kinds: Sequence[str]) -> Iterator[ChurnEvent]:
    """Yield the events of a churn test, without an end."""
    rng = stream_of(seed, "churn")
    while True:
        [what] = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
        [kind] = rng.choices(kinds, [KIND_WEIGHTS[name] for name in kinds])
        least, most = DOWN_S if what is ChurnEventKind.BROKER else PAUSE_S
        yield ChurnEvent(rng.uniform(*GAP_S), what, kind, rng.random(), rng.uniform(least, most))


def round_plan(seed: int, load_s: float) -> RoundPlan:
    """Return the plan of the load; the faults of a churn test come from `moves`."""
    return RoundPlan(
        seed=seed,
        workload="churn",
        load_s=load_s,
        broker_settings={},
        topic_configs={},
        partitions=PARTITIONS,
        rate_max=RATE_MAX,
        waiting_max=3000,
    )
