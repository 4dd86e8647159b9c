"""Keeps the features of a cluster at levels that all its members support."""

from __future__ import annotations

import logging

import trio

from kwire.cluster.decisions.feature_updates import (
    can_features_change,
    lower_features,
    raise_or_lower_features,
)
from kwire.cluster.metadata.changes import SetFeatures
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.stores.contract import ClusterStore, StoreError
from kwire.cluster.stores.deciding import commit_decided

log = logging.getLogger("kwire.cluster")

RETRY_S = 0.5


class Agreement:
    """One member's part in it.

    Any member may lower a level that another member does not support, since the controller may be a
    broker of Apache Kafka, which does not do so.  Only the controller raises levels.
    """

    def __init__(self, store: ClusterStore, nursery: trio.Nursery) -> None:
        """`nursery` runs the task that commits new levels."""
        self._store = store
        self._nursery = nursery
        self._image: ClusterImage | None = None
        self._knows_topics = False
        self._is_open = False
        """Whether levels could change, so that each new image has to be checked."""
        self._is_at_work = False

    def follow(self, image: ClusterImage, *, knows_topics: bool) -> None:
        """Act on the cluster's new `image`.

        `knows_topics`: it has all topics, because this broker is the controller.
        """
        before, self._image, self._knows_topics = self._image, image, knows_topics
        if (
            before is None
            or before.brokers is not image.brokers
            or before.features is not image.features
        ):
            self._is_open = can_features_change(image)
        if self._is_open and not self._is_at_work and self._decide(image) is not None:
            self._is_at_work = True
            self._nursery.start_soon(self._agree)

    def _decide(self, image: ClusterImage) -> SetFeatures | None:
        return raise_or_lower_features(image) if self._knows_topics else lower_features(image)

    def _latest(self) -> ClusterImage:
        assert self._image is not None, "an image gave the reason to change the features"
        return self._image

    async def _agree(self) -> None:
        """Commit changes until no more are needed.  Another member may commit them first."""
        try:
            while self._decide(self._latest()) is not None:
                try:
                    await commit_decided(self._store, self._latest, [self._decide])
                except StoreError as error:
                    log.info("Cannot set the features of the cluster yet, trying again: %s", error)
                    await trio.sleep(RETRY_S)
        finally:
            self._is_at_work = False
