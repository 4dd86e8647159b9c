"""One task that fetches from one leader for some of the partitions that this broker follows.

A round: what a partition needs first (cut its log, ask where the leader's ends), then one Fetch for
all that are ready, then append what came.  What goes wrong with a partition lets that one rest for
`replica.fetch.backoff.ms` and stops no other; what goes wrong with the connection, all of them.

Everything but waiting happens between two checkpoints, and after each wait a partition is looked up
again: the controller may have made somebody else its leader, this broker even, or taken it away.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import trio

from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.peers import Role
from kwire.cluster.replication import leader_questions
from kwire.cluster.replication.fetch_session import FetchSessionClient, Key
from kwire.cluster.replication.following import (
    Cut,
    Next,
    Restart,
    after_out_of_range,
    cut_after_answer,
    first_step,
)
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kwire.codecs.messages.fetch import ReplicaState as FetchReplicaState
from kwire.log import (
    LogError,
    append_as_follower,
    end_offset_for_epoch,
    epoch_for,
    truncate_fully,
    truncate_to,
)

if TYPE_CHECKING:
    from kwire.cluster.replication.context import ReplicationContext
    from kwire.storage.partitions.partition import Partition
    from kwire.storage.partitions.replication_quota import ReplicationQuota

log = logging.getLogger("kwire.replication")

DIVERGING_EPOCH_SINCE: Final = 12
REPLICA_STATE_SINCE: Final = 15
BYTES_AT_ONCE: Final = 1024 * 1024
"""Appended before it is the turn of others: half a millisecond."""


class Followed:
    """A partition that a fetcher keeps up with its leader, in one leader epoch."""

    __slots__ = ("asked", "delayed_until", "is_behind", "key", "leader_epoch", "partition", "step")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.key: Key = (partition.topic, partition.topic_id, partition.index)
        self.leader_epoch = partition.leader_epoch
        self.step: Next | None = None
        """None: it is not known yet how to begin."""
        self.delayed_until = 0.0
        self.asked: FetchPartition | None = None
        """As it was asked for last; None where it has to be asked differently."""
        self.is_behind: bool | None = None
        """Whether it lacked what was committed when it was last appended to; None: not yet."""

    @property
    def log_end_offset(self) -> int:
        return self.partition.log.log_end_offset

    @property
    def log_start_offset(self) -> int:
        return self.partition.log.log_start_offset

    @property
    def latest_epoch(self) -> int:
        """Also one that began without a record: its leader has to know it, or it goes."""
        epoch = epoch_for(self.partition.log, self.partition.log.log_end_offset)
        return -1 if epoch is None else epoch

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return end_offset_for_epoch(self.partition.log, epoch)

    def __repr__(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"


class Fetcher:
    """See the module; `number` tells fetchers of one leader apart."""

    def __init__(
        self, host: ReplicationContext, leader: int, number: int, quota: ReplicationQuota
    ) -> None:
        self.leader = leader
        self.number = number
        self._host = host
        self._quota = quota
        self._peer = host.peer(leader, Role.FETCHER, number)
        self._session = FetchSessionClient()
        self._followed: dict[tuple[str, int], Followed] = {}
        self._changed = trio.Event()
        self._truncates_on_fetch = True
        self._is_deaf = False
        """Whether something that the leader has told, and will not tell again, was not taken."""
        self._told_failure: str | None = None

    def __len__(self) -> int:
        return len(self._followed)

    def add(self, partition: Partition) -> None:
        """Follow it, in its present leader epoch, from where its log ends."""
        self._followed[partition.topic, partition.index] = Followed(partition)
        self._changed.set()

    def remove(self, topic: str, index: int) -> None:
        """Follow it no longer; what is under way for it is dropped."""
        self._followed.pop((topic, index), None)
        self._changed.set()

    def is_current(self, followed: Followed) -> bool:
        """Whether it is still followed here, in that leader epoch."""
        partition = followed.partition
        return self._followed.get((partition.topic, partition.index)) is followed

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            self._changed = trio.Event()
            ready = self._ready()
            if not ready:
                await self._rest()
                continue
            try:
                await self._round(ready)
            except PeerError as problem:
                self._unreachable(problem, ready)
            await trio.lowlevel.checkpoint()

    def _ready(self) -> list[Followed]:
        now = trio.current_time()
        ready = [
            each
            for each in self._followed.values()
            if each.delayed_until <= now and each.step is not Next.WAIT_FOR_CONTROLLER
        ]
        for followed in ready:
            followed.delayed_until = 0.0
        return ready

    async def _rest(self) -> None:
        """Until something changes, or the first that rests may go on."""
        waiting = [
            each.delayed_until
            for each in self._followed.values()
            if each.step is not Next.WAIT_FOR_CONTROLLER
        ]
        with trio.move_on_at(min(waiting, default=float("inf"))):
            await self._changed.wait()

    def _unreachable(self, problem: PeerError, ready: list[Followed]) -> None:
        """The leader does not answer; said once for as long as it is for the same reason."""
        self._session.lost()
        level = logging.DEBUG if self._told_failure == problem.why else logging.WARNING
        self._told_failure = problem.why
        log.log(level, "nothing can be fetched: %s", problem)
        for followed in ready:
            self._delay(followed)

    def _delay(self, followed: Followed) -> None:
        followed.delayed_until = (
            trio.current_time() + self._host.config.replica_fetch_backoff_ms / 1000
        )

    async def _round(self, ready: list[Followed]) -> None:
        version = await self._peer.version_for(FetchRequest())
        self._truncates_on_fetch = version >= DIVERGING_EPOCH_SINCE
        if any(each.step is not Next.FETCH for each in ready):
            await self._prepare(ready)
        fetched = [
            each
            for each in ready
            if each.step is Next.FETCH and self.is_current(each) and not each.delayed_until
        ]
        if self._quota.throttled:
            fetched = self._within_quota(fetched)
        if not fetched:
            return
        wanted = {each.key: self._asked(each) for each in fetched}
        if self._is_deaf:
            self._session.lost()  # in a session high watermarks are told when they change
            self._is_deaf = False
        request = self._request(version)
        self._session.fill(request, wanted)
        response: FetchResponse = await self._peer.call(request, version_max=version)
        if self._told_failure is not None:
            log.info("broker %d answers again", self.leader)
            self._told_failure = None
        if self._session.answered(response):
            await self._take(response, {each.key: each for each in ready})
        elif response.error_code not in _SESSION_ERRORS:
            why = ErrorCode(response.error_code).name
            self._unreachable(PeerError(f"broker {self.leader}", why), ready)

    def _within_quota(self, fetched: list[Followed]) -> list[Followed]:
        """Those that may be fetched; where these are none, all rest, as after an error."""
        quota = self._quota
        if not quota.is_exceeded(self._host.now_ms()):
            return fetched
        within = [
            each
            for each in fetched
            if each.is_behind is False
            or not quota.is_throttled(each.partition.topic, each.partition.index)
        ]
        if not within:
            for followed in fetched:
                self._delay(followed)
        return within

    # -- asking

    def _request(self, version: int) -> FetchRequest:
        config, host = self._host.config, self._host
        has_state = version >= REPLICA_STATE_SINCE
        return FetchRequest(
            replica_id=-1 if has_state else host.node_id,
            replica_state=FetchReplicaState(host.node_id, host.broker_epoch) if has_state else None,
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
        )

    def _asked(self, followed: Followed) -> FetchPartition:
        """What is asked for it: the same object as long as it is the same."""
        asked = followed.asked
        start = followed.log_start_offset
        if asked is None or asked.log_start_offset != start:
            asked = followed.asked = FetchPartition(
                partition=followed.partition.index,
                current_leader_epoch=followed.leader_epoch,
                fetch_offset=followed.log_end_offset,
                last_fetched_epoch=followed.latest_epoch if self._truncates_on_fetch else -1,
                log_start_offset=start,
                partition_max_bytes=self._host.config.replica_fetch_max_bytes,
            )
        return asked

    # -- before the first Fetch, and after an offset that is not there

    async def _prepare(self, ready: list[Followed]) -> None:
        for followed in ready:
            if followed.step is None and self.is_current(followed):
                followed.step = first_step(followed, truncates_on_fetch=self._truncates_on_fetch)
                if followed.latest_epoch < 0:
                    await self._apply(followed, Cut(followed.partition.high_watermark, True))
        await self._ask(ready, Next.ASK_EPOCH, leader_questions.ask_epochs, self._epoch_told)
        await self._ask(ready, Next.ASK_ENDS, leader_questions.ask_ends, self._ends_told)

    async def _ask(
        self,
        ready: list[Followed],
        step: Next,
        ask: leader_questions.Ask,
        told: Callable[[Followed, int, int], Cut | Restart | None],
    ) -> None:
        """Put one question for all that are at `step`, and do what follows from the answers."""
        concerned = [each for each in ready if each.step is step and self.is_current(each)]
        if not concerned:
            return
        answers = await ask(self._peer, self._host.node_id, concerned)
        for followed in concerned:
            error, first, second = answers.get(followed.key, (ErrorCode.UNKNOWN_SERVER_ERROR, 0, 0))
            if not self.is_current(followed):
                continue
            if error:
                self._failed(followed, error)
                continue
            followed.step = Next.FETCH
            change = told(followed, first, second)
            if change is not None:
                await self._apply(followed, change)
            followed.asked = None

    def _epoch_told(self, followed: Followed, epoch: int, end_offset: int) -> Cut:
        cut = cut_after_answer(followed, followed.partition.high_watermark, epoch, end_offset)
        if not cut.is_final:
            followed.step = Next.ASK_EPOCH
        return cut

    @staticmethod
    def _ends_told(followed: Followed, start: int, end: int) -> Cut | Restart | None:
        return after_out_of_range(followed, start, end)

    # -- what was fetched

    async def _take(self, response: FetchResponse, asked: dict[Key, Followed]) -> None:
        """Append what came; in turn with others where it is much."""
        has_ids = bool(response.responses) and not response.responses[0].topic
        by_label = {(key[1] if has_ids else key[0], key[2]): each for key, each in asked.items()}
        taken_bytes = 0
        for label, data in _partitions_of(response):
            followed = by_label.get((label, data.partition_index))
            if followed is None or not self.is_current(followed):
                self._is_deaf = True
                continue
            if data.error_code:
                self._failed(followed, ErrorCode(data.error_code))
            elif data.diverging_epoch is not None:
                end, self._is_deaf = data.diverging_epoch, True
                cut = cut_after_answer(
                    followed, followed.partition.high_watermark, end.epoch, end.end_offset
                )
                await self._apply(followed, cut)
            else:
                taken_bytes += self._append(followed, data)
                if taken_bytes >= BYTES_AT_ONCE:
                    taken_bytes = 0
                    await trio.lowlevel.checkpoint()

    def _append(self, followed: Followed, data: PartitionData) -> int:
        """What one partition got; returns how much of it was taken."""
        partition = followed.partition
        asked = followed.asked
        if asked is None or asked.fetch_offset != partition.log.log_end_offset:
            self._is_deaf = True
            return 0
        size_bytes = 0
        records = data.records
        try:
            if isinstance(records, memoryview) and len(records):
                followed.asked = None
                result = append_as_follower(
                    partition.log,
                    records,
                    leader_epoch=followed.leader_epoch,
                    now_ms=self._host.now_ms(),
                )
                size_bytes = 0 if result is None else result.size_bytes
                if result is None:
                    self._delay(followed)  # of an epoch that nobody told of yet
            partition.followed(data.high_watermark, data.log_start_offset, size_bytes)
            self._note_progress(followed, data.high_watermark, size_bytes)
        except LogError as problem:
            self._not_taken(followed, problem)
        return size_bytes

    def _note_progress(self, followed: Followed, high_watermark: int, size_bytes: int) -> None:
        """What throttles go by: what came, and whether the log has what was committed by then."""
        if size_bytes or followed.is_behind is None:
            followed.is_behind = high_watermark > followed.log_end_offset
        partition = followed.partition
        if self._quota.throttled and self._quota.is_throttled(partition.topic, partition.index):
            self._quota.record(size_bytes, self._host.now_ms())

    def _not_taken(self, followed: Followed, problem: LogError) -> None:
        self._is_deaf = True
        log.error("what %r was sent cannot be appended: %s", followed, problem)
        followed.asked = None
        if followed.partition.log.offline:
            followed.step = Next.WAIT_FOR_CONTROLLER
        else:
            self._delay(followed)

    def _failed(self, followed: Followed, error: ErrorCode) -> None:
        """The leader refuses a partition: rest, or what its error asks for."""
        followed.asked = None
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and followed.step is Next.FETCH:
            followed.step = Next.ASK_ENDS
        elif error is ErrorCode.FENCED_LEADER_EPOCH:
            log.info("%r has another leader epoch by now; waiting to be told", followed)
            followed.step = Next.WAIT_FOR_CONTROLLER
        else:
            level = logging.DEBUG if error in _EXPECTED else logging.WARNING
            log.log(level, "broker %d refuses %r: %s", self.leader, followed, error.name)
            self._delay(followed)

    # -- cutting the log

    async def _apply(self, followed: Followed, change: Cut | Restart) -> None:
        """Cut the log, so that a power cut at any moment leaves it whole.  Errors let it rest."""
        partition = followed.partition
        followed.asked = None
        try:
            if isinstance(change, Restart):
                self._restart(partition, change.offset)
            else:
                await self._cut(followed, change.offset)
            partition.truncated()
        except LogError as problem:
            self._not_taken(followed, problem)

    def _restart(self, partition: Partition, offset: int) -> None:
        log.warning(
            "the leader of %s-%d begins at %d, behind the end of the log here, %d: it begins anew",
            partition.topic,
            partition.index,
            offset,
            partition.log.log_end_offset,
        )
        truncate_fully(partition.log, offset, self._host.now_ms())
        partition.high_watermark = offset

    async def _cut(self, followed: Followed, offset: int) -> None:
        partition = followed.partition
        key = (partition.topic, partition.index)
        if offset >= partition.log.log_end_offset:
            truncate_to(partition.log, offset, self._host.now_ms())
            return
        if offset < partition.high_watermark:
            log.warning(
                "%r is cut from %d to %d, before its high watermark, %d: broker %d leads it in"
                " epoch %d",
                followed,
                partition.log.log_end_offset,
                offset,
                partition.high_watermark,
                self.leader,
                followed.leader_epoch,
            )
        else:
            log.info("%r is cut from %d to %d", followed, partition.log.log_end_offset, offset)
        jobs = self._host.logs.truncate({key: offset}, self._host.now_ms())
        for job in jobs:
            partition.truncated()
            await trio.to_thread.run_sync(job.run)
            job.finish()
            if not self.is_current(followed):
                return


_SESSION_ERRORS = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
}
"""After which the next request is a full one."""

_EXPECTED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}
"""Of a leader that has yet to hear of it."""


def _partitions_of(response: FetchResponse) -> Iterator[tuple[str | bytes, PartitionData]]:
    for topic in response.responses:
        for data in topic.partitions:
            yield topic.topic or topic.topic_id, data
