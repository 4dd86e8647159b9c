"""ProducerIdSupply: the producer ids of this broker, reserved in the metadata store in blocks."""

from __future__ import annotations

import trio

from kwire.cluster.stores.contract import MetadataStore
from kwire.txn.producer_ids import BLOCK_SIZE, ProducerIds


class ProducerIdSupply:
    """`ids` are the ids that are left of the reserved blocks."""

    def __init__(self, store: MetadataStore) -> None:
        self.ids = ProducerIds()
        self._store = store
        self._restocking = trio.Lock()

    async def restock(self) -> None:
        """Reserve another block if no id is left.  Raises StoreError."""
        async with self._restocking:
            if not self.ids:
                self.ids.add(await self._store.allocate_producer_ids(BLOCK_SIZE))
