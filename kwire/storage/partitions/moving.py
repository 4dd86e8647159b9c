"""The background task that moves partitions between log directories (AlterReplicaLogDirs, KIP-113).

`kwire.log.upkeep.moving` has the steps of a move.  This task runs them on the loop, a slice of each
move in turn, and runs fsync in a thread.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from kwire.log import LogError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.log import Moves
    from kwire.log.directory.checkpoints import TopicPartition
    from kwire.settings import BrokerConfig
    from kwire.settings.live import LiveSettings
    from kwire.storage.partitions.hosted import HostedPartitions
    from kwire.storage.partitions.replication_quota import ReplicationQuota

log = logging.getLogger("kwire.partitions.moving")

INTERVAL_S = 0.1
"""The time between two checks for new moves, and for room in the quota."""
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


async def run(settings: LiveSettings, hosted: HostedPartitions, now_ms: Callable[[], int]) -> None:
    """Carry out all moves, a slice of each in turn, until cancelled."""
    moves, logs = hosted.logs.moves, hosted.logs.logs
    quota: ReplicationQuota | None = None
    while True:
        await trio.sleep(INTERVAL_S)
        while keys := [key for key in moves.copies if key in logs]:
            quota = quota or _quota(settings.config)
            quota.set_rate(RATE, settings.config.dynamic)
            if quota.is_exceeded(now_ms()):
                break
            for key in keys:
                if key in moves.copies and key in logs:  # another slice may have ended the move
                    copied_bytes = await _run_slice(hosted, moves, key)
                    quota.record(copied_bytes, now_ms())


def _quota(config: BrokerConfig) -> ReplicationQuota:
    """Return an empty measure of the bytes that moves copy, over the configured windows."""
    from kwire.storage.partitions.replication_quota import ReplicationQuota

    return ReplicationQuota(
        config.alter_log_dirs_replication_quota_window_num,
        config.alter_log_dirs_replication_quota_window_size_seconds,
    )


async def _run_slice(hosted: HostedPartitions, moves: Moves, key: TopicPartition) -> int:
    """Copy a piece, flush the copy, or put the copy in the log's place; cancel a move that fails.

    Returns the number of bytes that were copied.
    """
    try:
        if copied_bytes := moves.copy_some(key):
            await trio.lowlevel.checkpoint()
            return copied_bytes
        if (flush := moves.prepare_flush(key)) is not None:
            copy = moves.copies[key].log
            await trio.to_thread.run_sync(flush.run)
            copy.flushed(flush)
        else:
            _swap(hosted, moves, key)
    except LogError as error:
        log.error("Cannot move %s-%d: %s. The move is cancelled.", *key, error)
        moves.cancel(key)
    return 0


def _swap(hosted: HostedPartitions, moves: Moves, key: TopicPartition) -> None:
    """Serve the copy from now on.  No append may run in between, so nothing here waits."""
    moved = moves.swap(key)
    partition = hosted.get(*key)
    if partition is not None:
        partition.replace_log(moved)
        hosted.on_moved(partition)
