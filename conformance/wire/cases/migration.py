"""Groups that change between the classic and the consumer protocol, with members of both.

Has what the cases of several API keys need, and the cases of ConsumerGroupHeartbeat, which starts
an upgrade.
"""

from __future__ import annotations

from struct import pack
from typing import Any

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.codecs.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kwire.codecs.messages.consumer_protocol_assignment import TopicPartition as Assigned
from kwire.codecs.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.codecs.messages.consumer_protocol_subscription import TopicPartition as Owned
from kwire.codecs.messages.describe_groups import DescribeGroupsRequest
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.codecs.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.codecs.messages.sync_group import SyncGroupRequest
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases import build
from kwire.conformance.wire.cases.build import commit
from kwire.conformance.wire.cases.consumer_group import heartbeat, join, new_group, owning
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.CONSUMER_GROUP_HEARTBEAT)

JOINS_AT = 9
"""The version of JoinGroup in these cases; those of JoinGroup cover all versions."""


def subscription(
    *topics: CaseTopic, owned: tuple[int, ...] = (), version: int = 1, rack: str | None = None
) -> bytes:
    """Encode a classic member's subscription; `owned` are partitions of the first topic."""
    entries = [Owned(topics[0].name, list(owned))] if owned else []
    names = [topic.name for topic in topics]
    message = ConsumerProtocolSubscription(names, None, entries, 1, rack)
    return pack(">h", version) + message.encode(version)


def assignment(topic: CaseTopic, *partitions: int, user_data: bytes | None = None) -> bytes:
    message = ConsumerProtocolAssignment([Assigned(topic.name, list(partitions))], user_data)
    return pack(">h", 1) + message.encode(1)


def classic_join(
    group: str,
    member: str,
    *topics: CaseTopic,
    owned: tuple[int, ...] = (),
    names: tuple[str, ...] = ("range",),
    version: int = 1,
    rack: str | None = None,
    instance: str | None = None,
) -> JoinGroupRequest:
    """Return a classic member's JoinGroup with its subscription, the same for each assignor named.

    `version` is the version of the subscription, not of the request.
    """
    metadata = subscription(*topics, owned=owned, version=version, rack=rack)
    protocols = tuple((name, metadata) for name in names)
    return build.join(group, member, protocols=protocols, instance=instance)


def classic_sync(
    group: str,
    member: str,
    generation: int,
    **more: Any,  # noqa: ANN401 - any fields
) -> SyncGroupRequest:
    """Return a SyncGroup request of a member that is not the leader: it has no assignments."""
    return SyncGroupRequest(group, generation, member, **more)


def _sync(
    group: str, member: str, generation: int, instance: str | None = None
) -> SyncGroupRequest:
    """Build a SyncGroup of the newest version, which names the protocol."""
    return SyncGroupRequest(group, generation, member, instance, "consumer", "range")


def classic_group(
    stage: Stage, group: str, topic: CaseTopic, *partitions: int, instance: str | None = None
) -> JoinGroupResponse:
    """Create a stable classic group whose only member has these partitions; return the member."""
    protocols = (("range", subscription(topic)),)
    member = build.join_first_member(stage, group, protocols=protocols, instance=instance)
    data = assignment(topic, *partitions)
    stage.ask(build.sync(group, member.member_id, member.generation_id, data), 3)
    return member


def create_mixed_group(stage: Stage, group: str, topic: CaseTopic) -> None:
    """Create a consumer group of "m", of the consumer protocol, and "c", of the classic one.

    Of three partitions "m" has two since epoch 2 and "c" has one since epoch 3.
    """
    stage.ask(join(group, "m", topic))
    stage.ask(classic_join(group, "c", topic), JOINS_AT)
    stage.ask(heartbeat(group, "m", 2, owning(topic, 0, 1, 2)))
    stage.ask(heartbeat(group, "m", 2, owning(topic, 0, 1)))
    stage.ask(classic_join(group, "c", topic), JOINS_AT)
    stage.ask(_sync(group, "c", 3))


def _look(stage: Stage, group: str) -> None:
    """Describe the group as a consumer group and as a classic one; both responses are compared."""
    stage.send(ConsumerGroupDescribeRequest([group]))
    stage.send(DescribeGroupsRequest([group]))


@case("a classic group is upgraded, and both members settle")
def upgraded(stage: Stage) -> None:
    """A member of the consumer protocol upgrades a classic group, and partitions move to it.

    The classic member learns this from its heartbeat, rejoins, and syncs for each new assignment.
    """
    topic, group = stage.topic(partitions=3), new_group(stage)
    member = classic_group(stage, group, topic, 0, 1, 2).member_id
    stage.ask(commit(group, topic, member_id=member, generation=1), 8)
    stage.send(join(group, "m", topic))
    _look(stage, group)
    stage.send(commit(group, topic, member_id=member, generation=1), 8)
    stage.send(HeartbeatRequest(group, 1, member))
    stage.send(_sync(group, member, 1))
    stage.send(classic_join(group, member, topic, owned=(0, 1, 2)), JOINS_AT)
    _look(stage, group)
    stage.send(_sync(group, member, 1))
    stage.send(HeartbeatRequest(group, 1, member))
    stage.send(classic_join(group, member, topic, owned=(0, 1)), JOINS_AT)
    stage.send(_sync(group, member, 2))
    stage.send(heartbeat(group, "m", 2))
    _look(stage, group)
    stage.send(HeartbeatRequest(group, 2, member))


@case("a classic group is upgraded by a member that wants other topics, and leaves it again")
def other_topics(stage: Stage) -> None:
    """The new member wants another topic, then leaves: the group becomes classic again.

    The classic member rejoins in generation 3 and is the leader.
    """
    topic, other, group = stage.topic(partitions=2), stage.topic("other", 1), new_group(stage)
    member = classic_group(stage, group, topic, 0, 1).member_id
    stage.send(join(group, "m", other))
    stage.send(HeartbeatRequest(group, 1, member))
    stage.send(classic_join(group, member, topic, owned=(0, 1)), JOINS_AT)
    stage.send(_sync(group, member, 2))
    stage.send(heartbeat(group, "m", -1))
    _look(stage, group)
    stage.send(HeartbeatRequest(group, 2, member))
    stage.send(classic_join(group, member, topic, owned=(0, 1)), JOINS_AT)
    _look(stage, group)
    stage.send(build.sync(group, member, 3, assignment(topic, 0, 1)))
    stage.send(HeartbeatRequest(group, 3, member))


@case("classic groups that cannot be upgraded")
def refused(stage: Stage) -> None:
    """A classic group is not upgraded if its protocol type, subscription or assignment is
    unsuitable. Each group gets the joining member's request, and keeps its classic member."""
    topic = stage.topic(partitions=1)
    protocols = (("range", subscription(topic)),)
    for suffix, options, data in (
        ("connect", {"protocol_type": "connect"}, b"mine"),
        ("subscription", {}, assignment(topic, 0)),
        ("assignment", {"protocols": protocols}, b"\0"),
        ("user-data", {"protocols": protocols}, assignment(topic, 0, user_data=b"u")),
    ):
        group = stage.name(suffix)
        member = build.join_first_member(stage, group, **options)
        stage.ask(build.sync(group, member.member_id, 1, data), 3)
        stage.send(join(group, "m", topic))
        stage.send(heartbeat(group, "m", 2))
        stage.send(HeartbeatRequest(group, 1, member.member_id))


@case("a classic group is upgraded while its members join, and while they wait to be told")
def while_joining(stage: Stage) -> None:
    """A group is upgraded in PreparingRebalance and in CompletingRebalance; pending joins are
    answered."""
    topic, other = stage.topic(), stage.topic("other")
    group = new_group(stage, "joining")
    member = classic_group(stage, group, topic, 0).member_id
    stage.begin(classic_join(group, member, topic), JOINS_AT, on="leader")
    stage.ask(heartbeat(group, "nobody", 5))
    stage.end("leader")
    second = stage.ask(classic_join(group, "", topic), 4).member_id
    stage.begin(classic_join(group, second, topic), 4, on="second")
    while stage.ask(DescribeGroupsRequest([group])).groups[0].group_state != "PreparingRebalance":
        pass  # each iteration is one request to the broker
    stage.send(join(group, "m", other))
    stage.end("second")
    group = new_group(stage, "syncing")
    build.join_first_member(stage, group, protocols=(("range", subscription(topic)),))
    stage.send(join(group, "m", other))
    stage.send(ConsumerGroupDescribeRequest([group]))


@case("the last member of the consumer protocol leaves")
def downgraded(stage: Stage) -> None:
    """The group becomes classic when the last member of the consumer protocol leaves, and back."""
    topic, group = stage.topic(partitions=3), new_group(stage)
    create_mixed_group(stage, group, topic)
    _look(stage, group)
    stage.send(heartbeat(group, "m", -1))
    _look(stage, group)
    stage.send(heartbeat(group, "m", 3))
    stage.send(HeartbeatRequest(group, 3, "c"))
    stage.send(_sync(group, "c", 3))
    stage.send(classic_join(group, "c", topic, owned=(2,)), JOINS_AT)
    stage.send(build.sync(group, "c", 4, assignment(topic, 0, 1, 2)))
    _look(stage, group)
    stage.send(join(group, "m", topic))
    _look(stage, group)


@case("the last member of the consumer protocol is removed by an administrator")
def removed(stage: Stage) -> None:
    """LeaveGroup with its instance id removes the last member of the consumer protocol."""
    topic, group = stage.topic(partitions=3), new_group(stage)
    stage.ask(join(group, "m", topic, instance_id="i"))
    stage.ask(classic_join(group, "c", topic), JOINS_AT)
    stage.send(LeaveGroupRequest(group, members=[MemberIdentity("", "i")]))
    _look(stage, group)
    stage.send(HeartbeatRequest(group, 3, "c"))


@case("a static member comes back with the other protocol, and with the first again")
def static(stage: Stage) -> None:
    """A static member comes back with the other protocol; its earlier member id is then fenced."""
    topic, group = stage.topic(partitions=2), new_group(stage)
    first = classic_group(stage, group, topic, 0, 1, instance="i").member_id
    stage.send(join(group, "m", topic, instance_id="i"))
    _look(stage, group)
    stage.send(HeartbeatRequest(group, 1, first, "i"))
    stage.send(heartbeat(group, "m", 1, owning(topic, 0, 1), instance_id="i"))
    again = stage.send(classic_join(group, "", topic, instance="i"), JOINS_AT)
    stage.note_member_id(again.member_id)
    _look(stage, group)
    stage.send(heartbeat(group, "m", 1, instance_id="i"))
    stage.send(_sync(group, again.member_id, again.generation_id, "i"))
    stage.send(HeartbeatRequest(group, again.generation_id, again.member_id, "i"))


@case("a static member comes back with the classic protocol and other topics")
def static_with_other_topics(stage: Stage) -> None:
    """A static member that comes back as classic member with more topics gets a new assignment."""
    topic, other, group = stage.topic(partitions=2), stage.topic("other", 1), new_group(stage)
    stage.ask(join(group, "m", topic, instance_id="i"))
    stage.ask(classic_join(group, "c", topic, instance="j"), JOINS_AT)
    again = stage.send(classic_join(group, "", topic, other, instance="i"), JOINS_AT)
    stage.note_member_id(again.member_id)
    _look(stage, group)
    stage.send(HeartbeatRequest(group, again.generation_id, again.member_id, "i"))
    stage.send(heartbeat(group, "m", 3, instance_id="i"))


@case("a static member of the consumer protocol leaves for a while and comes back classic")
def static_away(stage: Stage) -> None:
    """A static member leaves for a while (epoch -2), comes back classic, and is replaced again."""
    topic, group = stage.topic(partitions=2), new_group(stage)
    stage.ask(join(group, "other", topic))
    stage.ask(join(group, "m", topic, instance_id="i"))
    stage.ask(heartbeat(group, "m", -2, instance_id="i"))
    again = stage.send(classic_join(group, "", topic, instance="i"), JOINS_AT)
    stage.note_member_id(again.member_id)
    stage.send(_sync(group, again.member_id, again.generation_id, "i"))
    stage.send(ConsumerGroupDescribeRequest([group]))
    stage.send(join(group, "n", topic, instance_id="i"))
    stage.send(HeartbeatRequest(group, 3, again.member_id, "i"))
    stage.send(ConsumerGroupDescribeRequest([group]))
