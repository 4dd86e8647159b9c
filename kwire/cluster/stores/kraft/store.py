"""KraftStore: the metadata of a cluster with KRaft controllers, as a broker beside them has them.

The controllers write the metadata, so `commit` always raises NotController: a broker sends them the
request of its client (`kwire.cluster.stores.kraft.forwarding`), and finds the result in its image.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import trio

from kwire.cluster.stores.contract import NotController, StoreError, Watcher
from kwire.cluster.stores.kraft.lifecycle import (
    NO_EPOCH,
    BrokerIdentity,
    Lifecycle,
    LifecycleLimits,
)
from kwire.cluster.stores.kraft.living import BrokerLife
from kwire.cluster.stores.kraft.producer_id_blocks import ProducerIdBlocks
from kwire.codecs.uuids import random_uuid

if TYPE_CHECKING:
    from kwire.cluster.metadata.changes import Change
    from kwire.cluster.metadata.image import BrokerImage, ClusterImage
    from kwire.cluster.metadata.quorum import MetadataQuorum
    from kwire.cluster.stores.kraft.controllers import ControllerChannel
    from kwire.cluster.stores.kraft.link import MetadataLink

ONLY_CONTROLLERS: Final = "only the controllers change the metadata of this cluster"

_CALL_MS: Final = 30_000
"""How long one request to a controller may take before the channel asks another one."""


class KraftStore:
    """A MetadataStore; see the module.

    `on_end` is called once the controllers do not have this broker any longer, or the metadata
    cannot be followed: then the broker has to stop.
    """

    def __init__(
        self,
        link: MetadataLink,
        nursery: trio.Nursery,
        limits: LifecycleLimits | None = None,
        previous_epoch: int = NO_EPOCH,
    ) -> None:
        """Start to follow the metadata, in `nursery`.

        `previous_epoch` is the broker epoch before the last stop, if that was clean.
        """
        self._link = link
        self._nursery = nursery
        self._limits = limits or LifecycleLimits()
        self._previous_epoch = previous_epoch
        self._life: BrokerLife | None = None
        self._ids: ProducerIdBlocks | None = None
        self.on_end: Callable[[StoreError], None] | None = None
        nursery.start_soon(self._end_by, link.run)

    async def _end_by(self, run: Callable[[], Awaitable[None]]) -> None:
        """Run a task of this store; call `on_end` if it fails."""
        try:
            await run()
        except StoreError as error:
            if self.on_end is not None:
                self.on_end(error)

    # -- reading

    @property
    def image(self) -> ClusterImage:
        """The newest image."""
        return self._link.image

    async def load(self) -> ClusterImage:
        """Wait for all metadata that were committed at the start.

        Waits as long as no controller answers.  Raises StoreError if they cannot be followed.
        """
        return await self._link.load()

    def watch(self, watcher: Watcher) -> None:
        self._link.watch(watcher)

    async def commit(self, changes: Sequence[Change]) -> ClusterImage:
        """Raises NotController."""
        raise NotController(ONLY_CONTROLLERS)

    async def quorum(self, asked_ms: int) -> MetadataQuorum:
        """Raises StoreError: a controller answers DescribeQuorum."""
        raise NotController("only the controllers know their quorum")

    # -- this broker's registration

    @property
    def life(self) -> BrokerLife:
        """This broker's registration, once `register` was called."""
        assert self._life is not None, "register() comes first"
        return self._life

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 before it."""
        return NO_EPOCH if self._life is None else self._life.epoch

    async def register(self, broker: BrokerImage) -> ClusterImage:
        """Register this broker, fenced; return the first image that has the registration.

        `broker` has the ids of its log directories.  Waits until the controllers have given up an
        earlier process of this broker.  Raises StoreError if they refuse it.
        """
        identity = BrokerIdentity(
            self.image.cluster_id,
            broker.id,
            random_uuid(os.urandom),
            broker.endpoints,
            broker.directories,
            broker.rack,
        )
        self._life = BrokerLife(
            Lifecycle(identity, self._limits, self._previous_epoch),
            self.channel("heartbeats"),
            lambda: self.image.version - 1,
        )
        self._ids = ProducerIdBlocks(self.channel("producer ids"), self._life)
        self._link.watch(self._woken)
        self._nursery.start_soon(self._end_by, self._life.run)
        await self._life.wait_caught_up()
        return self.image

    def _woken(self, *_: object) -> None:
        """A new image may have what the registration waits for."""
        self.life.wake()

    async def allocate_producer_ids(self, count: int) -> range:
        """Return a block of ids; the controllers choose how many.  Raises StoreError."""
        if self._ids is None:
            raise StoreError("this broker is not registered yet")
        return await self._ids.allocate()

    # -- for other requests

    def channel(self, work: str) -> ControllerChannel:
        """Return a channel to the leading controller, with connections of its own for this work."""
        return self._link.channel(str(self._link.node_id), _CALL_MS, work)

    def close(self) -> None:
        self._link.close()
