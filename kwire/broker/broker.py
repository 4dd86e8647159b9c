"""One broker: its node and its services, and its reaction to a lost disk or cluster.

`Broker` creates the services; handlers and the server reach them here.  Each service gets what it
needs as an argument, and does not know the broker.  Only the trio loop uses these objects, so there
are no locks.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from kwire.broker.live_configs import ConfigFollower
from kwire.broker.node import Node
from kwire.broker.timers import Timers
from kwire.cluster.membership.alone import LoneMembership
from kwire.cluster.membership.ended import DepartedBrokers
from kwire.cluster.metadata.cache import MetadataCache
from kwire.cluster.metadata.image import NO_CONTROLLER
from kwire.coordinators.runtime.coordinators import Coordinators
from kwire.security import chosen
from kwire.settings.live import LiveSettings
from kwire.storage.partitions.fetch_sessions import FetchSessions

if TYPE_CHECKING:
    from kwire.broker.telemetry.service import ClientTelemetry
    from kwire.cluster.membership.contract import ClusterMembership
    from kwire.cluster.metadata.delta import ClusterDelta
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.metadata.views import MetadataViews
    from kwire.cluster.stores.contract import MetadataStore, StoreError
    from kwire.coordinators.share_partitions.manager import ShareManager
    from kwire.log import Log, LogManager
    from kwire.requests.gate import Gate
    from kwire.security.store_changes import CheckStores
    from kwire.settings import BrokerConfig

log = logging.getLogger("kwire.broker")


class Broker:
    """The services of one broker.

    node            settings, metadata, hosted partitions, timers, clock, peers
    membership      this broker's part in its cluster: it commits changes and creates topics
    coordinators    those of groups, transactions and share groups
    configs         applies configs that change at run time, among them quotas
    authorizer      checks the rights of each request; None: everything is allowed
    tokens          the delegation tokens; None if the settings exclude them
    gate            sees every request of new connections; None: no request has to be seen
    storage_lost    set when the broker has to stop: no log directory is left, the one with the
                    metadata has failed, or the cluster is lost (`membership_lost` has the reason)
    """

    def __init__(
        self, config: BrokerConfig, store: MetadataStore, logs: LogManager, cluster_id: str
    ) -> None:
        """Build a broker's services; nothing is loaded or served yet.

        `store` has the cluster's metadata, `logs` the log directories of this broker.
        """
        settings, metadata = LiveSettings(config), MetadataCache(cluster_id)
        self.node = Node(settings, metadata, logs, store, Timers(), self.now_ms)
        self.settings = settings
        self.metadata = metadata
        self.hosted = self.node.hosted
        self.logs = logs
        self.membership: ClusterMembership = LoneMembership(self.node)
        self.coordinators = Coordinators(self.node)
        self.departed = DepartedBrokers()
        """Brokers that left the cluster a moment ago."""
        self.configs = ConfigFollower(self)
        self.authorizer = chosen.authorizer(config)
        self.tokens = chosen.tokens(config)
        self.gate: Gate | None = None
        self.on_acls_changed: Callable[[], None] | None = None
        """Called when ACLs have changed."""
        self.check_stores: CheckStores | None = None
        """Checks whether listeners could use other keystores; None without TLS."""
        self.storage_lost = trio.Event()
        self.membership_lost: StoreError | None = None
        self.fetch_sessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots,
            # Session ids are positive int32s: 0 means that the client has no session.
            lambda: random.randint(1, 2**31 - 1),
        )
        self._telemetry: ClientTelemetry | None = None
        self._shares: ShareManager | None = None
        self.on_shares: Callable[[ShareManager], None] | None = None
        """Called with `shares` when it is created."""
        self._views: MetadataViews | None = None
        logs.dirs.on_dir_offline = self._dir_failed
        metadata.follow(self._follow)

    async def start(self, nursery: trio.Nursery) -> None:
        """Start as a cluster of one broker: apply the metadata, and follow its changes."""
        self.node.begin(nursery)
        assert isinstance(self.membership, LoneMembership)
        await self.membership.begin()

    @staticmethod
    def now_ms() -> int:
        """The wall clock in ms since the epoch, which Kafka stamps on records."""
        return time.time_ns() // 1_000_000

    # -- shortcuts to the node, which nearly every handler needs

    @property
    def node_id(self) -> int:
        return self.settings.node_id

    @property
    def config(self) -> BrokerConfig:
        """The settings as they are now."""
        return self.settings.config

    @property
    def image(self) -> ClusterImage:
        """The metadata image of the cluster, from which clients are answered."""
        return self.metadata.image

    @property
    def controller_seen(self) -> int:
        """The broker that clients take for the controller; -1 if there is none.

        Apache Kafka's controllers are no brokers.  Each live broker forwards requests to them, so
        clients are told one of these at random, as by Apache Kafka's brokers.
        """
        if self.membership.forwarding is None:
            return self.image.controller_id
        live = list(self.image.brokers)
        return random.choice(live) if live else NO_CONTROLLER

    # -- services that most brokers never need; each is imported and created at its first use

    @property
    def telemetry(self) -> ClientTelemetry:
        """The metrics that clients push (KIP-714)."""
        if self._telemetry is None:
            from kwire.broker.telemetry.service import ClientTelemetry

            self._telemetry = ClientTelemetry(self.node, self.membership)
        return self._telemetry

    @property
    def telemetry_if_any(self) -> ClientTelemetry | None:
        """`telemetry`, or None if no client has asked for its subscription yet."""
        return self._telemetry

    @property
    def shares(self) -> ShareManager:
        """The partitions that members of share groups read on this broker."""
        if self._shares is None:
            from kwire.coordinators.share_partitions.manager import ShareManager

            self._shares = ShareManager(self.node, self.membership, lambda: self.coordinators.share)
            if self.on_shares is not None:
                self.on_shares(self._shares)
        return self._shares

    @property
    def shares_if_any(self) -> ShareManager | None:
        """`shares`, or None if no member of a share group has read here yet."""
        return self._shares

    @property
    def metadata_views(self) -> MetadataViews:
        """Encoded parts of the image, from which Metadata requests are answered."""
        if self._views is None:
            from kwire.cluster.metadata.views import MetadataViews

            self._views = MetadataViews(self.node.registration)
        return self._views

    def disconnected(self, connection_id: str) -> None:
        """Drop what belongs to a closed connection."""
        if self._telemetry is not None:
            self._telemetry.disconnected(connection_id)

    # -- changes of the metadata, and lost storage

    def _follow(self, before: ClusterImage, image: ClusterImage, delta: ClusterDelta) -> None:
        """Apply a change of the metadata to configs, ACLs and delegation tokens.

        It is called for every new image, with its `delta` to the image `before`.
        """
        if self._views is not None:
            self._views.follow(before, image, delta)
        if delta.brokers:
            self.departed.follow(before, delta)
        if delta.configs:
            self.configs.apply(delta.configs)
        if delta.acls and self.authorizer is not None:
            self.authorizer.follow(delta.acls)
            if self.on_acls_changed is not None:
                self.on_acls_changed()
        if delta.tokens and self.tokens is not None:
            self.tokens.follow(delta.tokens)

    def _dir_failed(self, path: Path, error: OSError, lost: list[Log]) -> None:
        """Take the partitions of a failed log directory offline, and answer who waits for them."""
        log.error("%d partitions of %s are offline: %s", len(lost), path, error)
        partitions = self.hosted.lose(lost)
        if self.membership.replication is not None:
            for partition in partitions:
                self.coordinators.resign(partition)
        can_go_on = self.membership.logs_lost(path, lost)
        if not can_go_on or not self.logs.online_dirs:
            self.storage_lost.set()

    def give_up(self, error: StoreError) -> None:
        """Stop the broker: its cluster is lost, and it cannot become a member again."""
        self.membership_lost = error
        self.storage_lost.set()
