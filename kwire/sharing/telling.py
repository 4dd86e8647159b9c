"""What the share coordinator is told of groups: which partitions they read, and which no longer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import trio

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.share import Reply, answered
from kwire.groups.share.initializing import Topics
from kwire.metadata.topic_names import SHARE_GROUP_STATE_TOPIC
from kwire.share.batches import NO_OFFSET
from kwire.share.records import ShareKey

if TYPE_CHECKING:
    from kwire.broker import Broker
    from kwire.groups.share.decision import Initialization

log = logging.getLogger("kwire.sharing.telling")

TRIES, PAUSE_S = 20, 0.5
"""How long a coordinator is waited for that is being replayed: ten seconds."""


async def initialize(broker: Broker, wanted: Initialization) -> None:
    """Have the share coordinator keep the state of partitions, and the group know of it."""
    if SHARE_GROUP_STATE_TOPIC not in broker.image.topics:
        await broker.create_internal_topic(SHARE_GROUP_STATE_TOPIC)
    coordinator, epoch = broker.share_coordinator, wanted.group_epoch
    error = ErrorCode.NONE
    for key in _keys(wanted.group_id, wanted.topics):
        error = await _insist(partial(coordinator.initialize, key, epoch, NO_OFFSET))
        if error is not ErrorCode.NONE:
            log.warning("state of %s cannot be initialized: %s", key, error.name)
            break
    reply = broker.groups.share_initialized(
        wanted.group_id, wanted.topics, well=error is ErrorCode.NONE
    )
    if reply is not None:
        await reply.wait()


async def forget(broker: Broker, group_id: str, topics: Topics) -> ErrorCode:
    """Have the share coordinator forget what it keeps for a group that is to be deleted."""
    for key in _keys(group_id, topics):
        error = await _insist(partial(broker.share_coordinator.delete, key))
        if error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            return error
    return ErrorCode.NONE


def _keys(group_id: str, topics: Topics) -> Iterable[ShareKey]:
    for topic_id, partitions in topics.partitions.items():
        for partition in sorted(partitions):
            yield ShareKey(group_id, topic_id, partition)


async def _insist(ask: Callable[[], Reply]) -> ErrorCode:
    """Ask again while the coordinator is being replayed."""
    for _ in range(TRIES):
        answer = await answered(ask())
        if answer.error is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return answer.error
        await trio.sleep(PAUSE_S)
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
