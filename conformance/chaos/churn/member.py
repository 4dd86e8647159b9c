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
from kwire.conformance.chaos.plan import RoundPlan
from kwire.conformance.chaos.workloads.group_reader import PROTOCOLS, GroupReader
from kwire.conformance.chaos.workloads.workload import Client, Stage

SHARE = "share"
KINDS = (*PROTOCOLS, SHARE)


@dataclass(frozen=True, slots=True)
class Member:
    """What a member's process is told."""

    name: str
    kind: str
    """One of KINDS, and its group's name."""
    topic: str
    address: tuple[str, int]
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
        address, plan = tuple(given.pop("address")), RoundPlan(**given.pop("plan"))
        return cls(address=address, plan=plan, **given)

    def client(self) -> Client:
        recorder = Recorder(Path(self.history), self.began_ns, self.number)
        stage = Stage(self.plan, (self.address,), recorder)
        if self.kind == SHARE:
            return ShareReader(self.name, stage, self.topic, self.kind)
        # Where an answer is lost librdkafka asks again; what is refused then may be done already.
        return GroupReader(self.name, stage, self.topic, self.kind, self.kind, refused=frozenset())


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
