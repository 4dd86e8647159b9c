"""Moves partitions between log directories, in the background (AlterReplicaLogDirs, KIP-113).

`kwire.log.upkeep.moving` knows how; here each move gets its turns on the loop, and what
blocks a thread.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from kwire.log import LogError

if TYPE_CHECKING:
    from kwire.broker import Broker
    from kwire.log import Moves
    from kwire.log.directory.checkpoints import TopicPartition
    from kwire.partitions.replication_quota import ReplicationQuota

log = logging.getLogger("kwire.partitions.moving")

INTERVAL_S = 0.1
"""How often it is looked whether somebody asked for a move, and whether more may be copied."""
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


async def run(broker: Broker) -> None:
    """Serve all moves, a slice of each in turn."""
    moves, logs = broker.logs.moves, broker.logs.logs
    quota: ReplicationQuota | None = None
    while True:
        await trio.sleep(INTERVAL_S)
        while keys := [key for key in moves.copies if key in logs]:
            quota = quota or _quota(broker)
            quota.set_rate(RATE, broker.config.dynamic)
            if quota.is_exceeded(broker.now_ms()):
                break
            for key in keys:
                if key in moves.copies and key in logs:  # still
                    await _turn(broker, moves, key, quota)


def _quota(broker: Broker) -> ReplicationQuota:
    from kwire.partitions.replication_quota import ReplicationQuota

    config = broker.config
    return ReplicationQuota(
        config.alter_log_dirs_replication_quota_window_num,
        config.alter_log_dirs_replication_quota_window_size_seconds,
    )


async def _turn(broker: Broker, moves: Moves, key: TopicPartition, quota: ReplicationQuota) -> None:
    """Copy some, flush what is copied, or swap it; a move that fails is over."""
    try:
        if copied_bytes := moves.copy_some(key):
            quota.record(copied_bytes, broker.now_ms())
            await trio.lowlevel.checkpoint()
        elif (flush := moves.prepare_flush(key)) is not None:
            copy = moves.copies[key].log
            await trio.to_thread.run_sync(flush.run)
            copy.flushed(flush)
        else:
            _swap(broker, moves, key)
    except LogError as problem:
        log.error("%s-%d is not moved: %s", *key, problem)
        moves.cancel(key)


def _swap(broker: Broker, moves: Moves, key: TopicPartition) -> None:
    """The copy is served from here on; nothing may be appended in between."""
    moved = moves.swap(key)
    partition = broker.partition(*key)
    if partition is not None:
        partition.replace_log(moved)
