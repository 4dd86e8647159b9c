"""Incremental fetch sessions (KIP-227): a client names its partitions once, and then only changes.

For each partition a session remembers the last request and the last response.  A request in a
session has the partitions to add, to change, and to forget.  Its response has only partitions with
news.  This module does no I/O and reads no clock: `now_ms` and session ids are arguments.

    session epoch of a request    meaning
    0                             a full fetch with all partitions.  The session that it names
                                  ends; a new one begins if a slot is free
    -1                            a full fetch without a session; the session that it names ends
    the session's next epoch      an incremental fetch; the epoch after 2^31-1 is 1
    any other                     INVALID_FETCH_SESSION_EPOCH, or FETCH_SESSION_ID_NOT_FOUND

Versions below 7 have no sessions; their epoch decodes as -1.  From version 13 on requests name
topics by id.  A session uses names or ids for its whole life (FETCH_SESSION_TOPIC_ID_ERROR,
KIP-516).

A session reads its partitions in the order of a dict.  A partition that had records in a response
moves to the end, so that busy partitions cannot starve the others when a response is full.

A consumer's session does not read partitions of which the client knows everything.  It watches
them, and reads them after they had news (`FetchSession.unread`): the cost of a request depends on
the partitions with news, not on all of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING

from kwire.codecs.errors import ErrorCode
from kwire.log import Log

if TYPE_CHECKING:
    from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, PartitionData
    from kwire.storage.partitions.partition import Partition
    from kwire.storage.partitions.purgatory import ParkedFetch

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = 2**31 - 1

EVICTION_MS = 120_000
"""The age from which a session may be displaced, and the time that one may be idle, in ms; both are
2 min as in Apache Kafka."""

Key = tuple[str | bytes, int]
"""A partition within one request or session: the topic's name (or id, from version 13 on), and the
partition number."""


class FetchTarget:
    """One partition of a fetch: what the client asks for and, in a session, the last response.

    topic                             None if this broker knows no topic of that id
    asked                             the client's last request for the partition
    partition                         the hosted partition, looked up at the first read
    high_watermark, log_start_offset  those of the last response; -1 has the next response report
                                      them again
    session                           the consumer's session that it belongs to, or None
    place                             its place in the order of the session: lower ones come first
    sound                             the last request of a follower whose log was found to agree
                                      with the leader's; None before
    """

    __slots__ = (
        "asked",
        "high_watermark",
        "key",
        "log_start_offset",
        "partition",
        "place",
        "session",
        "sound",
        "topic",
        "topic_id",
    )

    def __init__(self, key: Key, topic: str | None, topic_id: bytes, asked: FetchPartition) -> None:
        """Describe a partition that a client fetches; `asked` has its offset and limits.

        The offsets are those of the last response, -1 before the first.
        """
        self.key = key
        self.topic = topic
        self.topic_id = topic_id
        self.asked = asked
        self.partition: Partition | None = None
        self.sound: FetchPartition | None = None
        self.high_watermark = -1
        self.log_start_offset = -1
        self.session: FetchSession | None = None
        self.place = 0

    @property
    def is_awaited(self) -> bool:
        return self.session is not None and bool(self.session.parked)

    def has_news(self, partition: Partition, size_bytes: int, *, changed: bool) -> None:
        """Have the session read the partition again, and tell its waiting requests."""
        session = self.session
        assert session is not None, "only partitions of a session are watched"
        session.unread[self.key] = self
        for parked in tuple(session.parked):
            parked.join(partition.fetch_waiters)
            if changed:
                parked.partition_changed()
            else:
                parked.data_arrived(size_bytes)

    def knows(self, data: PartitionData) -> bool:
        """Return whether the client knows everything in `data`, so that the response may leave it
        out.
        """
        return (
            not data.records
            and not data.error_code
            and data.high_watermark == self.high_watermark
            and data.log_start_offset == self.log_start_offset
            and data.diverging_epoch is None
            and data.preferred_read_replica < 0
        )

    def told(self, data: PartitionData) -> None:
        """Remember `data` as the last response.  After an error the next response is sent again."""
        self.high_watermark = -1 if data.error_code else data.high_watermark
        self.log_start_offset = data.log_start_offset


Targets = dict[Key, FetchTarget]
Answers = list[tuple[FetchTarget, "PartitionData"]]


class FetchSession:
    """One session; `epoch` is what the next request in it must carry."""

    __slots__ = (
        "_moves",
        "_places",
        "_watches",
        "by_topic_id",
        "created_ms",
        "displaceable",
        "epoch",
        "id",
        "parked",
        "privileged",
        "size",
        "targets",
        "unread",
        "used_ms",
    )

    def __init__(
        self, session_id: int, targets: Targets, now_ms: int, *, by_topic_id: bool, privileged: bool
    ) -> None:
        """Begin a session; the client's next request must have epoch 1.

        `privileged` is a follower's session. It becomes `displaceable` in a full cache when it is
        older than `EVICTION_MS`.
        """
        self.id = session_id
        self.targets = targets
        self.by_topic_id = by_topic_id
        self.privileged = privileged
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.epoch = 1
        self.size = len(targets)
        self.displaceable = False
        self.parked: set[ParkedFetch] = set()
        """The requests of the session that wait."""
        self.unread: Targets = {}
        """The partitions to read, if the session watches; it watches all others."""
        self._watches = not privileged
        self._moves = Log.moves
        self._places = count()
        for target in targets.values():
            self.adopt(target)

    @property
    def watched(self) -> int:
        """The number of partitions that the session watches."""
        return len(self.targets) - len(self.unread) if self._watches else 0

    def adopt(self, target: FetchTarget) -> None:
        """Make a partition the last one in the order, and read it with the next request."""
        target.session = self
        target.place = next(self._places)
        self.distrust(target)

    def to_read(self) -> Iterable[FetchTarget]:
        """The partitions that a request reads, in the order of the session."""
        if not self._watches:
            return self.targets.values()
        if self._moves != Log.moves:
            self._moves = Log.moves
            for target in self.targets.values():
                self.distrust(target)
        if len(self.unread) == len(self.targets):
            return self.targets.values()
        return sorted(self.unread.values(), key=attrgetter("place"))

    def distrust(self, target: FetchTarget) -> None:
        """Read a partition with the next request, instead of watching it."""
        if self._watches:
            self.unread[target.key] = target
            if target.partition is not None:
                target.partition.unwatch(target)

    def settle(self, target: FetchTarget, partition: Partition) -> None:
        """Watch a partition of which the client knows everything, instead of reading it."""
        if self._watches and self.unread.pop(target.key, None) is not None:
            partition.watch(target)

    def drop(self, key: Key) -> None:
        """Forget a partition, if the session has it."""
        target = self.targets.pop(key, None)
        if target is not None:
            self.distrust(target)
            self.unread.pop(key, None)
            target.session = None

    def end(self) -> None:
        """Watch nothing any more: the session has ended.  Its requests that wait go on waiting."""
        for target in self.targets.values():
            self.distrust(target)
            if target.partition is not None:
                for parked in self.parked:
                    parked.join(target.partition.fetch_waiters)
        self._watches = False

    def told(self, answers: Answers) -> None:
        """Remember a response; move partitions with records to the end of the order."""
        targets = self.targets
        for target, data in answers:
            target.told(data)
            if target.key not in targets:
                continue
            if data.records:
                del targets[target.key]
                targets[target.key] = target
                target.place = next(self._places)
            self.distrust(target)


class FetchPlan:
    """The partitions that one request reads, and the session that its response belongs to.

    With an `error` the response has nothing else.  `session` is set for an incremental fetch, whose
    response leaves out partitions without news.
    """

    __slots__ = ("error", "opens_session", "reply_epoch", "session", "targets")

    def __init__(
        self,
        targets: Targets,
        *,
        session: FetchSession | None = None,
        opens_session: bool = False,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        """Describe what to read for one request; with an `error`, nothing is read.

        A request outside of sessions gets the final epoch in the reply.
        """
        self.targets = targets
        self.session = session
        self.opens_session = opens_session
        self.error = error
        self.reply_epoch = session.epoch if session is not None else FINAL_EPOCH

    @property
    def watched(self) -> int:
        """The number of partitions that need not be read."""
        return 0 if self.session is None else self.session.watched

    @property
    def overtaken(self) -> bool:
        """Whether a later request in the session has arrived, which makes this response void."""
        return self.session is not None and self.session.epoch != self.reply_epoch


def _refused(error: ErrorCode) -> FetchPlan:
    return FetchPlan({}, error=error)


class FetchSessions:
    """All sessions of the broker, at most `max.incremental.fetch.session.cache.slots` of them.

    They are in the order of their last use.  When all slots are taken, a new session displaces, as
    in Apache Kafka, the longest unused session if it is idle for EVICTION_MS, else the smallest
    session that has fewer partitions and has existed for EVICTION_MS.  Sessions of followers are
    privileged: they may displace a consumer's session at any time, and no consumer displaces them.
    """

    __slots__ = ("_new_id", "_sessions", "evictions", "slots_max")

    def __init__(self, slots_max: int, new_id: Callable[[], int]) -> None:
        """`new_id` returns a random int in [1, 2^31-1]; it is called again while the id is used."""
        self.slots_max = slots_max
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The number of partitions in all sessions."""
        return sum(len(session.targets) for session in self._sessions.values())

    @property
    def parked(self) -> Iterable[FetchSession]:
        """The sessions with requests that wait."""
        return (session for session in self._sessions.values() if session.parked)

    def targets_of(self, session_id: int) -> Iterable[FetchTarget]:
        """The partitions of a session; empty if the id is unknown."""
        session = self._sessions.get(session_id)
        return () if session is None else session.targets.values()

    def plan(
        self,
        request: FetchRequest,
        *,
        by_topic_id: bool,
        name_of: Callable[[bytes], str | None],
        now_ms: int,
    ) -> FetchPlan:
        """Return the plan of `request`; advances its session.  `name_of` maps a topic id to its
        name.
        """
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            ended = self._sessions.pop(request.session_id, None)
            if ended is not None:
                ended.end()
            targets: Targets = {}
            _ask(targets, request, by_topic_id, name_of)
            return FetchPlan(targets, opens_session=epoch == INITIAL_EPOCH)
        session = self._sessions.get(request.session_id)
        if session is None:
            return _refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return _refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_topic_id != by_topic_id:
            return _refused(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        _change(session, request, by_topic_id, name_of)
        if not session.targets:
            del self._sessions[session.id]  # it watches nothing
            return FetchPlan({})
        session.epoch = epoch + 1 if epoch < _EPOCH_MAX else 1
        self._touch(session, now_ms)
        return FetchPlan(session.targets, session=session)

    def open(
        self, answers: Answers, now_ms: int, *, by_topic_id: bool, privileged: bool = False
    ) -> int:
        """Begin a session with the partitions of a full fetch.

        Returns the session's id, NO_SESSION if no slot is free.
        """
        sessions = self._sessions
        if len(sessions) >= self.slots_max and not self._evict(len(answers), privileged, now_ms):
            return NO_SESSION
        targets: Targets = {}
        for target, data in answers:
            target.told(data)
            targets[target.key] = target
        session_id = self._new_id()
        while session_id in sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        sessions[session_id] = FetchSession(
            session_id, targets, now_ms, by_topic_id=by_topic_id, privileged=privileged
        )
        return session_id

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        """Note that the session is used now, for the choice of the one to displace."""
        sessions = self._sessions
        sessions[session.id] = sessions.pop(session.id)  # move to the end: most recently used
        session.used_ms = now_ms
        session.size = len(session.targets)
        session.displaceable = now_ms - session.created_ms > EVICTION_MS

    def _evict(self, size: int, privileged: bool, now_ms: int) -> bool:
        """Displace a session for one of `size` partitions; return False if none may be displaced.

        `privileged` says that the new session is a follower's.
        """
        stalest = next(iter(self._sessions.values()), None)
        if stalest is None:
            return False
        if now_ms - stalest.used_ms <= EVICTION_MS:
            stalest = self._least_valuable(privileged)
            if stalest is None or (stalest.privileged, stalest.size) >= (privileged, size):
                return False
        del self._sessions[stalest.id]
        stalest.end()
        self.evictions += 1
        return True

    def _least_valuable(self, privileged: bool) -> FetchSession | None:
        """Return the session to drop for a new one, or None if all must stay.

        Displaceable sessions may go and, for a `privileged` new one, every consumer's. Consumers'
        sessions go before followers', and small ones before large ones.
        """
        candidates: Iterable[FetchSession] = (
            session
            for session in self._sessions.values()
            if session.displaceable or (privileged and not session.privileged)
        )
        return min(
            candidates,
            key=lambda session: (session.privileged, session.size, session.id),
            default=None,
        )


def _change(
    session: FetchSession,
    request: FetchRequest,
    by_topic_id: bool,
    name_of: Callable[[bytes], str | None],
) -> None:
    """Add, change and forget the partitions of a session as the request says."""
    for target in _ask(session.targets, request, by_topic_id, name_of):
        if target.session is session:
            session.distrust(target)
        else:
            session.adopt(target)
    for topic in request.forgotten_topics_data:
        name: str | bytes = topic.topic_id if by_topic_id else topic.topic
        for index in topic.partitions:
            session.drop((name, index))


def _ask(
    targets: Targets,
    request: FetchRequest,
    by_topic_id: bool,
    name_of: Callable[[bytes], str | None],
) -> list[FetchTarget]:
    """Add the partitions of the request to `targets`; known ones get the new offset and limits.

    Returns those that the request names.  A partition that is named twice is read once, by its last
    entry.
    """
    named = []
    for topic in request.topics:
        name: str | None = name_of(topic.topic_id) if by_topic_id else topic.topic
        label: str | bytes = topic.topic_id if by_topic_id else topic.topic
        for asked in topic.partitions:
            key = (label, asked.partition)
            target = targets.get(key)
            if target is None:
                target = targets[key] = FetchTarget(key, name, topic.topic_id, asked)
            else:
                target.asked = asked
            named.append(target)
    return named
