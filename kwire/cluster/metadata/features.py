"""The features of a cluster (KIP-584): which there are, and at which level each is in force.

A feature changes what clients do: `transaction.version` at 2 has producers leave it to the broker
to add partitions to a transaction and take a new epoch from each EndTxn (KIP-890).  So it may be in
force only where all brokers know it, and each of them says in its registration what it knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

METADATA_VERSION: Final = "metadata.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
"""At 1 the coordinator deals out partitions (KIP-848)."""
SHARE_VERSION: Final = "share.version"
"""At 1 there are share groups (KIP-932)."""
STREAMS_VERSION: Final = "streams.version"
"""At 1 the coordinator deals out the tasks of streams applications (KIP-1071)."""
ELR_VERSION: Final = "eligible.leader.replicas.version"
"""Asked for in a new cluster (kwire.cluster.decisions.new_cluster), and never in force: see
ABSENT."""
EPOCH_PER_TRANSACTION: Final = 2
"""The level of `transaction.version` since which each transaction has an epoch of its own."""

METADATA_VERSION_LEVEL: Final = 30
"""4.3-IV0: the release whose requests, settings and records this broker speaks."""

Levels = Mapping[str, tuple[int, int]]
"""By the name of a feature: the lowest and the highest level that a broker can work at."""

SUPPORTED: Levels = MappingProxyType(
    {
        # From 3.3-IV3 on there is a KRaft log, so data directories that can be taken over.
        METADATA_VERSION: (7, METADATA_VERSION_LEVEL),
        TRANSACTION_VERSION: (0, EPOCH_PER_TRANSACTION),
        GROUP_VERSION: (0, 1),
        SHARE_VERSION: (0, 1),
        STREAMS_VERSION: (0, 1),
    }
)
"""What this broker knows: a line for each feature, and all else follows from it.

Unless an administrator wants it otherwise, a feature is in force at its highest level.
"""

ABSENT = {
    ELR_VERSION: "there are no eligible leader replicas (KIP-966)",
    "kraft.version": "there is no quorum of controllers",
}
"""Apache Kafka's other features and why they are not told of: Kafka leaves out what stays at 0."""

NO_EPOCH: Final = -1
"""Of features of which nobody has said anything yet."""


def _nothing() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """What the cluster has agreed on.  The epoch grows with each change, so clients know the later.

    `asked` is what an administrator has set, by UpdateFeatures.  `agreed` are the levels in force
    where brokers of several kinds may be members: those it does not name are off.  It is None where
    all members are of one make, and then what is asked is in force.
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
        """At which a feature is in force; 0 where it is off."""
        return self.in_force.get(name, 0)

    def with_level(self, name: str, level: int, epoch: int) -> FinalizedFeatures:
        """As asked by an administrator, of levels that all members can work at."""
        agreed = None
        if self.agreed is not None:
            kept = {key: its for key, its in self.agreed.items() if key != name}
            agreed = {**kept, name: level} if level else kept
        return FinalizedFeatures({**self.asked, name: level}, agreed, epoch)
