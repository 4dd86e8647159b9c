"""What the share coordinator is told of groups: which partitions they read, and which no longer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.share.batches import NO_OFFSET
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share_partitions.states import of_each
from kwire.groups.share.initializing import Topics

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.groups.share.decision import Initialization

log = logging.getLogger("kwire.sharing.telling")

FORGOTTEN = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""What is said of a partition of which nothing is kept from now on."""


async def initialize(broker: Broker, wanted: Initialization) -> None:
    """Have the share coordinator keep the state of partitions, and the group know of it."""
    await broker.shares.states.provide_topic()
    answers = await of_each(
        keys_of(wanted.group_id, wanted.topics),
        lambda key: broker.shares.states.begin(key, wanted.group_epoch, NO_OFFSET),
    )
    failed = {key: answer for key, answer in answers.items() if answer.error}
    for key, answer in failed.items():
        log.warning("state of %s cannot be initialized: %s", key, answer.error.name)
    reply = broker.coordinators.groups.share_initialized(
        wanted.group_id, wanted.topics, well=not failed
    )
    if reply is not None:
        await reply.wait()


async def forget(broker: Broker, group_id: str, topics: Topics) -> ErrorCode:
    """Have the share coordinator forget what it keeps for a group that is to be deleted."""
    answers = await of_each(keys_of(group_id, topics), broker.shares.states.forget)
    errors = (answer.error for answer in answers.values())
    return next((error for error in errors if error not in FORGOTTEN), ErrorCode.NONE)


def keys_of(group_id: str, topics: Topics) -> list[ShareKey]:
    return [
        ShareKey(group_id, topic_id, partition)
        for topic_id, partitions in topics.partitions.items()
        for partition in sorted(partitions)
    ]
