"""OffsetForLeaderEpoch (key 23): v2-4.

Behaviour
- For each partition the largest leader epoch that is not above the one asked for, and where it
  ended: the log end offset for the latest one.  A client that has read further than that has read
  what is no longer there (KIP-320).  -1 and -1 where the epoch is not known, which is no error.
- A leader epoch known as the current one that is not: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
- Partitions are answered in the order they are asked, as often as they are.

Version notes: the replica id of v3 (what a follower may see and a consumer may not) makes no
difference on a partition with one replica; flexible from v4.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.codecs.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kwire.log import LogError, end_offset_for_epoch
from kwire.requests.context import Context


def handle(
    broker: Broker, request: OffsetForLeaderEpochRequest, context: Context
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_answer(broker, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(broker: Broker, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = broker.hosted.led(topic, asked.partition)
        if asked.current_leader_epoch != -1:
            partition.check_leader_epoch(asked.current_leader_epoch)
    except LogError as error:
        return EpochEndOffset(error_code=error.error, partition=asked.partition)
    epoch, end_offset = end_offset_for_epoch(partition.log, asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
