"""The records of `__consumer_offsets`: bytes of Apache Kafka 4.3.1, decoded and encoded again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.codecs.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.codecs.messages.coordinator.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from kwire.codecs.messages.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from kwire.codecs.primitives import EncodeError
from kwire.groups.classic.group import ClassicGroup
from kwire.groups.classic.records import GroupMetadata, group_tombstone
from kwire.groups.classic.state import ClassicState
from kwire.groups.offset_record import (
    CommittedOffset,
    OffsetCommit,
    OffsetKey,
    offset_tombstone,
)
from kwire.groups.record_format import UnreadableRecord
from kwire.groups.records import decode

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
OFFSET_KEY = b"\0\x01\0\x0bkd-fa9fa9fd\0\x04kd-t\0\0\0\x01"
WITH_EXPIRY = (
    b"\0\x01\0\0\0\0\0\0\0\x05\0\x04soon\0\0\x01\xa1\xfdri/\0\0\x01\xa1\xfdrm\x17",
    CommittedOffset(
        offset=5,
        metadata="soon",
        commit_timestamp_ms=0x1A1FD72692F,
        expire_timestamp_ms=0x1A1FD726D17,
    ),
)
WITH_TOPIC_ID = (
    b"\0\x04\0\0\0\0\0\0\0\x07\xff\xff\xff\xff\x03mm\0\0\x01\xa1\xfds\xdb\x93"
    b"\x01\0\x10\xcb3\xb2\xb0ImH\x8e\x95zY\xc6\xc3\x18\xa1\xfc",
    CommittedOffset(
        offset=7,
        metadata="mm",
        commit_timestamp_ms=0x1A1FD73DB93,
        topic_id=b"\xcb3\xb2\xb0ImH\x8e\x95zY\xc6\xc3\x18\xa1\xfc",
    ),
)
GROUP_KEY = b"\0\x02\0\x0bkd-1842f973"
GROUP_VALUE = (
    b"\0\x03\0\x08consumer\0\0\0\x05\0\x05range\0'i1-1dbddccc-25a3-418e-9dd7-28f6bfa9ac86"
    b"\0\0\x01\xa1\xfdr{\xef\0\0\0\x02"
    b"\0'i1-1dbddccc-25a3-418e-9dd7-28f6bfa9ac86\0\x02i1\0\x01a\0\n/127.0.0.1"
    b"\0\0\xea`\0\0u0\0\0\0\x01x\0\0\0\x011"
    b"\0'i3-2716f92f-01b8-46a2-b17f-1edf7145c46a\0\x02i3\0\x01c\0\n/127.0.0.1"
    b"\0\0\xea`\0\0u0\0\0\0\x01x\0\0\0\x013"
)


@pytest.mark.parametrize(("data", "value"), [WITH_EXPIRY, WITH_TOPIC_ID])
def test_offset_commit_record_round_trips(data: bytes, value: CommittedOffset) -> None:
    record = decode(OFFSET_KEY, data)
    assert isinstance(record, OffsetCommit)
    assert record.key == OffsetKey("kd-fa9fa9fd", "kd-t", 1)
    assert record.value == value
    assert record.encode() == (OFFSET_KEY, data)


@given(
    key=st.builds(OffsetKey, st.text(max_size=40), st.text(max_size=40), INT32),
    committed=st.builds(
        CommittedOffset,
        INT64,
        INT32,
        st.just("") | st.text(max_size=40),
        INT64,
        st.just(-1) | st.integers(0, 2**63 - 1),
        st.just(bytes(16)) | st.binary(min_size=16, max_size=16),
    ),
)
def test_encoded_offset_commit_equals_the_generated_messages(
    key: OffsetKey, committed: CommittedOffset
) -> None:
    version = 4 if committed.expire_timestamp_ms == -1 else 1
    written_key, written_value = OffsetCommit(key, committed).encode()
    assert written_key == b"\0\x01" + OffsetCommitKey(*key).encode(0)
    expected = OffsetCommitValue(*committed).encode(version)
    assert written_value == bytes([0, version]) + expected


def test_group_id_that_the_key_cannot_hold_is_refused() -> None:
    """The key has the lengths of its strings in 16 bits; requests may have longer ones."""
    with pytest.raises(EncodeError):
        offset_tombstone("g" * 0x8000, "t", 0).encode()


def test_group_metadata_record_round_trips() -> None:
    record = decode(GROUP_KEY, GROUP_VALUE)
    assert isinstance(record, GroupMetadata)
    assert record.encode() == (GROUP_KEY, GROUP_VALUE)
    assert record.value is not None
    group = ClassicGroup.from_record("kd-1842f973", record.value)
    assert group.state is ClassicState.STABLE
    assert list(group.static_members) == ["i1", "i3"]
    assignments = {member_id: m.assignment for member_id, m in group.members.items()}
    assert group.to_record(assignments).encode() == (GROUP_KEY, GROUP_VALUE)


@pytest.mark.parametrize(("written_ms", "read_ms"), [(-1, 7_000), (0, 0), (1, 1), (9_000, 9_000)])
def test_group_without_rebalance_timeout_uses_the_session_timeout(
    written_ms: int, read_ms: int
) -> None:
    """Clients could not say one before JoinGroup v1: the session's was it."""
    member = MemberMetadata("m", rebalance_timeout=written_ms, session_timeout=7_000)
    value = GroupMetadataValue(protocol_type="consumer", protocol="range", members=[member])
    assert ClassicGroup.from_record("g", value).rebalance_timeout_ms == read_ms


def test_subscribed_topics_are_restored_from_the_record() -> None:
    subscription = b"\0\0" + ConsumerProtocolSubscription(topics=["t"]).encode(0)
    member = MemberMetadata("m", subscription=subscription)
    value = GroupMetadataValue(protocol_type="consumer", protocol="range", members=[member])
    group = ClassicGroup.from_record("g", value)
    assert [group.is_subscribed_to(topic) for topic in ("t", "u")] == [True, False]
    unread = replace(value, members=[MemberMetadata("m", subscription=b"x")])
    assert ClassicGroup.from_record("g", unread).is_subscribed_to("u"), "who can tell?"


@pytest.mark.parametrize(
    ("value", "since_ms"),
    [
        (GroupMetadataValue("consumer", current_state_timestamp=7), 7),
        (GroupMetadataValue("consumer", current_state_timestamp=0), 0),
        (GroupMetadataValue("consumer", current_state_timestamp=-1), 5),
        (GroupMetadataValue("", current_state_timestamp=7), 5),
        (GroupMetadataValue("consumer", 1, "range", "m", 7, [MemberMetadata("m")]), 5),
    ],
)
def test_retention_starts_at_the_commit_or_when_the_group_became_empty(
    value: GroupMetadataValue, since_ms: int
) -> None:
    """Which was committed at 5; brokers before 2.1 did not write when a group became empty."""
    assert ClassicGroup.from_record("g", value).retention_start_ms(5) == since_ms


def test_member_of_a_record_without_protocol_gets_an_empty_protocol_name() -> None:
    value = GroupMetadataValue(members=[MemberMetadata("m", subscription=b"s")])
    assert ClassicGroup.from_record("g", value).members["m"].protocols == (("", b"s"),)


def test_tombstones_have_no_value() -> None:
    assert offset_tombstone("kd-fa9fa9fd", "kd-t", 1).encode() == (OFFSET_KEY, None)
    assert group_tombstone("kd-1842f973").encode() == (GROUP_KEY, None)
    offset, group = decode(OFFSET_KEY, None), decode(GROUP_KEY, None)
    assert isinstance(offset, OffsetCommit)
    assert isinstance(group, GroupMetadata)
    assert (offset.value, group.value) == (None, None)


def test_legacy_offset_commit_of_brokers_before_0_9_is_read() -> None:
    record = decode(b"\0\0\0\x01g\0\x01t\0\0\0\x02", b"\0\0" + bytes(7) + b"\x09\0\x01m" + bytes(8))
    assert isinstance(record, OffsetCommit)
    assert record.key == OffsetKey("g", "t", 2)
    assert record.value is not None
    assert (record.value.offset, record.value.metadata) == (9, "m")


def test_record_types_of_newer_brokers_decode_to_none() -> None:
    assert decode(b"\0\x7f\0\x01g", b"\0\0\0\0\0\1") is None
    assert decode(b"\x7f\xff", None) is None


@given(key=st.none() | st.binary(max_size=40), value=st.none() | st.binary(max_size=60))
def test_any_bytes_decode_or_raise_unreadable_record(
    key: bytes | None, value: bytes | None
) -> None:
    try:
        record = decode(key, value)
    except UnreadableRecord:
        return
    assert record is None or isinstance(record.encode()[0], bytes)


@given(group_id=st.text(max_size=20), version=st.integers(0, 4), body=st.binary(max_size=80))
def test_any_group_value_encodes_and_decodes(group_id: str, version: int, body: bytes) -> None:
    try:
        key = b"\0\x02" + GroupMetadataKey(group_id).encode(0)
        record = decode(key, version.to_bytes(2) + body)
    except ValueError:
        return
    assert isinstance(record, GroupMetadata)
    assert isinstance(record.value, GroupMetadataValue)
