"""Share sessions (KIP-932): which partitions a member reads on this broker.

A request with epoch 0 begins a session and one with epoch -1 ends it; each request in between has
the next epoch.  A request names only the partitions to add and to remove.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kwire.codecs.errors import ErrorCode

BEGIN_EPOCH, END_EPOCH = 0, -1
_EPOCH_MAX = 2**31 - 1

TopicIdPartition = tuple[bytes, int]
"""(topic id, partition)."""
MemberKey = tuple[str, str]
"""(group id, member id)."""


@dataclass(slots=True)
class ShareSession:
    epoch: int = 1
    """Epoch of the next request."""
    places: dict[TopicIdPartition, bool] = field(default_factory=dict)
    """Partitions in the order of the next read -> whether the last response for it was NONE."""
    names: dict[bytes, str] = field(default_factory=dict)
    """Topic id -> name; kept after a topic was deleted."""

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def change(
        self, added: Iterable[TopicIdPartition], removed: Iterable[TopicIdPartition]
    ) -> None:
        """Adds and removes partitions; adding one that is in the session changes nothing."""
        for place in added:
            self.places.setdefault(place, False)
        if [self.places.pop(place, None) for place in removed]:
            kept = {topic_id for topic_id, _ in self.places}
            self.names = {key: name for key, name in self.names.items() if key in kept}

    def next_order(self) -> list[TopicIdPartition]:
        """All partitions in reading order.  The first one moves to the end for the next request,
        so that a partition with many records does not starve the others."""
        places = list(self.places)
        if places:
            self.places[places[0]] = self.places.pop(places[0])
        return places

    def record_result(self, place: TopicIdPartition, *, succeeded: bool) -> None:
        """Record whether the response for a partition was NONE (`succeeded`) or an error."""
        if place in self.places:
            self.places[place] = succeeded

    def must_report(self, place: TopicIdPartition) -> bool:
        """Whether a response must contain the partition even if there are no records for it.

        That is so for a new partition and after an error.
        """
        return not self.places.get(place, True)


class ShareSessions:
    """The share sessions on this broker, of all members of all share groups."""

    def __init__(self) -> None:
        self._sessions: dict[MemberKey, ShareSession] = {}

    def begin(self, member: MemberKey, max_sessions: int) -> ShareSession | ErrorCode:
        """Begins a session, which replaces the member's earlier one.

        Returns SHARE_SESSION_LIMIT_REACHED if there are already `max_sessions` in total.
        """
        self._sessions.pop(member, None)
        if len(self._sessions) >= max_sessions:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = self._sessions[member] = ShareSession()
        return session

    def next(self, member: MemberKey, epoch: int) -> ShareSession | ErrorCode:
        """Return the session of a request with this epoch; the expected epoch advances by one.

        Returns an error if there is no session, or if the epoch is not the expected one.
        """
        session = self._sessions.get(member)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch != session.epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.advance()
        return session

    def is_current(self, member: MemberKey, session: ShareSession) -> bool:
        """Whether `session` is the member's current one."""
        return self._sessions.get(member) is session

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The number of partitions in all sessions."""
        return sum(len(session.places) for session in self._sessions.values())

    def of_group(self, group_id: str) -> bool:
        """Whether a member of the group has a session here."""
        return any(member[0] == group_id for member in self._sessions)

    def end(self, member: MemberKey) -> ShareSession | ErrorCode:
        """End and return the member's session."""
        return self._sessions.pop(member, ErrorCode.SHARE_SESSION_NOT_FOUND)
