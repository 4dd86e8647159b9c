"""Measures the time from a start to the first responses, and the memory when idle and after
load."""

from __future__ import annotations

import time

from kwire.conformance.bench import frames, load
from kwire.conformance.bench.brokers import BenchBroker
from kwire.conformance.bench.rows import Figure, Figures

IDLE_S = 3.0  # idle time after the first record

FIRST_REPLY = Figure("first reply", "s", more_is_better=False)
FIRST_ACK = Figure("first record acknowledged", "s", more_is_better=False)
IDLE = Figure("idle", "MB", more_is_better=False)
AFTER_LOAD = Figure("after load", "MB", more_is_better=False)

FIRST_REPLY_LIMIT_S = 0.4
IDLE_LIMIT_MB = 50.0


def measure(broker: BenchBroker, topic: str) -> Figures:
    """Start the broker on an empty directory, create a topic, write a record, wait, and stop."""
    start = time.monotonic()
    try:
        first_reply = broker.start()
        before = time.monotonic() - start - first_reply  # time before the start of the process
        broker.create_topic(topic)
        with load.connect(broker.address) as sock:
            frame = frames.produce(topic, 0, frames.batch(1, 100)).data
            load.first_reply(sock, topic, frame)
        first_ack = time.monotonic() - start - before
        time.sleep(IDLE_S)
        idle = broker.rss_mb()
    finally:
        broker.stop()
    figures = {FIRST_REPLY.name: first_reply, FIRST_ACK.name: first_ack}
    return figures | ({IDLE.name: idle} if idle is not None else {})
