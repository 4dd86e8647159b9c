"""The fetcher's side of an incremental fetch session (KIP-227); no I/O.

The leader remembers what was asked, so a request says only what is asked differently: partitions
that are new or have moved on, and those to forget.  Whatever leaves a doubt about what the leader
remembers (no answer, an error) begins again with a full request.
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
"""A partition: topic, its id, index."""


class FetchSessionClient:
    """One fetcher's session with its leader."""

    __slots__ = ("_asked", "_epoch", "_id", "_is_full", "_next")

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._asked: dict[Key, FetchPartition] = {}
        """What the leader remembers."""
        self._next: dict[Key, FetchPartition] = {}
        self._is_full = True

    @property
    def is_open(self) -> bool:
        return self._epoch != INITIAL_EPOCH

    def fill(self, request: FetchRequest, wanted: Mapping[Key, FetchPartition]) -> None:
        """Have `request` ask for `wanted` and nothing else.

        A FetchPartition that is the same object as in the request before is asked for as before.
        """
        request.session_id, request.session_epoch = self._id, self._epoch
        self._is_full = not self.is_open
        self._next = dict(wanted)
        if self._is_full:
            request.topics = _by_topic(wanted)
            return
        asked = self._asked
        request.topics = _by_topic(
            {key: each for key, each in wanted.items() if asked.get(key) is not each}
        )
        gone = [key for key in asked if key not in wanted]
        request.forgotten_topics_data = _forgotten(gone)

    def answered(self, response: FetchResponse) -> bool:
        """Take over what the leader made of the session; False if its answer holds nothing."""
        if response.error_code:
            self._refused(ErrorCode(response.error_code))
            return False
        if response.session_id == NO_SESSION:  # it keeps none, or none any longer
            self._id, self._epoch, self._asked = NO_SESSION, INITIAL_EPOCH, {}
        else:
            self._id = response.session_id
            self._epoch = self._epoch + 1 if self._epoch < _EPOCH_MAX else 1
            self._asked = self._next
        return True

    def _refused(self, error: ErrorCode) -> None:
        if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = NO_SESSION
        self.lost()

    def lost(self) -> None:
        """There was no answer: begin anew, and have the leader forget the session if it can."""
        self._epoch = INITIAL_EPOCH
        self._asked = {}


def _by_topic(wanted: Mapping[Key, FetchPartition]) -> list[FetchTopic]:
    topics: dict[tuple[str, bytes], FetchTopic] = {}
    for (name, topic_id, _), each in wanted.items():
        topic = topics.get((name, topic_id))
        if topic is None:
            topic = topics[name, topic_id] = FetchTopic(topic=name, topic_id=topic_id)
        topic.partitions.append(each)
    return list(topics.values())


def _forgotten(keys: list[Key]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for name, topic_id, index in keys:
        topic = topics.setdefault((name, topic_id), ForgottenTopic(topic=name, topic_id=topic_id))
        topic.partitions.append(index)
    return list(topics.values())
