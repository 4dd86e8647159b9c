"""What share groups' records ask of the broker that they live on; kwire.broker.Broker is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kwire.coordinators.host import CoordinatorHost
from kwire.settings import BrokerConfig

if TYPE_CHECKING:
    from kwire.coordinators.share import ShareCoordinator
    from kwire.partitions.partition import Partition


class ShareHost(CoordinatorHost, Protocol):
    """See the module."""

    config: BrokerConfig
    """As it is now."""

    @property
    def share_coordinator(self) -> ShareCoordinator: ...

    def topic_name(self, topic_id: bytes) -> str | None: ...

    def partition(self, topic: str, index: int) -> Partition | None: ...

    async def create_internal_topic(self, name: str) -> None:
        """Make a coordinator's topic, if it is not there yet."""
