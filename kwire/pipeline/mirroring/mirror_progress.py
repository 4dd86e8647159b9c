"""What a mirror has done, and how the groups on both sides stand."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class GroupState:
    """A group on both sides.

    state        "same" where its offsets are translated, "active" where the group reads on the
                 other side already, "ahead" where it would go back there, or "waiting" where it has
                 read records that are not mirrored yet.
    partitions   How many of its partitions are mirrored.
    source_lag   Records behind the end, in the source.
    target_lag   The same on the other side, of the partitions with an offset there.
    """

    group: str
    state: str
    partitions: int
    source_lag: int
    target_lag: int


@dataclass
class Mirrored:
    """What a run of a mirror has done.

    records         Written.
    skipped         There already, by the target's own account.
    size_bytes      Of what was written, as Arrow holds it.
    transactions    Committed.
    topics          Created on the other side.
    partitions      Added to topics there.
    settings        Changed there.
    lag             Records in the source that are not mirrored, when it was last looked at.
    passed_over     Topics left out, because they come from the target.
    groups          How groups stand.
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
