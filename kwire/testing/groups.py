"""The lag of a consumer group."""

from __future__ import annotations

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import BrokerRefused
from kwire.client.groups import fetch_offsets
from kwire.client.offsets import Isolation, end_offsets
from kwire.codecs.errors import ErrorCode


def lag_of(cluster: Cluster, group_id: str) -> dict[str, int]:
    """Records that the group has not committed, by topic.

    Only topics of which the group has committed an offset are included.  All records of a partition
    count if the group has no committed offset there.  Raises ClientError.
    """
    try:
        committed = fetch_offsets(cluster, group_id)
    except BrokerRefused as refusal:
        if refusal.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        committed = {}
    topics = sorted({partition.topic for partition in committed})
    partitions = [
        TopicPartition(topic, index)
        for topic in topics
        for index in range(len(cluster.topic(topic).partitions))
    ]
    lag = dict.fromkeys(topics, 0)
    for partition, end in end_offsets(cluster, partitions, Isolation.READ_COMMITTED).items():
        commit = committed.get(partition)
        lag[partition.topic] += max(0, end - (0 if commit is None else commit.offset))
    return lag
