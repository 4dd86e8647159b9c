"""Which partitions a command is about: topics, some of their partitions, or all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster, TopicPartition

Choice = tuple[str, list[int] | None]
"""A topic, and its partitions if not all (`kwire.cli.values.topic_partitions`)."""

ALL_OR_SOME = "name topics, as orders or orders:0,2, or give --all"


def chosen_partitions(cluster: Cluster, choices: Iterable[Choice]) -> list[TopicPartition]:
    """The partitions that are meant.  Raises BrokerRefused, Misuse where there are none such."""
    from kwire.client.cluster import TopicPartition
    from kwire.client.errors import Misuse

    found = []
    for topic, listed in choices:
        there = {each.partition_index for each in cluster.topic(topic).partitions}
        missing = sorted(set(listed or ()) - there)
        if missing:
            raise Misuse(f"topic {topic} has no partition {missing[0]}: it has {len(there)}")
        found += [TopicPartition(topic, index) for index in (listed or sorted(there))]
    return found
