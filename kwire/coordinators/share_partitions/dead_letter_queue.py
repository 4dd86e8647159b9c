"""Writes the dead letters of share groups to their topics, each once (KIP-1191).

A record becomes ARCHIVING in the share state, then its dead letter is written, then it becomes
ARCHIVED.  A broker may be killed in between.  The next leader finds ARCHIVING records in the share
state and cannot know whether their dead letters are in the topic.  Apache Kafka writes them again.
This broker first searches the topic for them (dead_letter_search) and writes only what is missing.
It does the same after an attempt without a clear answer.

Dead letters of one source partition are written in order, one batch at a time.  An attempt that
fails is repeated up to ATTEMPTS times; then the records are given up, and archived without a dead
letter.  So are those of a group whose topic must not be written to.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import trio

from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.share.dead_letters import DeadLetters, LetterSource, refusal
from kwire.coordinators.share_partitions.dead_letter_batches import PendingLetters, letter_batch
from kwire.coordinators.share_partitions.dead_letter_search import find_written
from kwire.coordinators.share_partitions.dead_letter_topics import (
    DeadLetterPartition,
    DeadLetterTopics,
)
from kwire.log import LogError
from kwire.storage.partitions.partition import Partition

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.cluster.membership.contract import ClusterMembership
    from kwire.coordinators.share_partitions.limits import ShareSettingsCache

log = logging.getLogger("kwire.coordinators.dead_letters")

ATTEMPTS = 5
PAUSES_S = (1.0, 2.0, 4.0, 8.0)
"""Pauses between the attempts: Apache Kafka's, without its random part."""

RETRIED = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that may be gone later.

Apache Kafka repeats an attempt only after the first three of them.  The others occur while replicas
or leaders change.
"""

Lane = deque[PendingLetters]
"""Dead letters that are written one after the other, because they have the same LaneKey."""
LaneKey = tuple[str, int]
"""A dead-letter topic and the number of a source partition."""


class DeadLetterQueue:
    """See the module."""

    def __init__(
        self, node: Node, membership: ClusterMembership, settings: ShareSettingsCache
    ) -> None:
        self._node = node
        self._settings = settings
        self.topics = DeadLetterTopics(node, membership)
        self._lanes: dict[LaneKey, Lane] = {}
        self.written = 0
        """The records whose dead letters were written, or found in the topic."""
        self.given_up = 0
        """The records that were archived without a dead letter, or with one for some of them."""

    def send(
        self,
        group_id: str,
        partition: Partition,
        letters: DeadLetters,
        *,
        may_be_written: bool,
        is_wanted: Callable[[], bool],
        done: Callable[[], None],
    ) -> None:
        """Write dead letters to the topic of the group; see PendingLetters for the arguments.

        Entries are small, and their number is limited by that of the records in flight.
        """
        settings = self._settings.of(group_id)
        pending = PendingLetters(
            LetterSource(partition.topic, partition.index, group_id),
            partition,
            letters,
            copies_records=settings.copies_dead_letters,
            may_be_written=may_be_written,
            is_wanted=is_wanted,
            done=done,
        )
        key = settings.dead_letter_topic, partition.index
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = deque()
            self._node.running_nursery.start_soon(self._serve, key, lane)
        lane.append(pending)

    async def _serve(self, key: LaneKey, lane: Lane) -> None:
        """Write the dead letters of a lane until there are none left."""
        while lane:
            if not lane[0].is_wanted():
                lane.popleft()  # the next leader of the share partition writes them
            else:
                await self._write_first(key, lane)
        del self._lanes[key]

    async def _write_first(self, key: LaneKey, lane: Lane) -> None:
        """Make one attempt to write the first dead letters of a lane."""
        topic, source_partition = key
        first = lane[0]
        state = self.topics.state(topic)
        reason = refusal(first.source.group_id, topic, state)
        if reason is not None:
            self._give_up(lane, [first], reason)
            return
        if not state.exists:
            await self._create(lane, topic)
            return
        target = self.topics.partition(topic, source_partition)
        if target is None:
            await self._try_later(lane, [first], "it has no leader")
            return
        if not await self._search(lane, target):
            return
        if first.is_complete:
            self._succeed(lane, [first])
            return
        await self._append(lane, target, self.topics.size_bytes_max(topic))

    async def _create(self, lane: Lane, topic: str) -> None:
        """Create the dead-letter topic."""
        try:
            await self.topics.create(topic)
        except Refusal as problem:
            self._give_up(lane, [lane[0]], problem.message or problem.error.name)
        except StoreError as problem:
            await self._try_later(lane, [lane[0]], str(problem))

    async def _search(self, lane: Lane, target: DeadLetterPartition) -> bool:
        """Look for written dead letters, if the first entry of the lane may have some.

        Entries that may have some are searched for together.  One with the same records as an
        earlier entry is left for later: the earlier one has still to be written.  Returns False if
        the topic cannot be read.
        """
        if not lane[0].may_be_written:
            return True
        entries = list(lane)
        unsure = [
            entry
            for number, entry in enumerate(entries)
            if entry.may_be_written and not any(map(entry.overlaps, entries[:number]))
        ]
        try:
            await find_written(target, unsure)
        except LogError as error:
            await self._try_later(lane, unsure, f"the topic cannot be read: {error.error.name}")
            return False
        for entry in unsure:
            entry.may_be_written = False
            entry.wrote_through(entry.next_offset - 1)
        return True

    async def _append(self, lane: Lane, target: DeadLetterPartition, size_bytes_max: int) -> None:
        """Append one batch, with the first entry of the lane and those after it that fit."""
        entries = [
            entry
            for entry in lane
            if not (entry.is_complete or entry.may_be_written) and entry.is_wanted()
        ]
        if not entries:
            return
        batch = letter_batch(entries, self._node.now_ms(), size_bytes_max)
        error = await target.append(batch.data)
        entries = [entry for entry, _ in batch.through]
        if error is ErrorCode.NONE:
            for entry, last in batch.through:
                entry.attempts = 0
                entry.wrote_through(last)
            self._succeed(lane, [entry for entry in entries if entry.is_complete])
        elif error in RETRIED:
            for entry in entries:
                entry.may_be_written = True
            await self._try_later(lane, entries, error.name)
        else:
            self._give_up(lane, entries, error.name)

    async def _try_later(self, lane: Lane, entries: list[PendingLetters], reason: str) -> None:
        """Pause before the next attempt; give up the entries that have had their last one."""
        for entry in entries:
            entry.attempts += 1
        self._give_up(lane, [each for each in entries if each.attempts >= ATTEMPTS], reason)
        pending = [entry for entry in entries if entry.attempts < ATTEMPTS]
        if pending:
            log.info("Cannot write %s yet: %s", _description(pending[0]), reason)
            await trio.sleep(PAUSES_S[max(entry.attempts for entry in pending) - 1])

    def _give_up(self, lane: Lane, entries: list[PendingLetters], reason: str) -> None:
        self.given_up += _count(entries)
        for entry in entries:
            log.error(
                "Cannot write %s: %s. The records are archived all the same.",
                _description(entry),
                reason.removesuffix("."),  # Those of Apache Kafka are sentences.
            )
        self._finish(lane, entries)

    def _succeed(self, lane: Lane, entries: list[PendingLetters]) -> None:
        self.written += _count(entries)
        self._finish(lane, entries)

    @staticmethod
    def _finish(lane: Lane, entries: list[PendingLetters]) -> None:
        """Remove entries from their lane, then call `done` of each."""
        for entry in entries:
            lane.remove(entry)
        for entry in entries:
            entry.done()


def _count(entries: Iterable[PendingLetters]) -> int:
    """The number of records of some entries."""
    return sum(each.letters.last - each.letters.first + 1 for each in entries)


def _description(entry: PendingLetters) -> str:
    """Return the words by which a log message names dead letters."""
    source, letters = entry.source, entry.letters
    return (
        f"the dead letters of offsets {letters.first} to {letters.last} of {source.topic}-"
        f"{source.partition} in share group {source.group_id}"
    )
