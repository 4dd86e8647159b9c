"""The store of the cluster's metadata, as the rest of the broker sees it.

One process of a single node keeps it in a file (`kwire.cluster.local`), a cluster in ZooKeeper.
Nothing outside `kwire.cluster` may ask which one it is; tests/cluster/test_store_contract.py says
what all must do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kwire.metadata.changes import Change
from kwire.metadata.delta import ClusterDelta
from kwire.metadata.image import BrokerImage, ClusterImage

Watcher = Callable[[ClusterImage, ClusterDelta], None]
"""Called on the trio loop with each new image and what is new in it, in the order of versions."""


class StoreError(Exception):
    """The store cannot be read or written; the sentence says which and why."""


class MetadataStore(Protocol):
    """What keeps the cluster's metadata, and tells everybody the same story of its changes.

    The unit is the change: each is made whole or not at all, and only where its precondition
    holds.  There is no compare-and-set of the whole image: ZooKeeper has a version for each znode,
    a KRaft quorum a log of records.  What may wait for a disk or a server is async.  An image that
    `commit` returned or a watcher was given is durable.
    """

    async def load(self) -> ClusterImage:
        """The latest committed image."""

    async def commit(self, changes: Sequence[Change]) -> ClusterImage:
        """Make `changes`, in their order; returns an image that has them, once watchers saw it.

        Raises Conflict at the first one whose precondition does not hold: it says how many before
        it are made.  The image that is in the way has been published then.  Raises StoreError; what
        is made then is not known, where the store is another machine.
        """

    def watch(self, watcher: Watcher) -> None:
        """Have `watcher` called with every image committed from now on, by whomever."""

    async def register(self, broker: BrokerImage) -> ClusterImage:
        """Announce a live broker; it is listed as long as this store is open."""

    async def allocate_producer_ids(self, count: int) -> range:
        """`count` producer ids that nobody was or will be given."""

    def close(self) -> None:
        """Release what is held; registrations of this process end."""
