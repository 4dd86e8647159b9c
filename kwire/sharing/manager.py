"""The share partitions of this broker, and the sessions of who reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.promise import Promise
from kwire.share.machine import Answer
from kwire.share.records import ShareKey
from kwire.share.session import Place, Reader, ShareSession, ShareSessions
from kwire.sharing.host import ShareHost
from kwire.sharing.led import ANY_BYTES, Leadership, LedPartition, told
from kwire.sharing.limits import ShareSettings
from kwire.sharing.states import ShareStates

if TYPE_CHECKING:
    from kwire.partitions.partition import FetchWaiter, Partition


class Opening:
    """A partition of which the share coordinator was asked; `found` is what came of that."""

    def __init__(self) -> None:
        self.found: LedPartition | ErrorCode | None = None
        self.waiters: set[FetchWaiter] = set()

    def end(self, found: LedPartition | ErrorCode) -> None:
        self.found = found
        for waiter in tuple(self.waiters):
            waiter.data_arrived(ANY_BYTES)


class ShareManager:
    """See the module."""

    def __init__(self, broker: ShareHost, nursery: trio.Nursery | None) -> None:
        self._broker = broker
        self.states = ShareStates(broker, nursery)
        self.settings = ShareSettings(broker)
        self.sessions = ShareSessions()
        self._led: dict[ShareKey, LedPartition] = {}
        self._openings: dict[ShareKey, Opening] = {}

    def find(self, key: ShareKey) -> LedPartition | None:
        """As it is read already."""
        led = self._led.get(key)
        if led is not None and (not led.is_current or led.partition is not self._hosted(key)):
            self._drop(led)
            return None
        return led

    def refusal(self, key: ShareKey) -> ErrorCode | None:
        """Why nobody can read it here; None where that has to be asked of the coordinator."""
        partition = self._hosted(key)
        if partition is None:
            return self.why_not_read((key.topic_id, key.partition))
        return None if partition.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def opening(self, key: ShareKey) -> Opening:
        """What comes of asking the share coordinator about a partition that is led here.

        That goes on when whoever asked first is gone: a coordinator may be away for longer than a
        fetch waits.
        """
        opening = self._openings.get(key)
        if opening is not None:
            return opening
        opening = self._openings[key] = Opening()
        partition = self._hosted(key)
        assert partition is not None, "it is led here"
        led_in = Leadership(partition, partition.leader_epoch)
        reply = self.states.read(key, led_in.leader_epoch)
        if isinstance(reply, Promise):
            reply.when_resolved(lambda answer: self._answered(key, led_in, opening, answer))
        else:
            self._answered(key, led_in, opening, reply)
        return opening

    def _answered(
        self, key: ShareKey, led_in: Leadership, opening: Opening, answer: Answer
    ) -> None:
        del self._openings[key]
        if answer.state is None:
            opening.end(told(answer.error))
            return
        if not led_in.goes_on:  # another leader may have written since, and this state is old
            opening.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        led = self._led[key] = LedPartition(
            key,
            led_in,
            answer.state,
            lambda: self.settings.of(key.group_id),
            self.states,
            self._broker.timers,
            self._broker.now_ms(),
            lambda: self._forget(key, led),
        )
        if not self.sessions.of_group(key.group_id):
            self._drop(led)  # whoever asked has gone meanwhile
        opening.end(led)

    def why_not_read(self, place: Place) -> ErrorCode:
        """What is said of a partition that is not there."""
        known = self._broker.topic_name(place[0]) is not None
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known else ErrorCode.UNKNOWN_TOPIC_ID

    def hosts(self, place: Place) -> bool:
        """Whether this broker has the partition."""
        return self._hosted(ShareKey("", *place)) is not None

    def _hosted(self, key: ShareKey) -> Partition | None:
        name = self._broker.topic_name(key.topic_id)
        return None if name is None else self._broker.partition(name, key.partition)

    def _drop(self, led: LedPartition) -> None:
        led.stop()
        self._forget(led.key, led)

    def _forget(self, key: ShareKey, led: LedPartition) -> None:
        if self._led.get(key) is led:
            del self._led[key]

    # -- members go

    def release(self, reader: Reader, session: ShareSession) -> None:
        """A session is over: what its member has of these partitions is for others."""
        group_id, member_id = reader
        for place in session.places:
            led = self.find(ShareKey(group_id, *place))
            if led is not None:
                led.release(member_id)

    def disconnected(self, reader: Reader, session: ShareSession) -> None:
        """The connection is gone on which a session began.

        The session ends with it.  A group that nobody reads here any longer is forgotten: its state
        is with the share coordinator.
        """
        if self.sessions.is_current(reader, session):
            self.sessions.end(reader)
            self.release(reader, session)
        if not self.sessions.of_group(reader[0]):
            for led in [each for each in self._led.values() if each.key.group_id == reader[0]]:
                self._drop(led)
