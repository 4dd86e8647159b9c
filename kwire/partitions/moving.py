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

log = logging.getLogger("kwire.partitions.moving")

INTERVAL_S = 0.1
"""How often it is looked whether somebody asked for a move."""


async def run(broker: Broker) -> None:
    """Serve all moves, a slice of each in turn."""
    moves, logs = broker.logs.moves, broker.logs.logs
    while True:
        await trio.sleep(INTERVAL_S)
        while keys := [key for key in moves.copies if key in logs]:
            for key in keys:
                if key in moves.copies and key in logs:  # still
                    await _turn(broker, moves, key)


async def _turn(broker: Broker, moves: Moves, key: TopicPartition) -> None:
    """Copy some, flush what is copied, or swap it; a move that fails is over."""
    try:
        if moves.copy_some(key):
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
