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


FEATURES = (Feature("transaction.version", 0, 2, TRANSACTION_VERSION),)
