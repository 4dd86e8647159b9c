"""From where share groups read, as it is told to administrators, altered and deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kwire.cluster.metadata.topic_names import SHARE_GROUP_STATE_TOPIC
from kwire.codecs.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from kwire.codecs.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from kwire.coordinators.runtime import share_groups
from kwire.coordinators.runtime.promise import answered
from kwire.coordinators.share.machine import NOTHING, Answer
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share_partitions.states import of_each
from kwire.groups.share.offsets import Wanted
from kwire.requests.handlers.share_groups.telling import keys_of

if TYPE_CHECKING:
    from kwire.broker.broker import Broker


async def alter(broker: Broker, group_id: str, wanted: Wanted) -> AlterShareGroupOffsetsResponse:
    """Have the share coordinator begin anew there, and the group know of it."""
    decided = await answered(share_groups.alter(broker.coordinators.groups, group_id, wanted))
    if not decided.offsets:
        return decided.response
    await broker.shares.states.provide_topic()
    answers = await of_each(
        keys_of(group_id, decided.topics),
        lambda key: broker.shares.states.begin(
            key, decided.group_epoch, decided.offsets[key.topic_id, key.partition]
        ),
    )
    _tell_partitions(decided.response, answers)
    failed = any(answer.error for answer in answers.values())
    noted = broker.coordinators.groups.share_initialized(group_id, decided.topics, well=not failed)
    if noted is not None:
        await noted.wait()
    return decided.response


def _tell_partitions(
    response: AlterShareGroupOffsetsResponse, answers: dict[ShareKey, Answer]
) -> None:
    by_place = {(key.topic_id, key.partition): answer for key, answer in answers.items()}
    for topic in response.responses:
        for told in topic.partitions:
            answer = by_place.get((topic.topic_id, told.partition_index))
            if answer is not None and answer.error:
                told.error_code, told.error_message = answer.error, answer.message


async def delete(
    broker: Broker, group_id: str, names: Iterable[str]
) -> DeleteShareGroupOffsetsResponse:
    """Have the share coordinator forget topics of a group, and the group forget them too."""
    decided = await answered(share_groups.delete(broker.coordinators.groups, group_id, list(names)))
    if not decided.topics.partitions:
        return decided.response
    answers = await of_each(keys_of(group_id, decided.topics), broker.shares.states.forget)
    failed = {key.topic_id: answer for key, answer in answers.items() if answer.error}
    for told in decided.response.responses:
        if told.topic_id in failed:
            answer = failed[told.topic_id]
            told.error_code, told.error_message = answer.error, answer.message
    noted = share_groups.deleted(
        broker.coordinators.groups, group_id, decided.topics.without(failed)
    )
    if noted is not None:
        await noted.wait()
    return decided.response


async def known_places(broker: Broker, group_id: str) -> share_groups.Known:
    """All partitions whose offsets are kept for a group."""
    return await answered(share_groups.known(broker.coordinators.groups, group_id))


async def summaries(
    broker: Broker, group_id: str, topics: Iterable[tuple[bytes, Iterable[int]]]
) -> dict[ShareKey, Answer]:
    """What is kept of partitions, without their records."""
    keys = [
        ShareKey(group_id, topic_id, index)
        for topic_id, indexes in topics
        for index in sorted(set(indexes))
    ]
    if SHARE_GROUP_STATE_TOPIC not in broker.image.topics:
        return dict.fromkeys(keys, Answer(state=NOTHING))
    return await of_each(keys, broker.shares.states.summary)
