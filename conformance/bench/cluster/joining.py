"""Measures brokers that come into a cluster with many topics."""

from __future__ import annotations

import time
from typing import Final

from kwire.conformance.bench.cluster.asking import ClusterRequests, until
from kwire.conformance.bench.cluster.subjects import COUNT, BenchSubject
from kwire.conformance.bench.measure import new_topic
from kwire.conformance.bench.rows import Figures

REQUEST_TOPICS: Final = 200
"""Topics in one CreateTopics request; a controller makes all of them in one change."""
PROBE_S: Final = 0.1
NEW_BROKER: Final = COUNT + 1
RESTARTED: Final = COUNT


class ManyTopics:
    """A cluster with so many topics of one partition, which has a replica on each broker."""

    def __init__(self, subject: BenchSubject, asking: ClusterRequests, count: int) -> None:
        self._subject, self._asking = subject, asking
        self._topics = [new_topic() for _ in range(count)]

    def create(self) -> float:
        """Create the topics; seconds until all replicas are in sync."""
        start = time.monotonic()
        for at in range(0, len(self._topics), REQUEST_TOPICS):
            self._asking.create_together(self._topics[at : at + REQUEST_TOPICS])
        self._wait_until_in_sync()
        return time.monotonic() - start

    def join(self) -> Figures:
        """Return how long brokers take that come into the cluster, in seconds from their start.

        `joined`: a broker without data knows all topics, and the others know it. `again`: a broker
        that was stopped is in sync again in all partitions.
        """
        start = time.monotonic()
        new = self._subject.brokers[NEW_BROKER] = self._subject.create(NEW_BROKER)
        new.start()
        self._asking.wait_until_members()
        until(lambda: self._knows_all(NEW_BROKER), "a new broker knows all topics", PROBE_S)
        joined = time.monotonic() - start
        new.stop()
        del self._subject.brokers[NEW_BROKER]
        self._asking.forget(NEW_BROKER)
        self._asking.wait_until_members()
        self._subject.brokers[RESTARTED].stop()
        start = time.monotonic()
        self._subject.brokers[RESTARTED].start()
        self._wait_until_in_sync()
        return {"joined": joined, "again": time.monotonic() - start}

    def _knows_all(self, broker_id: int) -> bool:
        """Return whether a broker's metadata have a leader for each topic."""
        known = self._asking.partitions(broker_id, self._topics).values()
        return len(known) == len(self._topics) and all(each.leader_id >= 0 for each in known)

    def _wait_until_in_sync(self) -> None:
        self._asking.wait_until_in_sync(self._topics, len(self._topics), COUNT, PROBE_S)
