"""The start offsets of share groups: list, alter and delete them for administrators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kwire.cluster.metadata.topic_names import SHARE_GROUP_STATE_TOPIC
from kwire.codecs.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from kwire.codecs.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from kwire.coordinators.runtime import share_groups
from kwire.coordinators.runtime.promise import answered
from kwire.coordinators.share.machine import EMPTY_STATE, ShareStateAnswer
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share_partitions.states import of_each
from kwire.groups.share.offsets import RequestedOffsets
from kwire.requests.handlers.share_groups.group_state import keys_of

if TYPE_CHECKING:
    from kwire.broker.broker import Broker


async def alter(
    broker: Broker, group_id: str, wanted: RequestedOffsets
) -> AlterShareGroupOffsetsResponse:
    """Set start offsets at the share coordinator, then record them in the group."""
    decided = await answered(
        share_groups.alter_offsets(broker.coordinators.groups, group_id, wanted)
    )
    if not decided.offsets:
        return decided.response
    await broker.shares.states.provide_topic()
    answers = await of_each(
        keys_of(group_id, decided.topics),
        lambda key: broker.shares.states.initialize(
            key, decided.group_epoch, decided.offsets[key.topic_id, key.partition]
        ),
    )
    _add_errors(decided.response, answers)
    failed = any(answer.error for answer in answers.values())
    recorded = broker.coordinators.groups.share_initialized(
        group_id, decided.topics, succeeded=not failed
    )
    if recorded is not None:
        await recorded.wait()
    return decided.response


def _add_errors(
    response: AlterShareGroupOffsetsResponse, answers: dict[ShareKey, ShareStateAnswer]
) -> None:
    """Copy the errors of the share coordinator into the partitions of `response`."""
    by_place = {(key.topic_id, key.partition): answer for key, answer in answers.items()}
    for topic in response.responses:
        for partition in topic.partitions:
            answer = by_place.get((topic.topic_id, partition.partition_index))
            if answer is not None and answer.error:
                partition.error_code, partition.error_message = answer.error, answer.message


async def delete(
    broker: Broker, group_id: str, names: Iterable[str]
) -> DeleteShareGroupOffsetsResponse:
    """Delete the state of topics at the share coordinator, then their offsets in the group."""
    decided = await answered(
        share_groups.delete_offsets(broker.coordinators.groups, group_id, list(names))
    )
    if not decided.topics.partitions:
        return decided.response
    answers = await of_each(keys_of(group_id, decided.topics), broker.shares.states.delete)
    failed = {key.topic_id: answer for key, answer in answers.items() if answer.error}
    for topic in decided.response.responses:
        if topic.topic_id in failed:
            answer = failed[topic.topic_id]
            topic.error_code, topic.error_message = answer.error, answer.message
    recorded = share_groups.offsets_deleted(
        broker.coordinators.groups, group_id, decided.topics.without(failed)
    )
    if recorded is not None:
        await recorded.wait()
    return decided.response


async def known_places(broker: Broker, group_id: str) -> share_groups.KnownOffsets:
    """All partitions for which the group has offsets."""
    return await answered(share_groups.known_offsets(broker.coordinators.groups, group_id))


async def summaries(
    broker: Broker, group_id: str, topics: Iterable[tuple[bytes, Iterable[int]]]
) -> dict[ShareKey, ShareStateAnswer]:
    """The share coordinator's state of each partition, without its records."""
    keys = [
        ShareKey(group_id, topic_id, index)
        for topic_id, indexes in topics
        for index in sorted(set(indexes))
    ]
    if SHARE_GROUP_STATE_TOPIC not in broker.image.topics:
        return dict.fromkeys(keys, ShareStateAnswer(state=EMPTY_STATE))
    return await of_each(keys, broker.shares.states.summary)
