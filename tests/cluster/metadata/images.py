"""Topics and images with which tests of the metadata begin."""

from __future__ import annotations

from kwire.cluster.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage

STATE = PartitionImage(1, 0, 0, (1,), (1,))
"""Led by broker 1, which is alone in sync; the state of a partition of a new topic."""


def topic(name: str, number: int, partitions: int = 1) -> TopicImage:
    """A topic whose id is `number`."""
    return TopicImage(name, number.to_bytes(16), (STATE,) * partitions)


def image(*topics: TopicImage) -> ClusterImage:
    """A cluster of broker 1."""
    return ClusterImage("c").with_broker(BrokerImage(1, ())).with_topics(topics)
