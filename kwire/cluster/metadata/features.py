"""The features of a cluster (KIP-584): the supported levels, and the levels in force.

A feature changes what clients do.  With `transaction.version` at 2, for instance, producers let the
broker add partitions to a transaction, and take a new epoch from each EndTxn (KIP-890).  So a level
may be in force only if all brokers support it.  Each broker's registration names the levels it
supports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

METADATA_VERSION: Final = "metadata.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
"""At 1, the coordinator assigns partitions (KIP-848)."""
SHARE_VERSION: Final = "share.version"
"""At 1, clients can use share groups (KIP-932)."""
STREAMS_VERSION: Final = "streams.version"
"""At 1, the coordinator assigns the tasks of streams applications (KIP-1071)."""
ELR_VERSION: Final = "eligible.leader.replicas.version"
"""Set in a new cluster (kwire.cluster.decisions.new_cluster), but never in force: see ABSENT."""
EPOCH_PER_TRANSACTION: Final = 2
"""The level of `transaction.version` from which each transaction has its own producer epoch."""

METADATA_VERSION_LEVEL: Final = 30
"""4.3-IV0: the release whose requests, settings and records this broker supports."""

Levels = Mapping[str, tuple[int, int]]
"""The lowest and highest supported level of each feature."""

SUPPORTED: Levels = MappingProxyType(
    {
        # Data directories of 3.3-IV3 and later have a KRaft log, and can be taken over.
        METADATA_VERSION: (7, METADATA_VERSION_LEVEL),
        TRANSACTION_VERSION: (0, EPOCH_PER_TRANSACTION),
        GROUP_VERSION: (0, 1),
        SHARE_VERSION: (0, 1),
        STREAMS_VERSION: (0, 1),
    }
)
"""The levels that this broker supports.

A feature is in force at its highest level unless an administrator has set another one.
"""

ABSENT = {
    ELR_VERSION: "there are no eligible leader replicas (KIP-966)",
    "kraft.version": "there is no quorum of controllers",
}
"""Apache Kafka's other features, and why they stay at level 0; Kafka does not report level 0."""

NO_EPOCH: Final = -1
"""The epoch of features that are not known yet."""


def _nothing() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """The features of the cluster.

    The epoch grows with each change, so that clients know which features are the latest.  `asked`
    is what an administrator has set by UpdateFeatures.  `agreed` has the levels in force in a
    cluster whose members may support different levels; features that it does not name are off.  If
    all members are alike, it is None, and `asked` is in force.
    """

    asked: Mapping[str, int] = field(default_factory=_nothing)
    agreed: Mapping[str, int] | None = None
    epoch: int = 0

    @property
    def in_force(self) -> Mapping[str, int]:
        """The level of each feature that is not at 0."""
        if self.agreed is not None:
            return self.agreed
        wanted = {name: self.asked.get(name, high) for name, (_, high) in SUPPORTED.items()}
        return {name: level for name, level in wanted.items() if level}

    def level(self, name: str) -> int:
        """The level at which a feature is in force; 0 if it is off."""
        return self.in_force.get(name, 0)

    def with_level(self, name: str, level: int, epoch: int) -> FinalizedFeatures:
        """The features after an administrator sets a level that all members support."""
        agreed = None
        if self.agreed is not None:
            kept = {key: old for key, old in self.agreed.items() if key != name}
            agreed = {**kept, name: level} if level else kept
        return FinalizedFeatures({**self.asked, name: level}, agreed, epoch)
