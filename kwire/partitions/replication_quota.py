"""How many bytes a second replication may take, of the replicas that are throttled; no clock.

As Apache Kafka's ReplicationQuotaManager and its SimpleRate (KIP-73): what passes is counted in
windows of time, `quota.window.num` of them and the one under way.

    rate        all that is counted, a second since the oldest window began (one window at least)
    exceeded    the rate is above what is allowed; it is asked before something is read or fetched,
                so what is under way by then may pass it by one answer
    a window    begins with what is counted once the one before is full; it is forgotten when all
                windows' time has passed since something was counted in it
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Final

from kwire.metadata.image import NOTHING_SET

log = logging.getLogger("kwire.partitions.replication_quota")

UNLIMITED: Final = 2**63 - 1
"""Bytes a second where nothing is set."""
ALL_REPLICAS: Final = "*"


class _Window:
    __slots__ = ("began_ms", "counted", "last_ms")

    def __init__(self, now_ms: int) -> None:
        self.begin(now_ms)

    def begin(self, now_ms: int) -> None:
        self.began_ms = self.last_ms = now_ms
        self.counted = 0


class SimpleRate:
    """Bytes a second over the last `windows` windows of `window_ms`; times are in ms."""

    __slots__ = ("_current", "_window_ms", "_windows", "_windows_max")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows: list[_Window] = []
        self._windows_max = windows + 1
        self._window_ms = window_ms
        self._current = 0

    def record(self, size_bytes: int, now_ms: int) -> None:
        window = self._at(now_ms)
        if now_ms - window.began_ms >= self._window_ms:
            window = self._next(now_ms)
        window.counted += size_bytes
        window.last_ms = now_ms

    def _at(self, now_ms: int) -> _Window:
        if not self._windows:
            self._windows.append(_Window(now_ms))
        return self._windows[self._current]

    def _next(self, now_ms: int) -> _Window:
        self._current = (self._current + 1) % self._windows_max
        if self._current >= len(self._windows):
            self._windows.append(_Window(now_ms))
        else:
            self._windows[self._current].begin(now_ms)
        return self._windows[self._current]

    def per_second(self, now_ms: int) -> float:
        self._at(now_ms)
        for window in self._windows:
            if now_ms - window.last_ms >= (self._windows_max - 1) * self._window_ms:
                window.begin(now_ms)
        counted = sum(window.counted for window in self._windows)
        elapsed_ms = now_ms - min(window.began_ms for window in self._windows)
        return counted * 1000 / max(elapsed_ms, self._window_ms)


class ReplicationQuota:
    """What is throttled of one kind of replication (a leader's, a follower's), and how far.

    `throttled` has the topics with throttled replicas on this broker, and which: None for all.
    While it is empty nothing needs to be asked or recorded.
    """

    __slots__ = ("_rate", "bytes_per_s", "throttled")

    def __init__(self, windows: int, window_s: int) -> None:
        self._rate = SimpleRate(windows, window_s * 1000)
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
