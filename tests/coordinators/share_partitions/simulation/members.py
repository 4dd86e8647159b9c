"""A member of the group and its connection to one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kwire.codecs.batches import iter_batches
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import share_acknowledge, share_fetch
from kwire.coordinators.share.partition import AcknowledgeType
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share_partitions.led import LedPartition
from kwire.coordinators.share_partitions.manager import Opening
from kwire.requests.context import Context
from tests.coordinators.share_partitions.simulation.broker import (
    GROUP,
    LIMITS,
    LOCK_MS,
    TOPIC_ID,
    SharingBroker,
)
from tests.coordinators.share_partitions.simulation.laws import Instance, PendingAcknowledgement

if TYPE_CHECKING:
    from tests.coordinators.share_partitions.simulation.world import World

VERSION = 2
Kinds = dict[int, AcknowledgeType]
"""By offset."""


class Member:
    """See the module.  It has one request under way at a time."""

    def __init__(self, name: str, broker: SharingBroker, world: World) -> None:
        self.name = name
        self._broker = broker
        self._world = world
        self._laws = world.laws
        self.epoch = 0
        self.is_busy = False
        self._waits = False
        """Whether the fetch under way waits for records only, not for a write."""
        self._asked: list[Opening | LedPartition | None] | None = None
        """The partitions for whose records such a fetch waits, once it waits."""
        self._context = Context("P", "localhost", f"{name}-1", api_version=VERSION)
        self._ended: list[Context] = []
        """Connections that the member has left, and whose end the broker has not seen."""

    @property
    def _instances(self) -> list[Instance]:
        found = [self._world.instance(self._broker, key) for key in self._keys]
        return [each for each in found if each is not None]

    @property
    def _keys(self) -> list[ShareKey]:
        return [ShareKey(GROUP, TOPIC_ID, index) for index in range(len(self._broker.partitions))]

    def held(self, instance: Instance, locked_at_ms: int = -1) -> list[int]:
        """The offsets that the member has as far as it knows, without those it has acknowledged.

        Those whose lock has ended at `locked_at_ms` are left out.
        """
        return sorted(
            offset
            for offset, hold in instance.holds.items()
            if hold.member == self.name and hold.pending is None and hold.until_ms > locked_at_ms
        )

    # -- requests

    def fetch(
        self,
        max_records: int,
        *,
        strict: bool,
        max_wait_ms: int,
        acknowledged: dict[int, tuple[Instance, Kinds]] | None = None,
    ) -> None:
        """Send a ShareFetch.  `acknowledged`: the acknowledgements in it, by partition."""
        if self.is_busy:
            return
        pending, topics = [], []
        if self.epoch == 0:
            parts = [share_fetch.FetchPartition(key.partition) for key in self._keys]
            topics = [share_fetch.FetchTopic(TOPIC_ID, parts)]
        elif acknowledged:
            parts = []
            for index, (instance, kinds) in acknowledged.items():
                batches = [share_fetch.AcknowledgementBatch(*each) for each in _runs(kinds)]
                parts.append(share_fetch.FetchPartition(index, batches))
                pending.append(self._pending(instance, kinds))
            topics = [share_fetch.FetchTopic(TOPIC_ID, parts)]
        request = share_fetch.ShareFetchRequest(
            GROUP,
            self.name,
            self.epoch,
            max_wait_ms,
            1,
            1 << 20,
            max_records=max_records,
            batch_size=max_records,
            share_acquire_mode=int(strict),
            topics=topics,
        )
        self._waits, self._asked = not pending, None
        self._start(self._read_fetch, request, pending)

    def acknowledge(self, instance: Instance, kinds: Kinds, *, leaves: bool = False) -> None:
        """Send a ShareAcknowledge.  `leaves`: it also ends the session."""
        if self.is_busy or self.epoch == 0:
            return
        batches = [share_acknowledge.AcknowledgementBatch(*each) for each in _runs(kinds)]
        index = instance.key.partition
        parts = [share_acknowledge.AcknowledgePartition(index, batches)]
        renews = AcknowledgeType.RENEW in kinds.values()
        request = share_acknowledge.ShareAcknowledgeRequest(
            GROUP,
            self.name,
            -1 if leaves else self.epoch,
            renews,
            [share_acknowledge.AcknowledgeTopic(TOPIC_ID, parts)] if kinds else [],
        )
        pending = [self._pending(instance, kinds)] if kinds else []
        self._start(self._read_acknowledgements, request, pending)

    def _pending(self, instance: Instance, kinds: Kinds) -> PendingAcknowledgement:
        return self._laws.sends(instance, self.name, kinds, self._world.now_ms)

    def _start(self, task: Any, request: Any, pending: list[PendingAcknowledgement]) -> None:  # noqa: ANN401 - any
        self.is_busy = True
        self._broker.running_nursery.start_soon(self._serve, task, request, pending)

    async def _serve(self, task: Any, request: Any, pending: list[PendingAcknowledgement]) -> None:  # noqa: ANN401 - any
        context = self._context
        reply = await self._broker.ask(request, context)
        if context is self._context:
            self.is_busy = self._waits = False
            self.epoch = 0 if request.share_session_epoch == -1 else self.epoch + 1
            assert reply.error_code == ErrorCode.NONE, "the session epoch is the right one"
        else:  # the connection has ended meanwhile
            self._laws.seen["answered too late"] += 1
        if reply.error_code == ErrorCode.NONE:
            task(request, reply, pending)

    def _read_fetch(self, request: Any, reply: Any, pending: list[PendingAcknowledgement]) -> None:  # noqa: ANN401 - its
        assert reply.acquisition_lock_timeout_ms == LOCK_MS
        parts = {
            part.partition_index: part for topic in reply.responses for part in topic.partitions
        }
        for each in pending:
            part = parts[each.instance.key.partition]
            self._laws.receives(each, ErrorCode(part.acknowledge_error_code))
        given = 0
        for key in self._keys:
            part = parts.get(key.partition)
            if part is None:
                continue
            self._laws.seen[f"fetch {ErrorCode(part.error_code).name}"] += 1
            held = {
                offset
                for _, header in iter_batches(bytes(part.records or b""))
                for offset in range(header.base_offset, header.last_offset + 1)
            }
            for each in part.acquired_records:
                instance = self._world.instance(self._broker, key)
                assert instance is not None
                run = each.first_offset, each.last_offset
                assert held.issuperset(range(run[0], run[1] + 1)), "without its records"
                self._laws.delivered(
                    instance, self.name, *run, each.delivery_count, self._world.now_ms
                )
                given += run[1] - run[0] + 1
        if request.share_acquire_mode:
            assert given <= request.max_records, (given, request.max_records)

    def _read_acknowledgements(
        self,
        request: Any,  # noqa: ANN401 - a ShareAcknowledgeRequest
        reply: Any,  # noqa: ANN401 - its response
        pending: list[PendingAcknowledgement],
    ) -> None:
        parts = {
            part.partition_index: part for topic in reply.responses for part in topic.partitions
        }
        for each in pending:
            part = parts[each.instance.key.partition]
            self._laws.receives(each, ErrorCode(part.error_code))
        if request.share_session_epoch == -1:  # after what it acknowledged, which may renew locks
            self._laws.session_ended(self._instances, self.name)

    def disconnect(self) -> None:
        """The connection ends, and the broker sees it at once; responses on it are lost."""
        self.reconnect()
        self.broker_sees_end()

    def reconnect(self) -> None:
        """The member opens another connection; the broker does not see yet that the first ended."""
        self._laws.session_ended(self._instances, self.name)
        self._ended.append(self._context)
        self._context = Context("P", "localhost", "", api_version=VERSION)
        self.epoch, self.is_busy, self._waits = 0, False, False

    def broker_sees_end(self) -> None:
        """The broker sees the end of the connections that the member has left."""
        ended, self._ended = self._ended, []
        if self.epoch == 0:  # no later session: what a lost response has delivered is released too
            self._laws.session_ended(self._instances, self.name)
        for context in ended:
            if context.on_end is not None:
                context.on_end()

    # -- waiting fetches

    def check_waits_for_nothing(self) -> None:
        """Check that a fetch does not wait although there are records for it."""
        if not (self._waits and self.is_busy):
            return
        if self._asked is None:
            shares = self._broker.shares
            self._asked = [
                *(shares._openings.get(key) for key in self._keys),
                *(shares._led.get(key) for key in self._keys),
            ]
        for instance in self._instances:
            led = instance.led
            if not any(
                each is led or (each.result if isinstance(each, Opening) else each) is led
                for each in self._asked
            ):
                continue  # the fetch has an error for that partition
            if led.is_stopped or not led.is_current or not led.records.may_acquire(LIMITS):
                continue
            log = instance.ledger.log
            at = max(led.records.next_fetch_offset, log.start)
            assert at >= log.end, (
                "the fetch waits although there are records",
                instance.key,
                at,
                log.end,
            )


def _runs(kinds: Kinds) -> list[tuple[int, int, list[int]]]:
    """Batches of neighbouring offsets, with one type if all have the same."""
    runs: list[tuple[int, int, list[int]]] = []
    for offset in sorted(kinds):
        if runs and runs[-1][1] + 1 == offset:
            first, _, types = runs.pop()
            runs.append((first, offset, [*types, int(kinds[offset])]))
        else:
            runs.append((offset, offset, [int(kinds[offset])]))
    return [
        (first, last, types[:1] if len(set(types)) == 1 else types) for first, last, types in runs
    ]
