"""A member's process: `python -m kwire.conformance.chaos.churn.member MEMBER`, a JSON object.

It works until SIGTERM, and then leaves its group. It also ends when its standard input ends, which
its parent process holds open.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from kwire.conformance.chaos.churn.share_reader import ShareReader
from kwire.conformance.chaos.history import Recorder
from kwire.conformance.chaos.plan import RoundPlan, stream_of
from kwire.conformance.chaos.workloads.group_reader import (
    CONSUMER,
    COOPERATIVE,
    PROTOCOLS,
    GroupReader,
)
from kwire.conformance.chaos.workloads.workload import WorkloadClient, WorkloadStage
from kwire.conformance.wire.peer import Address

SHARE, MIGRATING = "share", "migrating"
KINDS = (*PROTOCOLS, MIGRATING, SHARE)
"""Kinds of groups.

Members of a migrating group use the classic or the consumer protocol, so that the group migrates
from one to the other and back.
"""


@dataclass(frozen=True, slots=True)
class ChurnMember:
    """The arguments of a member's process, as JSON."""

    name: str
    kind: str
    """One of KINDS, which is also the name of its group."""
    topic: str
    addresses: tuple[Address, ...]
    plan: RoundPlan
    history: str
    """The path of its history file."""
    began_ns: int
    number: int
    """The number of its process in the history, from 1."""

    def command(self) -> list[str]:
        return [sys.executable, "-m", __spec__.name, json.dumps(asdict(self))]

    @classmethod
    def from_json(cls, text: str) -> ChurnMember:
        given = json.loads(text)
        addresses = tuple((host, port) for host, port in given.pop("addresses"))
        return cls(addresses=addresses, plan=RoundPlan(**given.pop("plan")), **given)

    def client(self) -> WorkloadClient:
        """Return the client of this member: a share consumer, or a consumer that commits."""
        recorder = Recorder(Path(self.history), self.began_ns, self.number)
        stage = WorkloadStage(self.plan, self.addresses, recorder)
        if self.kind == SHARE:
            return ShareReader(self.name, stage, self.topic, self.kind)
        # After a lost response librdkafka repeats the commit; if the repetition is refused, the
        # first attempt may have succeeded.
        refused = frozenset[int]()
        return GroupReader(self.name, stage, self.topic, self.kind, self._protocol, refused)

    @property
    def _protocol(self) -> str:
        if self.kind != MIGRATING:
            return self.kind
        return stream_of(self.plan.seed, f"{self.name}/protocol").choice([COOPERATIVE, CONSUMER])


def main() -> None:
    """Run the member that the first argument describes, until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    ChurnMember.from_json(sys.argv[1]).client().run(stop)


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
