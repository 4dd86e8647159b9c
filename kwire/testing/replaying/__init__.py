"""Replays: sends the requests of a trace to a broker or a cluster, and compares the responses.

    outcome = replay("trace.jsonl", "localhost:9092")
    assert outcome.same, outcome

The trace must keep the requests' bytes: `kafka.trace(keep_bytes=True)` or `kwire trace --bytes`.

    recording   reads the trace's file
    replay      sends the requests in the order of the trace and receives the responses
    link        the connections
    ids         replaces recorded ids in requests by those that the new broker assigned
    timing      makes the broker's clock follow the times of the trace
    outcome     the result
    brokers     for a cluster: which broker of today receives the requests of a recorded one
    settling    for a cluster: waits until all brokers report the same metadata
    early       for a cluster: what may differ because brokers learn of changes at different times
"""

from __future__ import annotations

from kwire.testing.replaying.brokers import NoCounterpart
from kwire.testing.replaying.outcome import Outcome
from kwire.testing.replaying.recording import DamagedTrace
from kwire.testing.replaying.replay import Pace, replay

__all__ = ["DamagedTrace", "NoCounterpart", "Outcome", "Pace", "replay"]
