"""The store of the cluster's metadata, as the rest of the broker sees it.

One process of a single node keeps it in a file (`kwire.cluster.local`), a cluster in ZooKeeper.
Nothing outside `kwire.cluster` may ask which one it is; tests/cluster/test_store_contract.py says
what both must do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kwire.cluster.image import BrokerImage, ClusterImage

Watcher = Callable[[ClusterImage], None]
"""Called on the trio loop with each new image, in the order of their versions."""


class VersionConflict(Exception):
    """The metadata changed since the image that a commit was made from; load and decide again."""


class StoreError(Exception):
    """The store cannot be read or written; the sentence says which and why."""


class MetadataStore(Protocol):
    """Compare-and-set storage of one `ClusterImage`.

    What may wait for a disk or a server is async.  An image that `commit` returned or a watcher
    was given is durable.
    """

    async def load(self) -> ClusterImage:
        """The latest committed image."""

    async def commit(self, expected_version: int, image: ClusterImage) -> ClusterImage:
        """Make `image` the latest if the latest still has `expected_version`.

        Returns it with its new version, after the watchers have seen it.
        Raises VersionConflict, StoreError; nothing is changed then.
        """

    def watch(self, watcher: Watcher) -> None:
        """Have `watcher` called with every image committed from now on, by whomever."""

    async def register(self, broker: BrokerImage) -> ClusterImage:
        """Announce a live broker; it is listed as long as this store is open."""

    async def allocate_producer_ids(self, count: int) -> range:
        """`count` producer ids that nobody was or will be given."""

    def close(self) -> None:
        """Release what is held; registrations of this process end."""
