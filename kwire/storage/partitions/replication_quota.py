"""How many bytes a second replication may take, of the replicas that are throttled; no clock.

As Apache Kafka's ReplicationQuotaManager (KIP-73), whose rate is a SimpleRate
(kwire.security.quotas.rates). It is asked before something is read or fetched, so what is under way
by then may pass it by one answer.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Final

from kwire.cluster.metadata.image import NOTHING_SET
from kwire.security.quotas.rates import SimpleRate, Windows

log = logging.getLogger("kwire.partitions.replication_quota")

UNLIMITED: Final = 2**63 - 1
"""Bytes a second where nothing is set."""
ALL_REPLICAS: Final = "*"


class ReplicationQuota:
    """What is throttled of one kind of replication (a leader's, a follower's), and how far.

    `throttled` has the topics with throttled replicas on this broker, and which: None for all.
    While it is empty nothing needs to be asked or recorded.
    """

    __slots__ = ("_rate", "bytes_per_s", "throttled")

    def __init__(self, windows: int, window_s: int) -> None:
        self._rate = SimpleRate(Windows(windows, window_s * 1000))
        self.bytes_per_s = UNLIMITED
        self.throttled: dict[str, frozenset[int] | None] = {}

    def is_throttled(self, topic: str, index: int) -> bool:
        """Whether the replica here is one of those that share the rate."""
        indexes = self.throttled.get(topic, _NONE)
        return indexes is None or index in indexes

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether more than is allowed has passed."""
        return self._rate.per_second(now_ms) > self.bytes_per_s

    def record(self, size_bytes: int, now_ms: int) -> None:
        """So much has passed, of throttled replicas."""
        self._rate.record(size_bytes, now_ms)

    def set_rate(self, name: str, dynamic: Mapping[str, str] = NOTHING_SET) -> None:
        """Allow what the setting `name` says at run time; a broker's file does not count for it."""
        text = dynamic.get(name)
        try:
            self.bytes_per_s = UNLIMITED if text is None else int(text)
        except ValueError:
            log.error("%s stays %d, for %r is no number", name, self.bytes_per_s, text)

    def set_replicas(self, topic: str, replicas: str, broker_id: int) -> None:
        """Throttle of a topic what its setting says: `*`, or a list of `partition:broker`."""
        if replicas.strip() == ALL_REPLICAS:
            self.throttled[topic] = None
        elif indexes := _indexes_on(broker_id, replicas):
            self.throttled[topic] = indexes
        else:
            self.throttled.pop(topic, None)


_NONE: Final[frozenset[int]] = frozenset()
_REPLICA: Final = re.compile(r"([0-9]+):([0-9]+)")


def _indexes_on(broker_id: int, replicas: str) -> frozenset[int]:
    pairs = _REPLICA.findall(replicas)
    return frozenset(int(index) for index, broker in pairs if int(broker) == broker_id)
