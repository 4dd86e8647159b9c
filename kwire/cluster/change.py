"""Changing the cluster's metadata: decide on an image, commit, decide again if it moved on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from kwire.cluster.image import ClusterImage
from kwire.cluster.store import MetadataStore, VersionConflict

Result = TypeVar("Result")


class Follower(Protocol):
    """What has an image and follows the store: the broker."""

    image: ClusterImage
    store: MetadataStore

    def apply_image(self, image: ClusterImage) -> None: ...


async def change_metadata(
    broker: Follower, decide: Callable[[ClusterImage], tuple[ClusterImage, Result]]
) -> Result:
    """Commit the image that `decide` makes of the latest one, and return what it says besides.

    `decide` is called again when someone else committed first, so it must change nothing itself;
    giving back the image it got means that there is nothing to commit.  When this returns, the
    broker follows the new image: partitions exist or are gone.  Raises StoreError.
    """
    image = broker.image
    while True:
        changed, result = decide(image)
        if changed is image:
            return result
        try:
            committed = await broker.store.commit(image.version, changed)
        except VersionConflict:
            image = await broker.store.load()
            continue
        if broker.image.version < committed.version:
            broker.apply_image(committed)
        return result
