"""All share partitions that this broker leads, and the share sessions of their members."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.runtime.promise import Promise
from kwire.coordinators.share.machine import ShareStateAnswer
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.session import (
    MemberKey,
    ShareSession,
    ShareSessions,
    TopicIdPartition,
)
from kwire.coordinators.share_partitions.dead_letter_queue import DeadLetterQueue
from kwire.coordinators.share_partitions.led import (
    ANY_BYTES,
    Leadership,
    LedPartition,
    client_error_of,
)
from kwire.coordinators.share_partitions.limits import ShareSettingsCache
from kwire.coordinators.share_partitions.states import ShareStates

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.cluster.membership.contract import ClusterMembership
    from kwire.coordinators.runtime.share import ShareCoordinator
    from kwire.storage.partitions.partition import FetchWaiter, Partition


class Opening:
    """A share partition whose state is being read from the share coordinator.

    `result` is None until then, afterwards the share partition or an error.
    """

    def __init__(self) -> None:
        self.result: LedPartition | ErrorCode | None = None
        self.waiters: set[FetchWaiter] = set()

    def end(self, result: LedPartition | ErrorCode) -> None:
        """Set the result and wake the waiting fetches."""
        self.result = result
        for waiter in tuple(self.waiters):
            waiter.data_arrived(ANY_BYTES)


class ShareManager:
    """See the module."""

    def __init__(
        self, node: Node, membership: ClusterMembership, coordinator: Callable[[], ShareCoordinator]
    ) -> None:
        """`coordinator` returns this broker's own share coordinator, which is made at first use."""
        self._node = node
        self.states = ShareStates(node, membership, coordinator)
        self.settings = ShareSettingsCache(node.settings, node.metadata)
        self.sessions = ShareSessions()
        self.dead_letters = DeadLetterQueue(node, membership, self.settings)
        self.new_led: Callable[..., LedPartition] = LedPartition
        """Makes a share partition; metrics have it count."""
        self._led: dict[ShareKey, LedPartition] = {}
        self._openings: dict[ShareKey, Opening] = {}

    def find(self, key: ShareKey) -> LedPartition | None:
        """Return the share partition, or None if it is not open here.

        One that this broker does not lead any more is dropped.
        """
        led = self._led.get(key)
        if led is not None and (not led.is_current or led.partition is not self._hosted(key)):
            self._drop(led)
            return None
        return led

    @property
    def led(self) -> list[LedPartition]:
        """The share partitions that are open here."""
        return [led for led in self._led.values() if led.is_current]

    def refusal(self, key: ShareKey) -> ErrorCode | None:
        """Why no member can read the partition here, or None if `opening` decides that."""
        partition = self._hosted(key)
        if partition is None:
            return self.error_for_missing((key.topic_id, key.partition))
        return None if partition.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def opening(self, key: ShareKey) -> Opening:
        """Starts to read the state of a partition that is led here; a read in progress is shared.

        The read goes on after the fetch that started it has timed out, because a coordinator may be
        unavailable for longer than a fetch waits.
        """
        opening = self._openings.get(key)
        if opening is not None:
            return opening
        opening = self._openings[key] = Opening()
        partition = self._hosted(key)
        assert partition is not None, "the caller has checked that it is led here"
        leadership = Leadership(partition, partition.leader_epoch)
        reply = self.states.read(key, leadership.leader_epoch)
        if isinstance(reply, Promise):
            reply.when_resolved(lambda answer: self._answered(key, leadership, opening, answer))
        else:
            self._answered(key, leadership, opening, reply)
        return opening

    def _answered(
        self, key: ShareKey, leadership: Leadership, opening: Opening, answer: ShareStateAnswer
    ) -> None:
        """Opens a share partition with the state that the share coordinator returned.

        `opening` ends with the open partition, or with an error.
        """
        del self._openings[key]
        if answer.state is None:
            opening.end(client_error_of(answer.error))
            return
        if (
            not leadership.still_holds
        ):  # another leader may have written since, and this state is old
            opening.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        led: LedPartition = self.new_led(
            key,
            leadership,
            answer.state,
            lambda: self.settings.of(key.group_id),
            self.states,
            self._node.timers,
            self._node.now_ms(),
            lambda: self._forget(key, led),
            self.dead_letters,
            lambda: self._drop_unread(key.group_id),
        )
        self._led[key] = led
        led.resume(answer.state)
        self._drop_unread(key.group_id)  # all its members may have left while the state was read
        opening.end(led)

    def error_for_missing(self, place: TopicIdPartition) -> ErrorCode:
        """The error for a partition that is not hosted here."""
        topic_exists = self._node.metadata.topic_name(place[0]) is not None
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic_exists else ErrorCode.UNKNOWN_TOPIC_ID

    def hosts(self, place: TopicIdPartition) -> bool:
        """Whether this broker hosts the partition."""
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

    # -- members leave

    def release(self, member: MemberKey, session: ShareSession) -> None:
        """Releases the records that a member has in the partitions of a session that ended."""
        group_id, member_id = member
        for place in session.places:
            led = self.find(ShareKey(group_id, *place))
            if led is not None:
                led.release(member_id)

    def disconnected(self, member: MemberKey, session: ShareSession) -> None:
        """Ends the session of a connection that closed, if it is still the member's session.

        If the group has no session left on this broker, its share partitions are dropped.
        """
        if self.sessions.is_current(member, session):
            self.sessions.end(member)
            self.release(member, session)
        self._drop_unread(member[0])

    def _drop_unread(self, group_id: str) -> None:
        """Drop the share partitions of a group without sessions here.

        Their state is stored by the share coordinator.  One with dead letters is kept until they
        are written.
        """
        if not self.sessions.of_group(group_id):
            for led in [led for led in self._led.values() if led.key.group_id == group_id]:
                if not (led.has_dead_letters and led.is_current):
                    self._drop(led)
