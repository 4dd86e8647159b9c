"""Requests and records that the cases of several API keys share."""

from __future__ import annotations

from typing import Any

from kwire.codecs.batches import Compression, Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_groups import DescribeGroupsRequest
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.codecs.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.codecs.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.codecs.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.codecs.primitives import ZERO_UUID, Records
from kwire.conformance.wire.broker import CaseTopic, NotReady
from kwire.conformance.wire.stage import Stage

UNKNOWN_ID = bytes.fromhex("00112233445566778899aabbccddeeff")
BIG = 1 << 20
TIMEOUT_MS = 5_000

ANY, TOPIC, LITERAL, READ, ALLOW = 1, 2, 3, 3, 3
"""Codes in requests about ACLs: any value, a resource type, a pattern type, an operation and a
permission."""


def batch(stage: Stage, *values: bytes | None, **options: Any) -> bytearray:  # noqa: ANN401 - build's
    """Build records a millisecond apart, from a second before the run; `keyed` gives them keys."""
    keyed = options.pop("keyed", False)
    first_ms = options.pop("first_ms", stage.now_ms - 1000)
    records = [
        Record(i, first_ms + i, b"key-%d" % i if keyed else None, value)
        for i, value in enumerate(values)
    ]
    return build(records, **options)


def produce(
    topic: CaseTopic, records: Records | None, *, partition: int = 0, acks: int = 1, **options: str
) -> ProduceRequest:
    """Return a Produce request of one batch, or any bytes; its topic has both name and id."""
    data = [PartitionProduceData(partition, records)]
    return ProduceRequest(
        acks=acks,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(topic.name, topic.id, data)],
        **options,
    )


def fetch(
    topic: CaseTopic,
    offset: int = 0,
    *,
    partition: int = 0,
    max_bytes: int = BIG,
    partition_max_bytes: int = BIG,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    **of_request: Any,  # noqa: ANN401 - any fields
) -> FetchRequest:
    """Return a Fetch request of one partition from `offset` on."""
    place = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic.name, topic.id, [place])],
        **of_request,
    )


def fill(stage: Stage, topic: CaseTopic, *batches: Records, partition: int = 0) -> None:
    """Append one batch after another; raise NotReady if the broker refuses one."""
    for records in batches:
        reply = stage.ask(produce(topic, records, partition=partition))
        code = reply.responses[0].partition_responses[0].error_code
        if code:
            raise NotReady(f"produce to {topic.name}: {ErrorCode(code).name}")


def filled_topic(stage: Stage) -> CaseTopic:
    """Return a shared topic: partition 0 has 2, 3 and 1 records in 3 batches, partition 1 none."""

    def add(topic: CaseTopic) -> None:
        """Append the 6 records of the shared topic; the last batch is compressed with gzip."""
        fill(
            stage,
            topic,
            batch(stage, b"a", b"b"),
            batch(stage, b"c" * 100, b"d" * 100, b"e", first_ms=stage.now_ms - 500),
            batch(stage, b"f", first_ms=stage.now_ms - 100, compression=Compression.GZIP),
        )

    return stage.shared_topic("filled", 2, add)


def append_time_topic(stage: Stage) -> CaseTopic:
    """Create a topic for this case whose timestamps are set by the broker."""
    return stage.topic(configs={"message.timestamp.type": "LogAppendTime"})


UNKNOWN_TOPIC_PARTITIONS = 1


def unknown_topic(stage: Stage) -> CaseTopic:
    """Return a topic that does not exist."""
    return CaseTopic(stage.name("no-such-topic"), UNKNOWN_ID, UNKNOWN_TOPIC_PARTITIONS)


def no_topic() -> CaseTopic:
    """Return a topic without name and id."""
    return CaseTopic("", ZERO_UUID, 1)


# -- groups


def join(
    group_id: str,
    member_id: str = "",
    *,
    protocols: tuple[tuple[str, bytes], ...] = (("range", b"x"),),
    protocol_type: str = "consumer",
    instance: str | None = None,
    session_ms: int = 30_000,
    rebalance_ms: int = 5_000,
) -> JoinGroupRequest:
    """Return a JoinGroup request; an empty member id means a new member."""
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name, data) for name, data in protocols],
    )


def sync(
    group_id: str,
    member_id: str,
    generation: int = 1,
    data: bytes = b"mine",
    **more: Any,  # noqa: ANN401 - any fields
) -> SyncGroupRequest:
    """Build the leader's SyncGroup request, which assigns everything to the leader."""
    assignments = [SyncGroupRequestAssignment(member_id, data)]
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=generation,
        member_id=member_id,
        assignments=assignments,
        **more,
    )


def join_first_member(stage: Stage, group_id: str, **options: Any) -> JoinGroupResponse:  # noqa: ANN401 - join's
    """Join the only member of a classic group, which then waits for the member's SyncGroup."""
    version = 4  # the last version without instance ids; it requires a member id
    if options.get("instance"):
        version = 5
    member_id = ""
    for _ in range(2):
        reply: JoinGroupResponse = stage.ask(join(group_id, member_id, **options), version)
        if reply.error_code == ErrorCode.NONE:
            return reply
        member_id = reply.member_id
    raise NotReady(f"join {group_id}: {ErrorCode(reply.error_code).name}")


def create_stable_group(stage: Stage, group_id: str, **options: Any) -> JoinGroupResponse:  # noqa: ANN401 - join's
    """Create a stable classic group with one member, and return the member."""
    member = join_first_member(stage, group_id, **options)
    reply = stage.ask(sync(group_id, member.member_id, member.generation_id), 3)
    if reply.error_code:
        raise NotReady(f"sync {group_id}: {ErrorCode(reply.error_code).name}")
    return member


def start_rebalance(stage: Stage, group_id: str, on: str) -> JoinGroupResponse:
    """Create a stable group whose member must rejoin, because a second one is joining.

    The second member's join is pending on connection `on`.  Returns the first member.
    """
    member = create_stable_group(stage, group_id)
    second: JoinGroupResponse = stage.ask(join(group_id), 4)
    stage.begin(join(group_id, second.member_id), 4, on=on)
    while stage.ask(DescribeGroupsRequest([group_id])).groups[0].group_state == "Stable":
        pass  # each iteration is one request to the broker
    return member


def create_empty_group(stage: Stage, group_id: str) -> JoinGroupResponse:
    """Create a classic group whose only member has left, and return that member."""
    member = create_stable_group(stage, group_id)
    leaving = [MemberIdentity(member.member_id)]
    stage.ask(LeaveGroupRequest(group_id=group_id, members=leaving))
    return member


def commit(
    group_id: str,
    topic: CaseTopic,
    offset: int = 5,
    *,
    partition: int = 0,
    metadata: str | None = "note",
    member_id: str = "",
    generation: int = -1,
    leader_epoch: int = -1,
    **more: Any,  # noqa: ANN401 - any fields
) -> OffsetCommitRequest:
    """Return an OffsetCommit of one partition; by default without a member."""
    place = OffsetCommitRequestPartition(partition, offset, leader_epoch, metadata)
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(topic.name, topic.id, [place])],
        **more,
    )
