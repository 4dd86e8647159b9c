"""What happens to members and to the broker: all of it follows from the seed."""

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
"""Records a second of each producer: half an hour of them fits into memory when it is judged."""
GAP_S = (0.3, 3.0)
PAUSE_S = (0.5, 12.0)
"""Shorter and longer than sessions and locks last."""
DOWN_S = (0.0, 2.0)


class What(StrEnum):
    JOIN = "join"
    LEAVE = "leave"
    KILL = "kill"
    PAUSE = "pause"
    BROKER = "broker"
    """kill -9, and its start some time later."""


WEIGHTS = {What.JOIN: 5, What.LEAVE: 3, What.KILL: 3, What.PAUSE: 3, What.BROKER: 2}
KIND_WEIGHTS = dict.fromkeys(KINDS, 4) | {STREAMS: 1}
"""An instance of Kafka Streams takes some seconds of a core to start."""


@dataclass(frozen=True, slots=True)
class Move:
    """`after_s` after the one before; `which` of the members there are, as a share of them."""

    after_s: float
    what: What
    kind: str
    which: float
    duration_s: float


def moves(seed: int, kinds: Sequence[str]) -> Iterator[Move]:
    """Without an end."""
    rng = stream_of(seed, "churn")
    while True:
        [what] = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
        [kind] = rng.choices(kinds, [KIND_WEIGHTS[each] for each in kinds])
        least, most = DOWN_S if what is What.BROKER else PAUSE_S
        yield Move(rng.uniform(*GAP_S), what, kind, rng.random(), rng.uniform(least, most))


def round_plan(seed: int, load_s: float) -> RoundPlan:
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
