"""Messages: versions, errors, frames, regions, tagged fields, and the registry."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace

import pytest

from kwire.codecs.api_keys import ApiKey, request_header_version, response_header_version
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import message_class, request_class, response_class
from kwire.codecs.messages.alter_partition import RequestTopicData, ResponseTopicData
from kwire.codecs.messages.api_versions import ApiVersionsRequest
from kwire.codecs.messages.coordinator.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from kwire.codecs.messages.coordinator.offset_commit import OffsetCommitKey
from kwire.codecs.messages.delete_groups import DeleteGroupsRequest
from kwire.codecs.messages.elect_leaders import ElectLeadersRequest
from kwire.codecs.messages.end_txn_marker import EndTxnMarker
from kwire.codecs.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from kwire.codecs.messages.join_group import JoinGroupResponse
from kwire.codecs.messages.list_groups import ListGroupsRequest
from kwire.codecs.messages.metadata import MetadataRequest
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codecs.messages.request_header import RequestHeader
from kwire.codecs.messages.response_header import ResponseHeader
from kwire.codecs.primitives import (
    RECORDS_COPY_MAX,
    ZERO_UUID,
    DecodeError,
    EncodeError,
    Frame,
    Message,
    put_varint,
    read_int8s,
    read_int64s,
    read_uuids,
)


def produce(records: bytes | memoryview | None) -> ProduceRequest:
    partition = PartitionProduceData(3, records)
    return ProduceRequest(None, -1, 1500, [TopicProduceData("t", partition_data=[partition])])


@dataclass
class FileRegion:
    content: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.content)

    def read(self) -> bytes:
        return self.content


# ---- decoding


def test_decoded_records_are_a_view_of_the_buffer() -> None:
    buffer = bytearray(produce(b"abc").encode(9))
    records = ProduceRequest.decode(buffer, 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    records[0] = ord("z")
    assert buffer.count(b"zbc") == 1


def test_bytes_after_the_message_are_ignored() -> None:
    message = produce(b"abc")
    assert ProduceRequest.decode(message.encode(9) + b"more", 9) == message


@pytest.mark.parametrize("version", [-1, 2, 14, 99])
def test_unknown_version_is_refused(version: int) -> None:
    with pytest.raises(DecodeError, match=f"ProduceRequest has no version {version}"):
        ProduceRequest.decode(b"\0" * 50, version)
    with pytest.raises(EncodeError, match=f"ProduceRequest has no version {version}"):
        produce(None).encode(version)


def test_decode_error_names_message_version_and_field() -> None:
    data = produce(b"abc").encode(9)
    with pytest.raises(
        DecodeError, match=r"ProduceRequest version 9: TopicProduceData\.name has 99 bytes, 13 a"
    ):
        ProduceRequest.decode(data.replace(b"\x02t", b"\x64t"), 9)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xed\xa0\x80", "\ufffd"),  # an encoded surrogate: Java takes it for one mistake
        (b"\xed\xbfx", "\ufffdx"),
        (b"\xe2\x82x", "\ufffdx"),
        (b"\xc0\x80\xff", "\ufffd\ufffd\ufffd"),
        ("é漢😀\0".encode(), "é漢😀\0"),
    ],
)
def test_malformed_utf8_becomes_the_replacement_character(data: bytes, text: str) -> None:
    body = len(data).to_bytes(2, "big") + data
    assert OffsetCommitKey.decode(body + b"\0\0" + bytes(4), 0).group == text
    assert ListGroupsRequest.decode(bytes([2, len(data) + 1]) + data + b"\0", 4) == (
        ListGroupsRequest([text])
    )


def test_unknown_tags_are_skipped_and_known_ones_may_repeat() -> None:
    plain = FetchRequest(max_wait_ms=5).encode(15)
    tags = b"\x04" + b"\x63\x02xx" + b"\x00\x02\x02a" + b"\x00\x02\x02b" + b"\xe3\x07\x00"
    assert plain[-1] == 0
    decoded = FetchRequest.decode(plain[:-1] + tags, 15)
    assert decoded == FetchRequest(max_wait_ms=5, cluster_id="b")
    assert decoded.encode(15) == plain[:-1] + b"\x01\x00\x02\x02b"


@pytest.mark.parametrize(
    ("count", "fault"),
    [
        (b"\x02", "2 tagged fields in 1 bytes"),
        (b"\x80\x80\x80\x80\x08", "-2147483648 tagged fields in"),
        (b"\x91\x4e" + b"\x63\x00" * 10_001, "10001 tagged fields in 20002 bytes, 10000 are"),
    ],
)
@pytest.mark.parametrize(("message", "version"), [(FetchRequest(), 15), (ResponseHeader(), 1)])
def test_tagged_fields_that_are_too_many_are_refused(
    message: Message, version: int, count: bytes, fault: str
) -> None:
    plain = message.encode(version)
    data = plain[:-1] + count + (b"\0" if len(count) == 1 else b"")
    with pytest.raises(DecodeError, match=fault):
        type(message).decode(data, version)


def test_as_many_tagged_fields_as_are_allowed_are_skipped() -> None:
    plain = ResponseHeader(7).encode(1)
    tags = b"\x90\x4e" + b"\x63\x00" * 10_000
    assert ResponseHeader.decode(plain[:-1] + tags, 1) == ResponseHeader(7)


@pytest.mark.parametrize(
    ("message", "version", "element"),
    [
        (DeleteGroupsRequest, 1, b"\0\0"),
        (DeleteGroupsRequest, 2, b"\1"),
        (ElectLeadersRequest, 1, b"\0\0" + bytes(4)),
    ],
)
def test_array_of_more_than_a_million_elements_is_refused(
    message: type[Message], version: int, element: bytes
) -> None:
    """Strings with either length, and structs; the bytes are all there."""
    head = b"\1" if message is ElectLeadersRequest else b""
    count = 1_000_001
    size = bytearray()
    if version == 2:
        put_varint(size, count + 1)
    else:
        size += count.to_bytes(4, "big")
    with pytest.raises(DecodeError, match=r"1000001 of \w+, 1000000 are the most"):
        message.decode(head + size + element * count + bytes(5), version)


def test_array_of_more_than_a_million_numbers_is_refused() -> None:
    data = bytes(8 * 1_000_001)
    for read in (read_int8s, read_int64s, read_uuids):
        with pytest.raises(DecodeError, match=r"1000000 are the most|in 8000008 bytes"):
            read(data, 0, len(data), 1_000_001)
    assert len(read_int8s(data, 0, len(data), 1_000_000)[0]) == 1_000_000


def test_tag_of_a_later_version_is_refused() -> None:
    plain = FetchRequest().encode(14)
    tag = b"\x01" + b"\x01\x0d" + bytes(13)
    with pytest.raises(DecodeError, match="no tag 1 in this version"):
        FetchRequest.decode(plain[:-1] + tag, 14)


# ---- encoding


def test_set_field_that_the_version_lacks_is_refused() -> None:
    topics = [FetchTopic("t", ZERO_UUID, [FetchPartition(0, last_fetched_epoch=1)])]
    FetchRequest(topics=topics).encode(12)
    with pytest.raises(EncodeError, match=r"FetchPartition\.last_fetched_epoch is set"):
        FetchRequest(topics=topics).encode(11)
    # rackId is ignorable
    assert FetchRequest(rack_id="r").encode(10) == FetchRequest().encode(10)
    # a struct of defaults is not set
    assert FetchRequest(replica_state=ReplicaState()).encode(14) == FetchRequest().encode(14)
    with pytest.raises(EncodeError, match=r"FetchRequest\.replica_state is set"):
        FetchRequest(replica_state=ReplicaState(1)).encode(14)


def test_null_in_a_non_nullable_field_is_refused() -> None:
    JoinGroupResponse(protocol_name=None).encode(7)
    with pytest.raises(EncodeError, match=r"JoinGroupResponse\.protocol_name is None"):
        JoinGroupResponse(protocol_name=None).encode(6)
    MetadataRequest(None).encode(1)
    with pytest.raises(EncodeError):
        MetadataRequest(None).encode(0)
    for wrong in (
        FetchRequest(rack_id=None),  # type: ignore[arg-type]  # what a caller may do wrong
        FetchRequest(topics=None),  # type: ignore[arg-type]  # the same
        FetchRequest(max_wait_ms=None),  # type: ignore[arg-type]  # the same
    ):
        with pytest.raises(EncodeError):
            wrong.encode(12)


@pytest.mark.parametrize("version", [3, 4])
def test_value_out_of_range_is_refused(version: int) -> None:
    longest = "x" * 0x7FFF
    assert ApiVersionsRequest.decode(
        ApiVersionsRequest(longest, longest).encode(version), version
    ) == ApiVersionsRequest(longest, longest)
    for wrong in ("x" * 0x8000, "\ud800"):
        with pytest.raises(EncodeError):
            ApiVersionsRequest(wrong).encode(version)
    with pytest.raises(EncodeError):
        OffsetCommitKey("x" * 0x8000).encode(0)
    with pytest.raises(EncodeError):
        FetchRequest(max_wait_ms=1 << 31).encode(version + 9)


def test_failed_write_leaves_the_frame_unchanged() -> None:
    out = Frame()
    produce(bytes(RECORDS_COPY_MAX + 1)).write(out, 9)
    before, regions = bytes(out), list(out.regions)
    broken = produce(bytes(RECORDS_COPY_MAX + 1))
    broken.topic_data.append(TopicProduceData("\ud800"))
    with pytest.raises(EncodeError):
        broken.write(out, 9)
    assert (bytes(out), out.regions) == (before, regions)


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("size", [0, 1, RECORDS_COPY_MAX, RECORDS_COPY_MAX + 1, 20_000])
def test_large_records_and_files_are_regions(version: int, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    encoded = produce(content).encode(version)
    is_large = size > RECORDS_COPY_MAX
    for records in (content, memoryview(bytearray(content)), FileRegion(content)):
        out = Frame()
        out += b"head"
        produce(None).write(out, version)
        message = produce(content)
        message.topic_data[0].partition_data *= 2
        message.topic_data[0].partition_data[1] = PartitionProduceData(4, records)
        message.write(out, version)
        is_region = is_large or (size > 0 and isinstance(records, FileRegion))
        assert len(out.regions) == is_large + is_region
        assert out.wire_size == len(out.tobytes())
        again = ProduceRequest.decode(
            out.tobytes(), version, 4 + len(produce(None).encode(version))
        )
        assert [each.records for each in again.topic_data[0].partition_data] == [content, content]
    assert ProduceRequest.decode(encoded, version) == produce(content)


def test_tagged_structs_are_sent_unless_they_are_at_their_defaults() -> None:
    def response(leader: LeaderIdAndEpoch | None) -> FetchResponse:
        partition = PartitionData(1, current_leader=leader, records=b"")
        return FetchResponse(responses=[FetchableTopicResponse("t", partitions=[partition])])

    plain = response(None).encode(12)
    assert response(LeaderIdAndEpoch()).encode(12) == plain
    sent = response(LeaderIdAndEpoch(2, 7))
    assert len(sent.encode(12)) == len(plain) + 2 + 9
    assert FetchResponse.decode(sent.encode(12), 12) == sent


def test_nullable_tagged_struct_may_be_null_or_default() -> None:
    value = ConsumerGroupMemberMetadataValue()
    assert value.classic_member_metadata == ClassicMemberMetadata()
    assert value.encode(0)[-1:] == b"\0"
    null = replace(value, classic_member_metadata=None)
    assert null.encode(0)[-4:] == b"\x01\x00\x01\x00"
    assert ConsumerGroupMemberMetadataValue.decode(null.encode(0), 0) == null


# ---- headers, registry, names


def test_client_id_in_a_header_is_not_compact() -> None:
    header = RequestHeader(18, 4, 7, "me")
    assert header.encode(1) == bytes.fromhex("0012 0004 00000007 0002") + b"me"
    assert header.encode(2) == header.encode(1) + b"\0"
    assert header.encode(0) == header.encode(1)[:8]
    assert RequestHeader.decode(header.encode(2), 2) == header
    assert ResponseHeader(7).encode(1) == ResponseHeader(7).encode(0) + b"\0"


def test_header_version_follows_api_key_and_version() -> None:
    assert [request_header_version(ApiKey.PRODUCE, version) for version in (8, 9)] == [1, 2]
    assert [response_header_version(ApiKey.PRODUCE, version) for version in (8, 9)] == [0, 1]
    assert request_header_version(ApiKey.API_VERSIONS, 3) == 2
    assert response_header_version(ApiKey.API_VERSIONS, 4) == 0
    controlled = [request_header_version(ApiKey.CONTROLLED_SHUTDOWN, version) for version in (0, 1)]
    assert controlled == [0, 1]
    assert request_header_version(ApiKey.SASL_HANDSHAKE, 1) == 1
    assert (request_header_version(999, 0), response_header_version(999, 0)) == (1, 0)


def test_every_api_key_has_a_request_and_a_response() -> None:
    for key in ApiKey:
        request, response = request_class(key), response_class(key)
        assert request.__name__.removesuffix("Request") == response.__name__.removesuffix(
            "Response"
        )
        assert request.API_KEY == response.API_KEY == key
        assert request.MIN_VERSION == response.MIN_VERSION
        assert request.MAX_VERSION == response.MAX_VERSION
        assert request.FLEXIBLE_SINCE == response.FLEXIBLE_SINCE
        for version in range(request.MIN_VERSION, request.MAX_VERSION + 1):
            flexible = request.FLEXIBLE_SINCE is not None and version >= request.FLEXIBLE_SINCE
            if (key, version) != (ApiKey.CONTROLLED_SHUTDOWN, 0):
                assert request_header_version(key, version) == (2 if flexible else 1)
    assert len(ApiKey) == 95
    with pytest.raises(KeyError):
        request_class(95)
    with pytest.raises(KeyError):
        message_class("NoSuchMessage")


def test_records_and_shared_struct_names_are_messages_too() -> None:
    assert OffsetCommitKey.API_KEY == 1  # the record type in front of the key
    assert EndTxnMarker.API_KEY is None
    assert {RequestTopicData.__name__, ResponseTopicData.__name__} == {
        "RequestTopicData",
        "ResponseTopicData",
    }


def test_messages_are_equal_by_fields_and_not_hashable() -> None:
    assert EndTxnMarker(3) == EndTxnMarker(3) != EndTxnMarker(4)
    assert EndTxnMarker(3) != ResponseHeader(3)
    assert repr(EndTxnMarker(3)) == "EndTxnMarker(coordinator_epoch=3)"
    with pytest.raises(TypeError):
        hash(EndTxnMarker(3))


def test_message_modules_are_imported_at_first_use() -> None:
    code = """
import sys
import kwire.codecs, kwire.codecs.api_keys, kwire.codecs.errors, kwire.codecs.messages
prefix = "kwire.codecs.messages."
assert not [name for name in sys.modules if name.startswith(prefix)]
kwire.codecs.messages.request_class(0)
assert [name for name in sys.modules if name.startswith(prefix)] == [prefix + "produce"]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_error_code_says_whether_it_is_retriable() -> None:
    assert ErrorCode(-1) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not ErrorCode.NONE.retriable
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert not ErrorCode.INVALID_TOPIC_EXCEPTION.retriable
