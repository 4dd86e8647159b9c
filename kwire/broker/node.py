"""The lower half of a broker, which its services share: settings, metadata, partitions, timers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.broker.shared_work import SharedWork
from kwire.cluster.metadata.features import SUPPORTED
from kwire.cluster.metadata.image import BrokerImage
from kwire.cluster.stores.producer_id_supply import ProducerIdSupply
from kwire.settings import topic_log_config
from kwire.settings.resources import ConfigResourceType
from kwire.storage.partitions.flushing import Flusher
from kwire.storage.partitions.hosted import HostedPartitions

if TYPE_CHECKING:
    import trio

    from kwire.broker.timers import Timers
    from kwire.cluster.metadata.cache import MetadataCache
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.peers.peers import Peers
    from kwire.cluster.stores.contract import MetadataStore
    from kwire.log import LogConfig, LogManager
    from kwire.settings import BrokerConfig
    from kwire.settings.live import LiveSettings


class Node:
    """One broker's settings, metadata, partitions, clock and timers.

    Replication, membership, coordinators and telemetry are built on it; it has no reference to
    them.  `peers` has the connections to other brokers, None for a broker alone.  `nursery` runs
    background work once the broker has started.
    """

    def __init__(
        self,
        settings: LiveSettings,
        metadata: MetadataCache,
        logs: LogManager,
        store: MetadataStore,
        timers: Timers,
        now_ms: Callable[[], int],
    ) -> None:
        """`now_ms` is the wall clock in ms since the epoch, which Kafka stamps on records."""
        self.settings = settings
        self.metadata = metadata
        self.store = store
        self.timers = timers
        self.shared_work = SharedWork()
        self.now_ms = now_ms
        self.flusher = Flusher(now_ms)
        self.hosted = HostedPartitions(settings.node_id, logs, self.flusher, self.log_config)
        self.producer_ids = ProducerIdSupply(store)
        self.peers: Peers | None = None
        self.nursery: trio.Nursery | None = None

    @property
    def node_id(self) -> int:
        return self.settings.node_id

    @property
    def config(self) -> BrokerConfig:
        """The settings as they are now."""
        return self.settings.config

    @property
    def image(self) -> ClusterImage:
        """The metadata image of the cluster."""
        return self.metadata.image

    @property
    def registration(self) -> BrokerImage:
        """The registration of this broker: endpoints, rack, features and log directories."""
        config = self.config
        return BrokerImage(
            self.node_id,
            config.advertised_listeners,
            config.broker_rack,
            features=SUPPORTED,
            log_dirs=tuple(config.log_dirs),
            cordoned=tuple(self.settings.static_config.cordoned_log_dirs),
        )

    def log_config(self, topic: str, image: ClusterImage | None = None) -> LogConfig:
        """The configs of the topic's logs: its own configs over this broker's settings.

        They are those of `image`, or of the present one.
        """
        overrides = (image or self.image).configs_of(ConfigResourceType.TOPIC, topic)
        return topic_log_config(self.config, overrides)

    @property
    def running_nursery(self) -> trio.Nursery:
        """`nursery`, once the broker has started."""
        assert self.nursery is not None, "begin() comes first"
        return self.nursery

    def begin(self, nursery: trio.Nursery) -> None:
        """Run timers and flushes in `nursery`, and later the background work of services."""
        self.nursery = nursery
        nursery.start_soon(self.timers.run)
        self.flusher.start(nursery)
