"""The dead-letter topic of the simulation: a partition whose leader is none of the brokers.

Appends and reads wait until somebody moves them on.  Their connection may be lost before or after
the topic has read them.  An append of a lost connection may be read later, but not after a read
that was sent when an earlier read since then was answered (see RemotePartition).

The laws of dead letters are here, too:

- A record is archived only after its dead letter is in the topic, unless a member has said that
  there is no such record.
- Each record has at most one dead letter in one state epoch.  Not counted are those of a leader
  that lives and does not know yet that another one leads: nobody can hold it back.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from kwire.codecs.batches import iter_batches, records
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.share.dead_letters import DeadLetterTopicState, origin_of
from kwire.log import LogError

if TYPE_CHECKING:
    from tests.coordinators.share_partitions.simulation.world import World

NAME = "dlq.t"
READ_BATCHES = 3
"""Batches that one read returns."""


@dataclass(eq=False)
class DeadCall:
    """An append or a read on its way to the topic, or its answer on its way back."""

    source: int
    led_since: list[int]
    """The epochs since which the broker leads the partitions without a break, as it knows."""
    number: int
    batch: bytes | None
    """None for a read."""
    offset: int = 0
    landed: bool = False
    found: bytes = b""
    error: ErrorCode = ErrorCode.NONE
    done: trio.Event = field(default_factory=trio.Event)


@dataclass(eq=False)
class LateAppend:
    """An append of a lost connection that the topic has not read yet."""

    call: DeadCall
    led: frozenset[int] = frozenset()
    """The partitions that its sender led when it was killed."""
    read_since: int | None = None
    """The number of the next call when the first read after the loss was answered."""
    lost_at: int = 0


class DeadTopic:
    """See the module."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.calls: list[DeadCall] = []
        self._late: list[LateAppend] = []
        self._batches: list[bytes] = []
        self._numbers = 0
        self.letters: Counter[tuple[int, int]] = Counter()
        """(partition, offset) -> number of its dead letters from leaders and from killed ones."""
        self.unheld: set[tuple[int, int]] = set()
        """Those with a dead letter from a leader that was none any more and did not know it."""

    # -- the topic

    async def call(self, source: int, batch: bytes | None, offset: int = 0) -> DeadCall:
        """Wait until the call is answered or its connection is lost."""
        partitions = self._world.brokers[source].partitions
        led_since = [each.led_since_epoch for each in partitions]
        call = DeadCall(source, led_since, self._numbers, batch, offset)
        self._numbers += 1
        self.calls.append(call)
        try:
            await call.done.wait()
        finally:
            if call in self.calls:
                self.calls.remove(call)
        return call

    def move(self, call: DeadCall) -> None:
        """The call reaches the topic, or its answer the broker."""
        if not call.landed:
            self._land(call)
        else:
            call.done.set()

    def lose(self, call: DeadCall, *, is_late: bool, led: frozenset[int] = frozenset()) -> None:
        """The connection is lost; an append may be read later (`is_late`)."""
        if not call.landed and call.batch is not None and is_late:
            self._late.append(LateAppend(call, led, lost_at=self._numbers))
        call.error = ErrorCode.NETWORK_EXCEPTION
        call.done.set()

    def gone(self, broker_id: int, chance: float) -> None:
        """The broker is killed; what it sent may still be read.  It led until now what it led."""
        for call in [each for each in self.calls if each.source == broker_id]:
            self.calls.remove(call)
            led = [at for at in range(len(call.led_since)) if self._leads(call, at)]
            self.lose(call, is_late=chance < 0.5, led=frozenset(led))

    def read_late(self) -> bool:
        """The topic reads an append of a lost connection."""
        if self._late:
            self._append(self._late.pop(0))
            return True
        return False

    def _land(self, call: DeadCall) -> None:
        call.landed = True
        if call.batch is not None:
            self._take(call.batch, call, frozenset())
            return
        for late in list(self._late):
            if late.read_since is not None and call.number >= late.read_since:
                self._late.remove(late)
                self._append(late)
            elif late.read_since is None and call.number >= late.lost_at:
                late.read_since = self._numbers
        at, found = 0, []
        for batch in self._batches:
            [(_, header)] = iter_batches(batch)
            if at >= call.offset:
                moved = bytearray(batch)
                moved[:8] = at.to_bytes(8, "big")
                found.append(moved)
            at += header.last_offset_delta + 1
        call.found = b"".join(found[:READ_BATCHES])

    def _append(self, late: LateAppend) -> None:
        assert late.call.batch is not None
        self._take(late.call.batch, late.call, late.led)
        self._world.seen["dead letters read late"] += 1

    def _leads(self, call: DeadCall, partition: int) -> bool:
        """Whether the sender still leads, without a break since it knew that it did."""
        led = self._world.data_leaders[partition]
        return (led.leader, led.since_epoch) == (call.source, call.led_since[partition])

    def _take(self, batch: bytes, call: DeadCall, led: frozenset[int]) -> None:
        """Append a batch, and count its dead letters."""
        self._batches.append(batch)
        for record in records(batch):
            origin = origin_of(record)
            assert origin is not None
            index = origin.source.partition
            place = index, origin.offset
            self._world.seen["dead letters"] += 1
            if index in led or self._leads(call, index):
                self.letters[place] += 1
                epochs = self._world.state_epochs[self._world.keys[index]]
                assert self.letters[place] <= epochs or place in self.unheld, ("twice", place)
            else:
                self.unheld.add(place)
                self._world.seen["dead letters of a former leader"] += 1

    def has(self, partition: int, offset: int) -> bool:
        """Whether the record has a dead letter."""
        return (partition, offset) in self.unheld or self.letters[partition, offset] > 0


class DeadTopics:
    """Takes the place of a broker's DeadLetterTopics."""

    def __init__(self, topic: DeadTopic, source: int) -> None:
        self._topic, self._source = topic, source

    def state(self, topic: str) -> DeadLetterTopicState:
        assert topic == NAME
        return DeadLetterTopicState(True, True, "dlq.", False)

    def size_bytes_max(self, topic: str) -> int:
        return 700  # three dead letters, or four

    def partition(self, topic: str, source_partition: int) -> DeadTopics:
        return self

    async def append(self, batch: bytearray) -> ErrorCode:
        return (await self._topic.call(self._source, bytes(batch))).error

    async def read(self, offset: int) -> bytes:
        call = await self._topic.call(self._source, None, offset)
        if call.error is not ErrorCode.NONE:
            raise LogError(call.error)
        return call.found
