"""How many partitions `__consumer_offsets` has, by which groups find theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kwire.metadata.topic_names import GROUP_METADATA_TOPIC

if TYPE_CHECKING:
    from kwire.metadata.image import ClusterImage
    from kwire.settings import BrokerConfig

UNKNOWN: Final = 0


class OffsetsHost(Protocol):
    """See kwire.broker.Broker."""

    @property
    def image(self) -> ClusterImage: ...

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def replication(self) -> object | None: ...


def offsets_partitions(host: OffsetsHost) -> int:
    """UNKNOWN while a member of a cluster was not told of the topic.

    A member may lead some by then: LeaderAndIsr comes before UpdateMetadata, and whoever made the
    topic may go by another offsets.topic.num.partitions.  A broker alone makes it itself.
    """
    topic = host.image.topics.get(GROUP_METADATA_TOPIC)
    if topic is not None:
        return len(topic.partitions)
    return UNKNOWN if host.replication is not None else host.config.offsets_topic_num_partitions
