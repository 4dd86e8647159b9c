"""The quorum of a cluster's metadata: its leader, and how far the brokers have followed it.

DescribeQuorum shows it.  A cluster without ZooKeeper stands for a quorum
with one voter, the controller.  The offset of the metadata is the number of commits so far, the
leader epoch is the controller epoch; both outlast restarts.  Each commit is durable when it gets
its offset, so that the high watermark is the end of the log.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """How far one broker has followed the metadata; times are in ms since the epoch.

    `fetched_ms` is when the broker last said how far it is, `caught_up_ms` when it last had
    everything that was committed; -1 for never.
    """

    broker_id: int
    end_offset: int
    fetched_ms: int
    caught_up_ms: int


@dataclass(frozen=True, slots=True)
class MetadataQuorum:
    """The leader of the metadata, and the brokers that follow it, at the time `asked_ms`.

    `leader_id` is NO_CONTROLLER while there is no controller.  The leader has everything that is
    committed, up to `end_offset`.
    """

    leader_id: int
    leader_epoch: int
    end_offset: int
    asked_ms: int
    observers: tuple[ReplicaProgress, ...] = ()
