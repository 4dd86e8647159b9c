"""The features that this broker knows and at which level each is in use (KIP-584).

A feature changes what clients do: `transaction.version` at 2 has producers leave it to the broker
to add partitions to a transaction and take a new epoch from each EndTxn (KIP-890).
"""

from __future__ import annotations

from typing import NamedTuple

TRANSACTION_VERSION = 2
"""The finalized level.  Older clients know nothing of it and are served all the same."""


class Feature(NamedTuple):
    """The levels a broker can work at, and the one that the cluster has agreed on."""

    name: str
    min_version: int
    max_version: int
    finalized_level: int


METADATA_VERSION = 30
"""4.3-IV0: the release whose requests, settings and records this broker speaks."""

FEATURES = (
    # From 3.3-IV3 on there is a KRaft log, so data directories that can be taken over.
    Feature("metadata.version", 7, METADATA_VERSION, METADATA_VERSION),
    Feature("transaction.version", 0, 2, TRANSACTION_VERSION),
)

ABSENT = {
    "eligible.leader.replicas.version": "there are no eligible leader replicas (KIP-966)",
    "group.version": "groups of KIP-848 are not served",
    "kraft.version": "there is no quorum of controllers",
    "share.version": "share groups are not served",
    "streams.version": "streams groups are not served",
}
"""Apache Kafka's other features and why they are not told of: Kafka leaves out what stays at 0."""
