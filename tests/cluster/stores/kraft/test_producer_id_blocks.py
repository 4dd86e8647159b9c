"""Blocks of producer ids from the controllers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
import trio.testing

from kwire.cluster.peers.error import PeerError
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.kraft.lifecycle import Lifecycle
from kwire.cluster.stores.kraft.living import BrokerLife, steady_ms
from kwire.cluster.stores.kraft.producer_id_blocks import ProducerIdBlocks
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kwire.codecs.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.cluster.stores.kraft.lifecycle_stage import IDENTITY
from tests.cluster.stores.kraft.test_lifecycle_any_controllers import Controllers


@dataclass
class Channel:
    """Simulated controllers that give blocks."""

    controllers: Controllers = field(default_factory=Controllers)
    next_id: int = 0
    failures: int = 0
    error: int = 0

    async def call(self, request: Any, timeout_ms: float) -> Any:  # noqa: ANN401 - of three APIs
        await trio.sleep(0.01)
        if isinstance(request, BrokerHeartbeatRequest):
            return self.controllers.heartbeat(request, steady_ms())
        if not isinstance(request, AllocateProducerIdsRequest):
            return self.controllers.register(request.incarnation_id, steady_ms())
        if self.failures:
            self.failures -= 1
            raise PeerError("the controllers", f"no answer in {timeout_ms} ms")
        is_stale = request.broker_epoch != self.controllers.epoch
        if self.error or is_stale or self.controllers.owner is None:
            return AllocateProducerIdsResponse(
                error_code=self.error or ErrorCode.STALE_BROKER_EPOCH
            )
        start, self.next_id = self.next_id, self.next_id + 1000
        return AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=1000)


@asynccontextmanager
async def blocks(channel: Channel) -> AsyncIterator[ProducerIdBlocks]:
    life = BrokerLife(Lifecycle(IDENTITY), channel, lambda: channel.controllers.log_end - 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(life.run)
        yield ProducerIdBlocks(channel, life)
        nursery.cancel_scope.cancel()


async def test_each_block_follows_the_one_before(autojump_clock: trio.testing.MockClock) -> None:
    async with blocks(Channel(failures=1)) as supply:
        assert await supply.allocate() == range(1000)
        assert await supply.allocate() == range(1000, 2000)


async def test_removed_broker_gets_a_block_in_its_next_epoch(
    autojump_clock: trio.testing.MockClock,
) -> None:
    channel = Channel()
    async with blocks(channel) as supply:
        await supply.allocate()
        channel.controllers.owner = None
        assert await supply.allocate() == range(1000, 2000)
        assert channel.controllers.owner == IDENTITY.incarnation


async def test_refusal_of_the_controllers_is_named_after_the_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with blocks(Channel(error=int(ErrorCode.UNKNOWN_SERVER_ERROR))) as supply:
        with pytest.raises(StoreError, match="no producer ids: they answer with error -1"):
            await supply.allocate()


async def test_block_of_a_broker_that_cannot_register_ends_with_the_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    channel = Channel()
    life = BrokerLife(Lifecycle(IDENTITY), channel, lambda: 0)
    with pytest.raises(StoreError, match="this broker is not registered"):
        await ProducerIdBlocks(channel, life).allocate()
