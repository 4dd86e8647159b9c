"""Incremental fetch sessions (KIP-227): a client names its partitions once and then only changes.

A session remembers, for each partition, what was asked last and what was told last.  A request in
a session carries what to ask differently and what to forget; its reply carries only partitions
with something to tell.  No I/O and no clock in here: `now_ms` and session ids come from outside.

    request's session epoch   what it means
    0                         a full fetch: all partitions are in the request; its session, if it
                              names one, ends, and a new one begins when there is room for it
    -1                        a full fetch that wants no session; the one it names ends
    the session's next epoch  an incremental fetch; the next one is one higher (1 after 2^31-1)
    any other                 INVALID_FETCH_SESSION_EPOCH, or FETCH_SESSION_ID_NOT_FOUND

Versions below 7 know no sessions; their epoch decodes as -1.  From version 13 on topics go by id:
a session is by name or by id for life (FETCH_SESSION_TOPIC_ID_ERROR, KIP-516).

The partitions of a session are kept in the order in which they are read.  One that had records in
a reply goes to the end, so that busy partitions cannot starve the others when a reply is full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kwire.codecs.errors import ErrorCode

if TYPE_CHECKING:
    from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, PartitionData
    from kwire.storage.partitions.partition import Partition

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = 2**31 - 1

EVICTION_MS = 120_000
"""How long a session is safe from being displaced, and how long one may be idle: Kafka's 2 min."""

Key = tuple[str | bytes, int]
"""A partition within one request or session: its topic's name or id, whichever it goes by."""


class FetchTarget:
    """One partition to fetch from: what is asked and, in a session, what was told last.

    `topic` is None while an id has no name here.  `partition` is who serves it, looked up when it
    is first read.  -1 as the last told offset makes the next reply tell it again.
    """

    __slots__ = (
        "asked",
        "high_watermark",
        "key",
        "log_start_offset",
        "partition",
        "topic",
        "topic_id",
    )

    def __init__(self, key: Key, topic: str | None, topic_id: bytes, asked: FetchPartition) -> None:
        self.key = key
        self.topic = topic
        self.topic_id = topic_id
        self.asked = asked
        self.partition: Partition | None = None
        self.high_watermark = -1
        self.log_start_offset = -1

    def knows(self, data: PartitionData) -> bool:
        """Whether `data` would tell the client nothing new."""
        return (
            not data.records
            and not data.error_code
            and data.high_watermark == self.high_watermark
            and data.log_start_offset == self.log_start_offset
            and data.diverging_epoch is None
            and data.preferred_read_replica < 0
        )

    def told(self, data: PartitionData) -> None:
        """`data` goes to the client.  After an error the next good answer must go there, too."""
        self.high_watermark = -1 if data.error_code else data.high_watermark
        self.log_start_offset = data.log_start_offset


Targets = dict[Key, FetchTarget]
Answers = list[tuple[FetchTarget, "PartitionData"]]


class FetchSession:
    """One session; `epoch` is what the next request in it must carry."""

    __slots__ = (
        "by_topic_id",
        "created_ms",
        "displaceable",
        "epoch",
        "id",
        "privileged",
        "size",
        "targets",
        "used_ms",
    )

    def __init__(
        self, session_id: int, targets: Targets, now_ms: int, *, by_topic_id: bool, privileged: bool
    ) -> None:
        self.id = session_id
        self.targets = targets
        self.by_topic_id = by_topic_id
        self.privileged = privileged
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.epoch = 1
        self.size = len(targets)
        self.displaceable = False

    def told(self, answers: Answers) -> None:
        """These answers go to the client; those with records go to the end of the order."""
        targets = self.targets
        for target, data in answers:
            target.told(data)
            if data.records and targets.pop(target.key, None) is not None:
                targets[target.key] = target


class FetchPlan:
    """What one request reads, and how its reply relates to a session.

    `error`, where there is one, is all of the reply.  `session` is set for an incremental fetch,
    whose reply leaves out partitions with nothing to tell.
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
        self.targets = targets
        self.session = session
        self.opens_session = opens_session
        self.error = error
        self.reply_epoch = session.epoch if session is not None else FINAL_EPOCH

    @property
    def overtaken(self) -> bool:
        """Another request in the session came while this one waited: its reply is void."""
        return self.session is not None and self.session.epoch != self.reply_epoch


def _refused(error: ErrorCode) -> FetchPlan:
    return FetchPlan({}, error=error)


class FetchSessions:
    """All sessions of the broker, at most `max.incremental.fetch.session.cache.slots` of them.

    They are held in the order of their last use.  When all slots are taken, a new session takes
    the place of (Kafka's rules) the longest unused one if that is idle for EVICTION_MS, else of
    the smallest one with fewer partitions that has existed for EVICTION_MS.  Sessions of followers
    are privileged: they may take a consumer's place at any time, and lose theirs to none.
    """

    __slots__ = ("_new_id", "_sessions", "evictions", "slots_max")

    def __init__(self, slots_max: int, new_id: Callable[[], int]) -> None:
        """`new_id` gives a random int in [1, 2^31-1]; it is asked again while the id is taken."""
        self.slots_max = slots_max
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """How many partitions all sessions hold together."""
        return sum(len(session.targets) for session in self._sessions.values())

    def targets_of(self, session_id: int) -> Iterable[FetchTarget]:
        """What a session reads; nothing where there is none of that id."""
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
        """What `request` reads; its session is advanced.  `name_of` knows topics' names."""
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
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
        targets = session.targets
        if request.topics:
            _ask(targets, request, by_topic_id, name_of)
        for topic in request.forgotten_topics_data:
            name: str | bytes = topic.topic_id if by_topic_id else topic.topic
            for index in topic.partitions:
                targets.pop((name, index), None)
        if not targets:
            del self._sessions[session.id]
            return FetchPlan({})
        session.epoch = epoch + 1 if epoch < _EPOCH_MAX else 1
        self._touch(session, now_ms)
        return FetchPlan(targets, session=session)

    def open(
        self, answers: Answers, now_ms: int, *, by_topic_id: bool, privileged: bool = False
    ) -> int:
        """Begin a session with the partitions of a full reply; NO_SESSION if no slot is free."""
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
        sessions = self._sessions
        sessions[session.id] = sessions.pop(session.id)  # to the end: most recently used
        session.used_ms = now_ms
        session.size = len(session.targets)
        session.displaceable = now_ms - session.created_ms > EVICTION_MS

    def _evict(self, size: int, privileged: bool, now_ms: int) -> bool:
        """Make room for a session of `size` partitions; False if none may be displaced for it."""
        stalest = next(iter(self._sessions.values()), None)
        if stalest is None:
            return False
        if now_ms - stalest.used_ms <= EVICTION_MS:
            stalest = self._least_valuable(privileged)
            if stalest is None or (stalest.privileged, stalest.size) >= (privileged, size):
                return False
        del self._sessions[stalest.id]
        self.evictions += 1
        return True

    def _least_valuable(self, privileged: bool) -> FetchSession | None:
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


def _ask(
    targets: Targets,
    request: FetchRequest,
    by_topic_id: bool,
    name_of: Callable[[bytes], str | None],
) -> None:
    """Put the request's partitions into `targets`: new ones at the end, known ones in place.

    A partition that is named twice is asked for once, as it is named last.
    """
    for topic in request.topics:
        name: str | None = name_of(topic.topic_id) if by_topic_id else topic.topic
        label: str | bytes = topic.topic_id if by_topic_id else topic.topic
        for asked in topic.partitions:
            key = (label, asked.partition)
            known = targets.get(key)
            if known is None:
                targets[key] = FetchTarget(key, name, topic.topic_id, asked)
            else:
                known.asked = asked
