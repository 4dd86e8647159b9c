"""The broker's state: what it hosts, what it knows of the cluster, and its services."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kwire.codecs.errors import ErrorCode
from kwire.partition import Partition

if TYPE_CHECKING:
    from kwire.cluster.image import ClusterImage
    from kwire.cluster.store import MetadataStore
    from kwire.config import BrokerConfig
    from kwire.log import LogManager


class Broker:
    """One broker id.  Owned by the trio loop: everything here is touched from that thread only."""

    def __init__(
        self, config: BrokerConfig, store: MetadataStore, logs: LogManager, image: ClusterImage
    ) -> None:
        self.config = config
        self.store = store
        self.logs = logs
        self.image = image
        self.node_id: int = config.node_id
        self.partitions: dict[str, dict[int, Partition]] = {}

    @property
    def cluster_id(self) -> str:
        return self.image.cluster_id

    @staticmethod
    def now_ms() -> int:
        """Wall clock in ms since the epoch, what Kafka stamps on records."""
        return time.time_ns() // 1_000_000

    def partition(self, topic: str, index: int) -> Partition | None:
        hosted = self.partitions.get(topic)
        return None if hosted is None else hosted.get(index)

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.image.names_by_id.get(topic_id)

    def apply_image(self, image: ClusterImage) -> None:
        """Make what this broker hosts follow `image`: partitions appear, change or go away."""
        self.image = image
        for name in self.partitions.keys() - image.topics.keys():
            self._drop_topic(name)
        # partitions new in `image` are opened here

    def _drop_topic(self, name: str) -> None:
        for partition in self.partitions.pop(name).values():
            partition.stop(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self.logs.delete(partition.topic, partition.index)
