"""ProducerIdBlocks: blocks of producer ids that the controllers give to this broker (KIP-730)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from kwire.cluster.peers.error import PeerError
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.allocate_producer_ids import AllocateProducerIdsRequest

if TYPE_CHECKING:
    from kwire.cluster.stores.kraft.living import BrokerLife, Calls

RETRY_MS: Final = 100
"""How long to wait after an error of a controller."""
TIMEOUT_MS: Final = 30_000
"""How long a client of this broker may wait for a block."""


class ProducerIdBlocks:
    """See the module."""

    def __init__(self, channel: Calls, life: BrokerLife, timeout_ms: int = TIMEOUT_MS) -> None:
        self._channel = channel
        self._life = life
        self._timeout_ms = timeout_ms

    async def allocate(self) -> range:
        """Return ids that nobody else gets; the controllers choose how many, which is 1000.

        If an answer is lost, its block is lost too.  Raises StoreError after the timeout.
        """
        why = "this broker is not registered"
        with trio.move_on_after(self._timeout_ms / 1000):
            while True:
                epoch = await self._life.wait_registered()
                request = AllocateProducerIdsRequest(self._life.broker_id, epoch)
                try:
                    answer = await self._channel.call(request, self._timeout_ms)
                except PeerError as error:
                    why = str(error)
                    continue
                if answer.error_code == ErrorCode.NONE and answer.producer_id_len > 0:
                    start = answer.producer_id_start
                    return range(start, start + answer.producer_id_len)
                why = f"they answer with error {answer.error_code}"
                # After STALE_BROKER_EPOCH the broker registers anew with its next heartbeat.
                await trio.sleep(RETRY_MS / 1000)
        raise StoreError(f"the controllers give no producer ids: {why}")
