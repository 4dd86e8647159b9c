"""Producer ids that a broker gives out: it has the metadata store reserve a block at a time."""

from __future__ import annotations

import trio

from kwire.cluster.stores.contract import MetadataStore
from kwire.txn.producer_ids import BLOCK_SIZE, ProducerIds


class ProducerIdSupply:
    """`ids` are those that are left of the blocks reserved for this broker."""

    def __init__(self, store: MetadataStore) -> None:
        self.ids = ProducerIds()
        self._store = store
        self._restocking = trio.Lock()

    async def restock(self) -> None:
        """Have at least one id left.  Raises StoreError."""
        async with self._restocking:
            if not self.ids:
                self.ids.add(await self._store.allocate_producer_ids(BLOCK_SIZE))
