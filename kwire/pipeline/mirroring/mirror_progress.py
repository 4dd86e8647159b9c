"""What a mirror has done, and the state of its groups in both clusters."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class GroupState:
    """The state of a consumer group in both clusters.

    state        "same": its offsets are translated; "active": it has members in the target;
                 "ahead": its offsets in the target would move back; "waiting": it has read records
                 that are not mirrored yet.
    partitions   Number of its mirrored partitions.
    source_lag   Its lag in the source.
    target_lag   Its lag in the target, over the partitions with a committed offset there.
    """

    group: str
    state: str
    partitions: int
    source_lag: int
    target_lag: int


@dataclass
class Mirrored:
    """What one run of a mirror has done.

    records         Number of records written.
    skipped         Number of records left out because the target has them.
    size_bytes      Size of the written records in Arrow's format.
    transactions    Number of committed transactions.
    topics          Topics created in the target.
    partitions      Number of partitions added in the target.
    settings        Settings changed in the target.
    lag             Records in the source that were not mirrored at the last check.
    passed_over     Topics left out because their records come from the target.
    groups          The state of each group.
    """

    records: int = 0
    skipped: int = 0
    size_bytes: int = 0
    transactions: int = 0
    topics: list[str] = field(default_factory=list)
    partitions: int = 0
    settings: int = 0
    lag: int = 0
    passed_over: list[str] = field(default_factory=list)
    groups: list[GroupState] = field(default_factory=list)
