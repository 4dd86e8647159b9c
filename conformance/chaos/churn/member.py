"""A member's process: `python -m kwire.conformance.chaos.churn.member MEMBER`, a JSON object.

It works until SIGTERM, and leaves its group then.  Who has it as a child holds its standard input:
with that it ends too.
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
from kwire.conformance.chaos.workloads.workload import Client, Stage
from kwire.conformance.wire.peer import Address

SHARE, MIGRATING = "share", "migrating"
KINDS = (*PROTOCOLS, MIGRATING, SHARE)
"""Of groups.  Members of a migrating one come with the classic or with the consumer protocol, so
that the group goes from one to the other and back."""


@dataclass(frozen=True, slots=True)
class Member:
    """What a member's process is told."""

    name: str
    kind: str
    """One of KINDS, and its group's name."""
    topic: str
    addresses: tuple[Address, ...]
    plan: RoundPlan
    history: str
    """Its file."""
    began_ns: int
    number: int
    """Of its process in the history, from 1 on."""

    def command(self) -> list[str]:
        return [sys.executable, "-m", __spec__.name, json.dumps(asdict(self))]

    @classmethod
    def told(cls, text: str) -> Member:
        given = json.loads(text)
        addresses = tuple((host, port) for host, port in given.pop("addresses"))
        return cls(addresses=addresses, plan=RoundPlan(**given.pop("plan")), **given)

    def client(self) -> Client:
        recorder = Recorder(Path(self.history), self.began_ns, self.number)
        stage = Stage(self.plan, self.addresses, recorder)
        if self.kind == SHARE:
            return ShareReader(self.name, stage, self.topic, self.kind)
        # Where an answer is lost librdkafka asks again; what is refused then may be done already.
        refused = frozenset[int]()
        return GroupReader(self.name, stage, self.topic, self.kind, self._protocol, refused)

    @property
    def _protocol(self) -> str:
        if self.kind != MIGRATING:
            return self.kind
        return stream_of(self.plan.seed, f"{self.name}/protocol").choice([COOPERATIVE, CONSUMER])


def main() -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    Member.told(sys.argv[1]).client().run(stop)


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
