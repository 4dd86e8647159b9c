"""Which partitions a member reads on this broker (KIP-932), and in which order it says so.

A session begins with epoch 0 and ends with -1; each request between has the next epoch.  It names
only the partitions that are new or no longer wanted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kwire.codecs.errors import ErrorCode

BEGIN_EPOCH, END_EPOCH = 0, -1
_EPOCH_MAX = 2**31 - 1

Place = tuple[bytes, int]
"""Topic id and partition."""
Reader = tuple[str, str]
"""Group id and member id."""


@dataclass(slots=True)
class ShareSession:
    epoch: int = 1
    """Of the next request."""
    places: dict[Place, bool] = field(default_factory=dict)
    """In the order in which they are read next; whether the member has been told of them well."""
    names: dict[bytes, str] = field(default_factory=dict)
    """The topics' names by their ids, also after a topic was deleted."""

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def change(self, wanted: Iterable[Place], forgotten: Iterable[Place]) -> None:
        for place in wanted:
            self.places.setdefault(place, False)
        if [self.places.pop(place, None) for place in forgotten]:
            kept = {topic_id for topic_id, _ in self.places}
            self.names = {key: name for key, name in self.names.items() if key in kept}

    def turn(self) -> list[Place]:
        """All places; the first is the last next time, so that each is read."""
        places = list(self.places)
        if places:
            self.places[places[0]] = self.places.pop(places[0])
        return places

    def told(self, place: Place, *, well: bool) -> None:
        """The member is told of a partition; after an error it is told when all is well again."""
        if place in self.places:
            self.places[place] = well

    def is_news(self, place: Place) -> bool:
        """Whether the member is to be told of a partition although there is nothing in it."""
        return not self.places.get(place, True)


class ShareSessions:
    """Of all members of all share groups."""

    def __init__(self) -> None:
        self._sessions: dict[Reader, ShareSession] = {}

    def begin(self, reader: Reader, most: int) -> ShareSession | ErrorCode:
        """In the place of one that the member had; `most`: of all members."""
        self._sessions.pop(reader, None)
        if len(self._sessions) >= most:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = self._sessions[reader] = ShareSession()
        return session

    def next(self, reader: Reader, epoch: int) -> ShareSession | ErrorCode:
        """The session that a request of this epoch belongs to; the next one is of the next."""
        session = self._sessions.get(reader)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch != session.epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.advance()
        return session

    def is_current(self, reader: Reader, session: ShareSession) -> bool:
        """Whether the member has not begun another one."""
        return self._sessions.get(reader) is session

    def of_group(self, group_id: str) -> bool:
        """Whether a member of the group reads anything here."""
        return any(reader[0] == group_id for reader in self._sessions)

    def end(self, reader: Reader) -> ShareSession | ErrorCode:
        return self._sessions.pop(reader, ErrorCode.SHARE_SESSION_NOT_FOUND)
