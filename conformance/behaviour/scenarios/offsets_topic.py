"""Scenarios of __consumer_offsets: what groups write to it, and that clients cannot."""

from __future__ import annotations

from kwire.codecs.batches import records
from kwire.codecs.messages.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue
from kwire.codecs.messages.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from kwire.codecs.messages.delete_groups import DeleteGroupsRequest
from kwire.codecs.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.conformance.behaviour.asking import LATEST, offset_of, read
from kwire.conformance.behaviour.scenario import Scenarios
from kwire.conformance.behaviour.stage import ScenarioStage
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases.build import (
    batch,
    commit,
    create_stable_group,
    produce,
)

scenario = Scenarios("offsets_topic")
OFFSETS_TOPIC = "__consumer_offsets"


def java_hash(text: str) -> int:
    """Java's String.hashCode, which determines a group's partition."""
    value = 0
    for unit in text.encode("utf-16-be").hex(" ", 2).split():
        value = (31 * value + int(unit, 16)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@scenario()
def written_to_the_offsets_topic(stage: ScenarioStage) -> None:
    """Keys and values of __consumer_offsets have the versions that tools read."""
    group = stage.name("g")
    topic = stage.topic()
    request = MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS_TOPIC)])
    metadata = stage.ask(request).topics[0]
    stage.note("partitions", [len(metadata.partitions), metadata.is_internal])
    offsets = CaseTopic(OFFSETS_TOPIC, metadata.topic_id, len(metadata.partitions))
    partition = (java_hash(group) & 0x7FFFFFFF) % offsets.partitions
    start = offset_of(stage, offsets, LATEST, partition)
    member = create_stable_group(stage, group)
    stage.send(commit(group, topic, 5, member_id=member.member_id, generation=1, leader_epoch=0))
    leaving = [MemberIdentity(member.member_id)]
    stage.send(LeaveGroupRequest(group_id=group, members=leaving))
    stage.send(DeleteGroupsRequest([group]))
    data = read(stage, offsets, start, partition)
    pos = 0
    while pos < len(data):
        size = 12 + int.from_bytes(data[pos + 8 : pos + 12])
        for record in records(data, pos):
            _note_record(stage, group, bytes(record.key or b""), record.value)
        pos += size


def _note_record(stage: ScenarioStage, group: str, key: bytes, value: bytes | None) -> None:
    """Note what a record of this group in the offsets topic says; others are skipped.

    A key of version 2 is about the group's members, another one about an offset. The time of a
    commit is noted as being within 10 minutes of the run's begin.
    """
    if group.encode() not in key:
        return  # a record of another group
    kind = int.from_bytes(key[:2])
    stage.note("key", key.replace(stage.prefix.encode(), b"~").hex())
    if value is None:
        stage.note("value", None)
        return
    version = int.from_bytes(value[:2])
    stage.note("value version", [kind, version])
    if kind == 2:
        assert GroupMetadataKey.decode(key, 0, 2).group == group
        state = GroupMetadataValue.decode(value, version, 2)
        stage.note("state", [state.protocol_type, state.generation, state.protocol])
        stage.note("has a leader", state.leader is not None)
        for member in state.members:
            stage.note("timeouts", [member.session_timeout, member.rebalance_timeout])
            stage.note("member", [member.client_id, member.client_host, member.group_instance_id])
            stage.note("bytes", [bytes(member.subscription).hex(), bytes(member.assignment).hex()])
    else:
        assert OffsetCommitKey.decode(key, 0, 2).group == group
        offset = OffsetCommitValue.decode(value, version, 2)
        stage.note("offset", [offset.offset, offset.leader_epoch, offset.metadata])
        stage.note("expires", offset.expire_timestamp)
        stage.note("committed lately", abs(offset.commit_timestamp - stage.now_ms) < 600_000)


@scenario()
def internal_topics_are_guarded(stage: ScenarioStage) -> None:
    """Clients may not write to __consumer_offsets."""
    metadata_request = MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS_TOPIC)])
    metadata = stage.ask(metadata_request).topics[0]
    stage.topics[metadata.topic_id] = OFFSETS_TOPIC
    offsets = CaseTopic(OFFSETS_TOPIC, metadata.topic_id, len(metadata.partitions))
    for version in (12, 13):
        for partition in (0, 1000):
            request = produce(offsets, batch(stage, b"x", keyed=True), partition=partition)
            stage.send(request, version)
