"""Initialize and delete the state of share groups at the share coordinator."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.share.batches import NO_OFFSET
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share_partitions.states import of_each
from kwire.groups.share.initializing import StateTopicPartitions

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.groups.share.decision import ShareInitialization

log = logging.getLogger("kwire.share_groups")

FIRST_OFFSET = 0

FORGOTTEN = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Answers of the share coordinator after which it has no state of a partition."""


async def initialize(broker: Broker, initialization: ShareInitialization) -> None:
    """Create the state of partitions at the share coordinator, then record that in the group.

    The group reads a new partition of a topic from its first record, so that it misses nothing;
    where it begins to read a topic is up to `share.auto.offset.reset`.
    """
    await broker.shares.states.provide_topic()
    epoch, grown = initialization.group_epoch, initialization.grown
    answers = await of_each(
        keys_of(initialization.group_id, initialization.topics),
        lambda key: broker.shares.states.initialize(
            key, epoch, FIRST_OFFSET if key.topic_id in grown else NO_OFFSET
        ),
    )
    failed = {key: answer for key, answer in answers.items() if answer.error}
    for key, answer in failed.items():
        log.warning("Cannot initialize the share state of %s: %s", key, answer.error.name)
    reply = broker.coordinators.groups.share_initialized(
        initialization.group_id, initialization.topics, succeeded=not failed
    )
    if reply is not None:
        await reply.wait()


async def forget(broker: Broker, group_id: str, topics: StateTopicPartitions) -> ErrorCode:
    """Delete the share coordinator's state of a group that will be deleted; the first error."""
    answers = await of_each(keys_of(group_id, topics), broker.shares.states.delete)
    errors = (answer.error for answer in answers.values())
    return next((error for error in errors if error not in FORGOTTEN), ErrorCode.NONE)


def keys_of(group_id: str, topics: StateTopicPartitions) -> list[ShareKey]:
    """Return the keys under which the share coordinator stores the partitions' state."""
    return [
        ShareKey(group_id, topic_id, partition)
        for topic_id, partitions in topics.partitions.items()
        for partition in sorted(partitions)
    ]
