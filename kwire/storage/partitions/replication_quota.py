"""The replication quota: how many bytes a second throttled replicas may transfer; it has no clock.

It works as Apache Kafka's ReplicationQuotaManager (KIP-73), with a SimpleRate of
kwire.security.quotas.rates.  The quota is checked before a read or a fetch, so the rate may exceed
it by one response.
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
"""The rate in bytes a second if no quota is set."""
ALL_REPLICAS: Final = "*"


class ReplicationQuota:
    """The quota of one kind of replication: that of leaders, of followers, or between directories.

    `throttled` has, by topic, the partition numbers of throttled replicas on this broker; None
    means all.  While it is empty, callers need neither check nor record anything.
    """

    __slots__ = ("_rate", "bytes_per_s", "throttled")

    def __init__(self, windows: int, window_s: int) -> None:
        self._rate = SimpleRate(Windows(windows, window_s * 1000))
        self.bytes_per_s = UNLIMITED
        self.throttled: dict[str, frozenset[int] | None] = {}

    def is_throttled(self, topic: str, index: int) -> bool:
        """Whether this broker's replica of the partition is throttled."""
        indexes = self.throttled.get(topic, _NONE)
        return indexes is None or index in indexes

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether the rate is above the quota."""
        return self._rate.per_second(now_ms) > self.bytes_per_s

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes that a throttled replica has transferred."""
        self._rate.record(size_bytes, now_ms)

    def set_rate(self, name: str, dynamic: Mapping[str, str] = NOTHING_SET) -> None:
        """Set the quota from the dynamic config `name`; the broker's file cannot set it."""
        text = dynamic.get(name)
        try:
            self.bytes_per_s = UNLIMITED if text is None else int(text)
        except ValueError:
            log.error("%r is no number: %s stays %d", text, name, self.bytes_per_s)

    def set_replicas(self, topic: str, replicas: str, broker_id: int) -> None:
        """Throttle replicas of a topic by its config: `*`, or a list of `partition:broker`."""
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
