"""What a broker hands out, in place of what another one had handed out."""

from __future__ import annotations

from kwire.codecs.batches import Record, build, check_crc, iter_batches
from kwire.codecs.messages.end_txn import EndTxnRequest
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdResponse
from kwire.codecs.messages.join_group import JoinGroupResponse
from kwire.codecs.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.testing.replaying.ids import Ids


def metadata(*topics: tuple[str, int, int]) -> MetadataResponse:
    """Of topics by name, id and leader epoch."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                name=name,
                topic_id=number.to_bytes(16),
                partitions=[MetadataResponsePartition(partition_index=0, leader_epoch=epoch)],
            )
            for name, number, epoch in topics
        ]
    )


def test_topic_ids_and_leader_epochs_are_replaced() -> None:
    ids = Ids()
    ids.learn(metadata(("a", 1, 7), ("b", 2, 8)), metadata(("b", 12, 0), ("a", 11, 1)))
    request = FetchRequest(
        topics=[
            FetchTopic(
                topic_id=number.to_bytes(16),
                partitions=[FetchPartition(current_leader_epoch=number + 6, fetch_offset=5)],
            )
            for number in (1, 2)
        ]
    )
    assert ids.put_into(request)
    assert [topic.topic_id for topic in request.topics] == [(11).to_bytes(16), (12).to_bytes(16)]
    parts = [topic.partitions[0] for topic in request.topics]
    assert [(part.current_leader_epoch, part.fetch_offset) for part in parts] == [(1, 5), (0, 5)]


def test_member_ids_and_generations_are_replaced() -> None:
    ids = Ids()
    then = JoinGroupResponse(member_id="old", generation_id=4)
    ids.learn(then, JoinGroupResponse(member_id="new", generation_id=1))
    request = HeartbeatRequest(group_id="g", member_id="old", generation_id=4)
    assert ids.put_into(request)
    assert (request.member_id, request.generation_id) == ("new", 1)
    stranger = HeartbeatRequest(group_id="g", member_id="other", generation_id=4)
    assert not ids.put_into(stranger)
    assert stranger.generation_id == 4


def test_producer_ids_are_replaced_in_batches() -> None:
    ids = Ids()
    then = InitProducerIdResponse(producer_id=1000, producer_epoch=3)
    ids.learn(then, InitProducerIdResponse(producer_id=5, producer_epoch=0))
    ended = EndTxnRequest(producer_id=1000, producer_epoch=3)
    assert ids.put_into(ended)
    assert (ended.producer_id, ended.producer_epoch) == (5, 0)
    own = bytes(build([Record(0, 9, b"k", b"v")], producer_id=1000, producer_epoch=3))
    other = bytes(build([Record(0, 9, b"k", b"w")], producer_id=77, producer_epoch=3))
    part = PartitionProduceData(0, own + other)
    request = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[part])])
    assert ids.put_into(request)
    data = part.records
    assert isinstance(data, bytes)
    headers = list(iter_batches(data))
    assert [(h.producer_id, h.producer_epoch) for _, h in headers] == [(5, 0), (77, 3)]
    for position, header in headers:
        check_crc(data, position, header)
    assert data[headers[1][0] :] == other


def test_batch_with_a_wrong_checksum_is_unchanged() -> None:
    ids = Ids()
    ids.learn(InitProducerIdResponse(producer_id=1000), InitProducerIdResponse(producer_id=5))
    spoiled = bytearray(build([Record(0, 9, b"k", b"v")], producer_id=1000))
    spoiled[-1] ^= 1
    part = PartitionProduceData(0, bytes(spoiled))
    assert not ids.put_into(part)
    assert part.records == spoiled


def test_unassigned_ids_are_not_replaced() -> None:
    ids = Ids()
    ids.learn(FetchResponse(session_id=0), FetchResponse(session_id=9))
    ids.learn(JoinGroupResponse(generation_id=-1), JoinGroupResponse(generation_id=2))
    assert not ids.put_into(FetchRequest(session_id=0))
    assert not ids.put_into(HeartbeatRequest(generation_id=-1))
