"""The share partitions of this broker, and the sessions of who reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.runtime.promise import Promise
from kwire.coordinators.share.machine import Answer
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.session import Place, Reader, ShareSession, ShareSessions
from kwire.coordinators.share_partitions.led import ANY_BYTES, Leadership, LedPartition, told
from kwire.coordinators.share_partitions.limits import ShareSettings
from kwire.coordinators.share_partitions.states import ShareStates

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.cluster.membership.contract import ClusterMembership
    from kwire.coordinators.runtime.share import ShareCoordinator
    from kwire.storage.partitions.partition import FetchWaiter, Partition


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

    def __init__(
        self, node: Node, membership: ClusterMembership, coordinator: Callable[[], ShareCoordinator]
    ) -> None:
        """`coordinator` is this broker's own share coordinator, made when it is first needed."""
        self._node = node
        self.states = ShareStates(node, membership, coordinator)
        self.settings = ShareSettings(node.settings, node.metadata)
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
            self._node.timers,
            self._node.now_ms(),
            lambda: self._forget(key, led),
        )
        if not self.sessions.of_group(key.group_id):
            self._drop(led)  # whoever asked has gone meanwhile
        opening.end(led)

    def why_not_read(self, place: Place) -> ErrorCode:
        """What is said of a partition that is not there."""
        known = self._node.metadata.topic_name(place[0]) is not None
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known else ErrorCode.UNKNOWN_TOPIC_ID

    def hosts(self, place: Place) -> bool:
        """Whether this broker has the partition."""
        return self._hosted(ShareKey("", *place)) is not None

    def _hosted(self, key: ShareKey) -> Partition | None:
        name = self._node.metadata.topic_name(key.topic_id)
        return None if name is None else self._node.hosted.get(name, key.partition)

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
