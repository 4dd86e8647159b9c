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
"""At 1, clients can use share groups (KIP-932); at 2, they have dead-letter topics (KIP-1191)."""
STREAMS_VERSION: Final = "streams.version"
"""At 1, the coordinator assigns the tasks of streams applications (KIP-1071)."""
ELR_VERSION: Final = "eligible.leader.replicas.version"
"""At 1, the cluster has a `min.insync.replicas` for all brokers, which cannot be removed (KIP-966).

Eligible leader replicas themselves do not exist in kwire.
"""
KRAFT_VERSION: Final = "kraft.version"
"""At 1, the voters of the metadata quorum can be changed (KIP-853).

A new cluster is at 0, as one of Apache Kafka with `controller.quorum.voters`.  kwire accepts 1, as
tools ask for it with the levels of a release, but its quorum has one voter at both levels.
"""

EPOCH_PER_TRANSACTION: Final = 2
"""The level of `transaction.version` from which each transaction has its own producer epoch."""
SHARE_GROUPS: Final = 1
"""The level of `share.version` from which clients can use share groups."""
DEAD_LETTER_QUEUES: Final = 2
"""The level of `share.version` from which share groups have dead-letter topics."""
ELIGIBLE_LEADERS: Final = 23
"""The level of `metadata.version` (4.0-IV1) that eligible.leader.replicas.version needs."""
CORDONING: Final = 30
"""The level of `metadata.version` (4.3-IV0) from which log directories can be cordoned."""
CIDR_HOSTS: Final = 32
"""The level of `metadata.version` (4.4-IV1) from which the host of an ACL may be a CIDR range."""
CONTROLLER_UNREGISTRATION: Final = 33
"""The level of `metadata.version` (4.4-IV2) from which controllers can be unregistered."""
NEWEST_METADATA_VERSION: Final = 33
"""The newest level of `metadata.version` whose requests, settings and records kwire supports."""
NEWEST_METADATA_VERSION_NAME: Final = "4.4-IV2"

Levels = Mapping[str, tuple[int, int]]
"""The lowest and highest supported level of each feature."""

SUPPORTED: Levels = MappingProxyType(
    {
        # Data directories of 3.3-IV3 and later have a KRaft log, and can be taken over.
        METADATA_VERSION: (7, NEWEST_METADATA_VERSION),
        TRANSACTION_VERSION: (0, EPOCH_PER_TRANSACTION),
        GROUP_VERSION: (0, 1),
        SHARE_VERSION: (0, DEAD_LETTER_QUEUES),
        STREAMS_VERSION: (0, 1),
        ELR_VERSION: (0, 1),
        KRAFT_VERSION: (0, 1),
    }
)
"""The levels that this broker supports."""

NEWEST_LEVELS: Mapping[str, int] = MappingProxyType(
    {name: high for name, (_, high) in SUPPORTED.items() if name != KRAFT_VERSION}
)
"""The levels of a new cluster, which its first changes store.  They are Apache Kafka's."""

LEVELS_WITHOUT_ELR: Mapping[str, int] = MappingProxyType(
    {name: level for name, level in NEWEST_LEVELS.items() if name != ELR_VERSION}
)
"""The levels of a new cluster on ZooKeeper, and of metadata made from logs of one."""

UNNAMED_LEVELS: Mapping[str, int] = MappingProxyType(
    {
        METADATA_VERSION: 30,
        TRANSACTION_VERSION: EPOCH_PER_TRANSACTION,
        GROUP_VERSION: 1,
        SHARE_VERSION: SHARE_GROUPS,
        STREAMS_VERSION: 1,
    }
)
"""The levels of features that the metadata does not name: those of Apache Kafka 4.3.

Versions of kwire that stood for 4.3 stored only levels that an administrator had set.  Such a
cluster stays at these levels until an administrator raises them, as one of Apache Kafka does.
"""

NO_EPOCH: Final = -1
"""The epoch of features that are not known yet."""


def _nothing() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """The features of the cluster.

    The epoch grows with each change, so that clients know which features are the latest.  `asked`
    is what the first changes and UpdateFeatures have set.  `agreed` has the levels in force in a
    cluster whose members may support different levels; features that it does not name are off.  If
    all members are alike, it is None, and `asked` is in force.
    """

    asked: Mapping[str, int] = field(default_factory=_nothing)
    agreed: Mapping[str, int] | None = None
    epoch: int = 0

    @property
    def wanted(self) -> Mapping[str, int]:
        """The level of each feature that is in force if all members support it."""
        if self.agreed is not None and not self.agreed and not self.asked:
            return LEVELS_WITHOUT_ELR  # A new cluster: its members have not agreed on levels yet.
        return {**UNNAMED_LEVELS, **self.asked}

    @property
    def in_force(self) -> Mapping[str, int]:
        """The level of each feature that is not at 0."""
        if self.agreed is not None:
            return self.agreed
        return {name: level for name in SUPPORTED if (level := self.level(name))}

    def level(self, name: str) -> int:
        """The level at which a feature is in force; 0 if it is off.

        Each heartbeat of a consumer group asks for one, so no mapping of all levels is made.
        """
        if self.agreed is not None:
            return self.agreed.get(name, 0)
        if name not in SUPPORTED:
            return 0
        wanted = self.asked.get(name, UNNAMED_LEVELS.get(name, 0))
        return min(wanted, SUPPORTED[name][1])

    def with_level(self, name: str, level: int, epoch: int) -> FinalizedFeatures:
        """The features after an administrator sets a level that all members support."""
        agreed = None
        if self.agreed is not None:
            kept = {key: old for key, old in self.agreed.items() if key != name}
            agreed = {**kept, name: level} if level else kept
        return FinalizedFeatures({**self.wanted, name: level}, agreed, epoch)

    def with_agreed(self, levels: Mapping[str, int], epoch: int) -> FinalizedFeatures:
        """The features after members agree on these levels.

        The levels that the cluster wants are named from then on, so that they stay when members
        of a later version of kwire join.
        """
        return FinalizedFeatures(self.wanted, levels, epoch)
