"""Sending the requests of a trace again, to any broker, and comparing its answers.

    found = replay("trace.jsonl", "localhost:9092")
    assert found.same, found

The trace has to keep the requests' bytes: `kafka.trace(keep_bytes=True)`, `kwire trace --bytes`.
`recording` reads its file, `ids` puts what a broker hands out into the requests in place of what
another one had handed out, `link` speaks to the broker, `replay` holds the order, `outcome` is what
is found.  Of several brokers `brokers` says which one of now stands for which, `settling` waits
until all have heard of what one tells, and `early` knows what may be there sooner or later.
"""

from __future__ import annotations

from kwire.testing.replaying.brokers import NoCounterpart
from kwire.testing.replaying.outcome import Outcome
from kwire.testing.replaying.recording import DamagedTrace
from kwire.testing.replaying.replay import Pace, replay

__all__ = ["DamagedTrace", "NoCounterpart", "Outcome", "Pace", "replay"]
