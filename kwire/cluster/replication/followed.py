"""FollowedPartition: what a fetcher knows of one partition that it copies from a leader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.cluster.replication.following import FetchStep
from kwire.log import end_offset_for_epoch, epoch_for

if TYPE_CHECKING:
    from kwire.cluster.replication.fetch_session import Key
    from kwire.codecs.messages.fetch import FetchPartition
    from kwire.storage.partitions.partition import Partition

FIRST_PAUSE_MS: Final = 10
"""The first pause after the leader did not know yet that it leads; LeaderAndIsr reaches it within
some milliseconds."""


class FollowedPartition:
    """A partition that a fetcher copies from its leader, in one leader epoch."""

    __slots__ = (
        "delayed_until",
        "is_behind",
        "key",
        "lag",
        "last_request",
        "leader_epoch",
        "partition",
        "refusals",
        "step",
    )

    def __init__(self, partition: Partition) -> None:
        """Records the partition's present leader epoch."""
        self.partition = partition
        self.key: Key = (partition.topic, partition.topic_id, partition.index)
        self.leader_epoch = partition.leader_epoch
        self.step: FetchStep | None = None
        """What to do in the next round; None until the first round decides it."""
        self.delayed_until = 0.0
        """Time on trio's clock, in seconds, before which this partition is not fetched."""
        self.last_request: FetchPartition | None = None
        """What the last Fetch asked for this partition; None if the next one asks otherwise."""
        self.is_behind: bool | None = None
        """Whether the log ended before the high watermark at the last append; None before it."""
        self.refusals = 0
        """How often the leader has refused this partition because it did not know yet that it leads
        it in this epoch."""
        self.lag = 0
        """The records up to the leader's high watermark that are missing here, at the last
        response."""

    @property
    def log_end_offset(self) -> int:
        return self.partition.log.log_end_offset

    @property
    def log_start_offset(self) -> int:
        return self.partition.log.log_start_offset

    @property
    def latest_epoch(self) -> int:
        """The last leader epoch in the epoch cache; -1 if the cache is empty.

        An epoch that began without a record counts too: the leader must know it, or the log is
        truncated.
        """
        epoch = epoch_for(self.partition.log, self.partition.log.log_end_offset)
        return -1 if epoch is None else epoch

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return end_offset_for_epoch(self.partition.log, epoch)

    def __repr__(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    def pause_after_refusal_ms(self, backoff_ms: int) -> int:
        """Return the pause after one more refusal: it doubles, up to `backoff_ms`.

        The controller sends LeaderAndIsr to all replicas at the same time.  A follower that gets it
        some milliseconds before the leader would else fetch nothing for `replica.fetch.backoff.ms`,
        and producers with acks=all wait for it.
        """
        self.refusals += 1
        return min(FIRST_PAUSE_MS << min(self.refusals - 1, 16), backoff_ms)
