"""The partitions that a command's arguments name: topics, or some of their partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster, TopicPartition

Choice = tuple[str, list[int] | None]
"""(topic, partitions or None for all), from `kwire.cli.values.topic_partitions`."""

ALL_OR_SOME = "name topics, as orders or orders:0,2, or give --all"


def chosen_partitions(cluster: Cluster, choices: Iterable[Choice]) -> list[TopicPartition]:
    """The chosen partitions.  Raises BrokerRefused or Misuse if a topic or partition is unknown."""
    from kwire.client.cluster import TopicPartition
    from kwire.client.errors import Misuse

    chosen = []
    for topic, listed in choices:
        existing = {partition.partition_index for partition in cluster.topic(topic).partitions}
        missing = sorted(set(listed or ()) - existing)
        if missing:
            raise Misuse(f"topic {topic} has no partition {missing[0]}: it has {len(existing)}")
        chosen += [TopicPartition(topic, index) for index in (listed or sorted(existing))]
    return chosen
