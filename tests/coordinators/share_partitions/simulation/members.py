"""A member of the group and its connection to one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kwire.codecs.batches import iter_batches
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import share_acknowledge, share_fetch
from kwire.coordinators.share.partition import AcknowledgeType
from kwire.coordinators.share.records import ShareKey
from kwire.requests.context import Context
from tests.coordinators.share_partitions.simulation.broker import (
    GROUP,
    LIMITS,
    LOCK_MS,
    TOPIC_ID,
    SharingBroker,
)
from tests.coordinators.share_partitions.simulation.laws import Instance, Pending

if TYPE_CHECKING:
    from tests.coordinators.share_partitions.simulation.world import World

VERSION = 2
Kinds = dict[int, AcknowledgeType]
"""By offset."""


class Member:
    """It has one request under way at a time."""

    def __init__(self, name: str, broker: SharingBroker, world: World) -> None:
        self.name = name
        self._broker = broker
        self._world = world
        self._laws = world.laws
        self.epoch = 0
        self.is_busy = False
        self._waits = False
        """Whether a fetch may wait for nothing but records."""
        self._asked: list[Any] | None = None
        """Of what such a fetch waits for news, once it does."""
        self._context = Context("P", "localhost", f"{name}-1", api_version=VERSION)

    @property
    def _instances(self) -> list[Instance]:
        found = [self._world.instance(self._broker, key) for key in self._keys]
        return [each for each in found if each is not None]

    @property
    def _keys(self) -> list[ShareKey]:
        return [ShareKey(GROUP, TOPIC_ID, index) for index in range(len(self._broker.partitions))]

    def held(self, instance: Instance) -> list[int]:
        """What it has, as far as it knows."""
        return sorted(
            offset
            for offset, hold in instance.holds.items()
            if hold.member == self.name and hold.pending is None
        )

    # -- requests

    def fetch(
        self,
        max_records: int,
        *,
        strict: bool,
        max_wait_ms: int,
        said: dict[int, tuple[Instance, Kinds]] | None = None,
    ) -> None:
        """`said`: what it says of records of partitions meanwhile."""
        if self.is_busy:
            return
        pending, topics = [], []
        if self.epoch == 0:
            parts = [share_fetch.FetchPartition(key.partition) for key in self._keys]
            topics = [share_fetch.FetchTopic(TOPIC_ID, parts)]
        elif said:
            parts = []
            for index, (instance, kinds) in said.items():
                batches = [share_fetch.AcknowledgementBatch(*each) for each in _runs(kinds)]
                parts.append(share_fetch.FetchPartition(index, batches))
                pending.append(self._says(instance, kinds))
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
        self._start(self._fetch, request, pending)

    def say(self, instance: Instance, kinds: Kinds, *, leaves: bool = False) -> None:
        """`leaves`: and its session ends."""
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
        pending = [self._says(instance, kinds)] if kinds else []
        self._start(self._acknowledge, request, pending)

    def _says(self, instance: Instance, kinds: Kinds) -> Pending:
        return self._laws.says(instance, self.name, kinds, self._world.now_ms)

    def _start(self, task: Any, request: Any, pending: list[Pending]) -> None:  # noqa: ANN401 - any
        self.is_busy = True
        self._broker.running_nursery.start_soon(self._serve, task, request, pending)

    async def _serve(self, task: Any, request: Any, pending: list[Pending]) -> None:  # noqa: ANN401 - any
        context = self._context
        reply = await self._broker.ask(request, context)
        if context is self._context:
            self.is_busy = self._waits = False
            self.epoch = 0 if request.share_session_epoch == -1 else self.epoch + 1
            assert reply.error_code == ErrorCode.NONE, "it counts its epochs well"
        else:  # its connection is gone meanwhile
            self._laws.seen["answered too late"] += 1
        if reply.error_code == ErrorCode.NONE:
            task(request, reply, pending)

    def _fetch(self, request: Any, reply: Any, pending: list[Pending]) -> None:  # noqa: ANN401 - its
        assert reply.acquisition_lock_timeout_ms == LOCK_MS
        parts = {
            part.partition_index: part for topic in reply.responses for part in topic.partitions
        }
        for each in pending:
            part = parts[each.instance.key.partition]
            self._laws.hears(each, ErrorCode(part.acknowledge_error_code))
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

    def _acknowledge(self, request: Any, reply: Any, pending: list[Pending]) -> None:  # noqa: ANN401 - its
        if request.share_session_epoch == -1:
            self._laws.gone(self._instances, self.name)
        parts = {
            part.partition_index: part for topic in reply.responses for part in topic.partitions
        }
        for each in pending:
            part = parts[each.instance.key.partition]
            self._laws.hears(each, ErrorCode(part.error_code))

    def disconnect(self) -> None:
        """Its connection is gone, and what is under way to it."""
        self._laws.gone(self._instances, self.name)
        context, self._context = self._context, Context("P", "localhost", "", api_version=VERSION)
        self.epoch, self.is_busy, self._waits = 0, False, False
        if context.on_end is not None:
            context.on_end()

    # -- what it waits for

    def check_waits_for_nothing(self) -> None:
        """A fetch is answered as soon as there is something for it."""
        if not (self._waits and self.is_busy):
            return
        if self._asked is None:
            shares = self._broker.shares
            self._asked = [shares._openings.get(key) for key in self._keys]
            self._asked += [shares._led.get(key) for key in self._keys]
        for instance in self._instances:
            led = instance.led
            if not any(each is led or getattr(each, "found", None) is led for each in self._asked):
                continue  # it was told that it cannot have that partition
            if led.is_stopped or not led.is_current or not led.records.may_acquire(LIMITS):
                continue
            log = instance.ledger.log
            at = max(led.records.next_fetch_offset, log.start)
            assert at >= log.end, ("it waits beside records", instance.key, at, log.end)


def _runs(kinds: Kinds) -> list[tuple[int, int, list[int]]]:
    """Neighbouring offsets as one batch; of one kind where all are alike."""
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
