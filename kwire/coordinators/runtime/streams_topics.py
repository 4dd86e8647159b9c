"""Creates the internal topics of streams groups (KIP-1071).

A heartbeat whose group lacks topics is answered at once with that status; the topics are created
after the reply.  After a failure no attempt is made for a while, and heartbeats get the reason.
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
"""Failures that are remembered, as in Apache Kafka."""


class StreamsTopics:
    """See the module."""

    def __init__(
        self, settings: LiveSettings, membership: ClusterMembership, start_soon: Callable[..., None]
    ) -> None:
        """`start_soon` starts a task that runs as long as the broker."""
        self._settings = settings
        self._membership = membership
        self._start_soon = start_soon
        self._in_progress: set[str] = set()
        self._failed: dict[str, tuple[str, float]] = {}
        """Topic -> why it was not created, and until when that is reported (monotonic seconds)."""

    def want(self, topics: Mapping[str, InternalTopic], pause_ms: int) -> Mapping[str, str]:
        """Starts to create topics; returns why some could not be created: topic -> reason.

        A topic that failed is tried again after `pause_ms`.
        """
        now = time.monotonic()
        self._failed = {name: entry for name, entry in self._failed.items() if entry[1] > now}
        failures = {name: self._failed[name][0] for name in topics if name in self._failed}
        missing = topics.keys() - failures.keys() - self._in_progress
        if missing:
            self._in_progress |= missing
            new_topics = [_new_topic(topics[name]) for name in topics if name in missing]
            self._start_soon(self._create, new_topics, pause_ms)
        return failures

    async def _create(self, new_topics: Sequence[NewTopic], pause_ms: int) -> None:
        """Creates the topics; each failure is reported to the group for `pause_ms`."""
        try:
            failures = await self._failures_of_creating(new_topics)
        except StoreError as error:
            failures = {topic.name: str(error) for topic in new_topics}
        finally:
            self._in_progress -= {topic.name for topic in new_topics}
        until = time.monotonic() + pause_ms / 1000
        for name, reason in failures.items():
            log.warning(
                "Cannot create topic %s of a streams group: %s. The next attempt is after %d ms.",
                name,
                reason,
                pause_ms,
            )
            if len(self._failed) < FAILURES_MAX:
                self._failed[name] = reason, until

    async def _failures_of_creating(self, new_topics: Sequence[NewTopic]) -> Mapping[str, str]:
        """Creates topics; returns why some were not created.  Raises StoreError."""
        membership = self._membership
        if not membership.is_controller:
            reasons = await membership.ask_for_topics(new_topics)
            return {name: reason or "" for name, reason in reasons.items()}
        outcomes = creations(self._settings, new_topics)
        refusal = await commit_for_client(membership, outcomes, log, "topics are not made")
        if refusal is not None:
            return {topic.name: refusal.message or refusal.error.name for topic in new_topics}
        return dict(_refusals(new_topics, [outcome.refusal for outcome in outcomes]))


def _new_topic(topic: InternalTopic) -> NewTopic:
    factor = topic.replication_factor or DEFAULT
    return NewTopic(topic.name, topic.partitions, factor, configs=dict(topic.configs))


def _refusals(
    new_topics: Sequence[NewTopic], refusals: Sequence[Refusal | None]
) -> Iterable[tuple[str, str]]:
    """Yield topic and reason of each refusal; a topic that exists already is no failure."""
    for topic, refusal in zip(new_topics, refusals, strict=True):
        if refusal is not None and refusal.error is not ErrorCode.TOPIC_ALREADY_EXISTS:
            yield topic.name, refusal.message or refusal.error.name
