"""The follower's side of an incremental fetch session (KIP-227); no I/O.

The leader keeps the list of partitions of the session.  A request names only the changes: new
partitions, partitions with another fetch offset, and partitions to forget.  After an error, or
without an answer, the follower does not know the leader's list and starts a new session with a full
request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1

Key = tuple[str, bytes, int]
"""A partition: topic name, topic id, partition index."""


class FetchSessionClient:
    """The session of one fetcher with its leader."""

    __slots__ = ("_epoch", "_id", "_is_full", "_next_partitions", "_partitions")

    def __init__(self) -> None:
        """There is no session yet: the first request names all partitions."""
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._partitions: dict[Key, FetchPartition] = {}
        """The leader's list of partitions."""
        self._next_partitions: dict[Key, FetchPartition] = {}
        """The leader's list once it has answered the pending request."""
        self._is_full = True

    @property
    def is_open(self) -> bool:
        """Whether the next request is incremental."""
        return self._epoch != INITIAL_EPOCH

    def fill(self, request: FetchRequest, wanted: Mapping[Key, FetchPartition]) -> None:
        """Set the session fields of `request`, so that it asks for exactly `wanted`.

        A partition is left out of an incremental request if its FetchPartition is the same object
        as in the request before.
        """
        request.session_id, request.session_epoch = self._id, self._epoch
        self._is_full = not self.is_open
        self._next_partitions = dict(wanted)
        if self._is_full:
            request.topics = _by_topic(wanted)
            return
        known = self._partitions
        request.topics = _by_topic(
            {key: data for key, data in wanted.items() if known.get(key) is not data}
        )
        gone = [key for key in known if key not in wanted]
        request.forgotten_topics_data = _forgotten(gone)

    def answered(self, response: FetchResponse) -> bool:
        """Update the session by the leader's response; False if the response is an error."""
        if response.error_code:
            self._refused(ErrorCode(response.error_code))
            return False
        if response.session_id == NO_SESSION:  # the leader's cache has no room for this session
            self._id, self._epoch, self._partitions = NO_SESSION, INITIAL_EPOCH, {}
        else:
            self._id = response.session_id
            self._epoch = self._epoch + 1 if self._epoch < _EPOCH_MAX else 1
            self._partitions = self._next_partitions
        return True

    def _refused(self, error: ErrorCode) -> None:
        if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = NO_SESSION
        self.lost()

    def lost(self) -> None:
        """Make the next request a full one; it names the old session, so the leader closes it."""
        self._epoch = INITIAL_EPOCH
        self._partitions = {}


def _by_topic(wanted: Mapping[Key, FetchPartition]) -> list[FetchTopic]:
    """Return the partitions of a Fetch request grouped by topic."""
    topics: dict[tuple[str, bytes], FetchTopic] = {}
    for (name, topic_id, _), data in wanted.items():
        topic = topics.get((name, topic_id))
        if topic is None:
            topic = topics[name, topic_id] = FetchTopic(topic=name, topic_id=topic_id)
        topic.partitions.append(data)
    return list(topics.values())


def _forgotten(keys: list[Key]) -> list[ForgottenTopic]:
    """Return partitions that leave the fetch session, grouped by topic."""
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for name, topic_id, index in keys:
        topic = topics.setdefault((name, topic_id), ForgottenTopic(topic=name, topic_id=topic_id))
        topic.partitions.append(index)
    return list(topics.values())
