"""Bounds the number of records that a query reads by its topics' offsets, before Spark starts.

Only Spark knows which of the names in a statement are topics, and it runs in Java, whose options
depend on this number.  So every topic of the cluster whose name is in the statement counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kwire.pipeline.querying.query_settings import Query
from kwire.pipeline.source import Kafka

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.security import ClientSecurity

REQUEST_S = 1.0
"""How long the cluster may take for each response.  It takes some milliseconds; a query that waits
for more gains less than that by fitting options of Java."""
NAME = re.compile(r"\w+|`(?:[^`]|``)+`")
"""A name in SQL, or a word of it."""
COMPUTED = re.compile(r"\$\{|\bIDENTIFIER\s*\(", re.I)
"""What Spark replaces by a name that is not in the statement."""


def records_max(query: Query) -> int | None:
    """The most records that the query reads, or None if that is unknown.

    It is unknown for a query without an end, and if the cluster does not answer soon: the job
    itself reports what is wrong.
    """
    from kwire.client.cluster import Cluster
    from kwire.client.errors import ClientError

    if not query.once or COMPUTED.search(query.sql):
        return None
    try:
        with Cluster(
            query.kafka.bootstrap,
            client_id="kwire-pipeline",
            timeout_s=REQUEST_S,
            security=_security_of(query.kafka),
        ) as cluster:
            return records_read(query, _records_of_topics(cluster, query))
    except ClientError:
        return None


def records_read(query: Query, records: Mapping[str, int]) -> int | None:
    """The number of records that the query reads, if its topics have `records` from its start on.

    None if no topic is known, or for more than one micro-batch: each has work of its own, and reads
    the tables again.
    """
    streams = [count for topic, count in records.items() if not query.view_of(topic).table]
    batch = query.records_per_batch
    if not records or (batch is not None and max(streams, default=0) > batch):
        return None
    return sum(records.values())


def _security_of(kafka: Kafka) -> ClientSecurity | None:
    """The security of the cluster's clients, or None without any property.

    Raises Misuse for properties that kwire's client does not know; Spark's may.
    """
    if not kafka.properties:
        return None  # without the import of what a login needs
    from kwire.client.security import ClientSecurity

    return ClientSecurity(kafka.properties)


def names_in(sql: str) -> set[str]:
    """The names in a statement, without backquotes, and its other words."""
    return {found.strip("`").replace("``", "`") for found in NAME.findall(sql)}


def _records_of_topics(cluster: Cluster, query: Query) -> dict[str, int]:
    """The number of offsets that the query reads of each topic whose name is in its statement."""
    from kwire.client.cluster import TopicPartition
    from kwire.client.offsets import end_offsets, offsets_at, start_offsets

    cluster.refresh()
    topics = {name: cluster.topics[name] for name in names_in(query.sql) & set(cluster.topics)}
    places = [
        TopicPartition(name, partition.partition_index)
        for name, topic in topics.items()
        for partition in topic.partitions
    ]
    ends = end_offsets(cluster, places)
    starts = start_offsets(cluster, places)
    if query.checkpoint is None and isinstance(query.starting, int):
        streams = [place for place in places if not query.view_of(place.topic).table]
        starts |= offsets_at(cluster, streams, query.starting)
    records = dict.fromkeys(topics, 0)
    for place in places:
        records[place.topic] += max(0, ends[place] - starts[place])
    return records
