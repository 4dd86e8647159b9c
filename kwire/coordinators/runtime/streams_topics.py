"""The topics that streams applications own, and their coordinator has made for them.

A heartbeat is answered at once that topics are missing; they are made behind the reply.  What could
not be made is not tried again for a while, in which the next heartbeats are told why.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kwire.cluster.decisions.topic_creation import DEFAULT, NewTopic, creations
from kwire.cluster.membership.committing import commit_for_client
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.errors import ErrorCode

if TYPE_CHECKING:
    from kwire.cluster.membership.contract import ClusterMembership
    from kwire.cluster.metadata.refusal import Refusal
    from kwire.groups.streams.configuring import InternalTopic
    from kwire.settings.live import LiveSettings

log = logging.getLogger("kwire.coordinators.streams_topics")

FAILURES_MAX = 1_000
"""How many are remembered, as by Apache Kafka."""


class StreamsTopics:
    """See the module."""

    def __init__(
        self, settings: LiveSettings, membership: ClusterMembership, start_soon: Callable[..., None]
    ) -> None:
        self._settings = settings
        self._membership = membership
        self._start_soon = start_soon
        self._under_way: set[str] = set()
        self._failed: dict[str, tuple[str, float]] = {}
        """By topic, why it is not made, and until when that is told, by the monotonic clock."""

    def want(self, topics: Mapping[str, InternalTopic], pause_ms: int) -> Mapping[str, str]:
        """Have topics made; why some could not be.  `pause_ms`: until they are tried again."""
        now = time.monotonic()
        self._failed = {name: it for name, it in self._failed.items() if it[1] > now}
        known = {name: self._failed[name][0] for name in topics if name in self._failed}
        left = topics.keys() - known.keys() - self._under_way
        if left:
            self._under_way |= left
            wanted = [_wanted(topics[name]) for name in topics if name in left]
            self._start_soon(self._make, wanted, pause_ms)
        return known

    async def _make(self, wanted: Sequence[NewTopic], pause_ms: int) -> None:
        try:
            problems = await self._problems(wanted)
        except StoreError as problem:
            problems = {topic.name: str(problem) for topic in wanted}
        finally:
            self._under_way -= {topic.name for topic in wanted}
        until = time.monotonic() + pause_ms / 1000
        for name, why in problems.items():
            log.warning("topic %s of a streams group is not made: %s", name, why)
            if len(self._failed) < FAILURES_MAX:
                self._failed[name] = why, until

    async def _problems(self, wanted: Sequence[NewTopic]) -> Mapping[str, str]:
        """Make topics; why some were not.  Raises StoreError."""
        membership = self._membership
        if not membership.is_controller:
            told = await membership.ask_for_topics(wanted)
            return {name: why or "" for name, why in told.items()}
        outcomes = creations(self._settings, wanted)
        refusal = await commit_for_client(membership, outcomes, log, "topics are not made")
        if refusal is not None:
            return {topic.name: refusal.message or refusal.error.name for topic in wanted}
        return dict(_refusals(wanted, [each.refusal for each in outcomes]))


def _wanted(topic: InternalTopic) -> NewTopic:
    factor = topic.replication_factor or DEFAULT
    return NewTopic(topic.name, topic.partitions, factor, configs=dict(topic.configs))


def _refusals(
    wanted: Sequence[NewTopic], refusals: Sequence[Refusal | None]
) -> Iterable[tuple[str, str]]:
    for topic, refusal in zip(wanted, refusals, strict=True):
        if refusal is not None and refusal.error is not ErrorCode.TOPIC_ALREADY_EXISTS:
            yield topic.name, refusal.message or refusal.error.name
