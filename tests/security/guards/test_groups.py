"""Requests about groups: what of them is done, and what is told of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.cluster.metadata.acls import AclOperation
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import alter_share_group_offsets as altering
from kwire.codecs.messages import consumer_group_describe as consumers
from kwire.codecs.messages import consumer_group_heartbeat as beating
from kwire.codecs.messages import delete_groups as deleting
from kwire.codecs.messages import delete_share_group_offsets as clearing
from kwire.codecs.messages import describe_groups as classic
from kwire.codecs.messages import describe_share_group_offsets as shared
from kwire.codecs.messages import find_coordinator as finding
from kwire.codecs.messages import list_groups as listing
from kwire.codecs.messages import offset_commit as committing
from kwire.codecs.messages import offset_delete as forgetting
from kwire.codecs.messages import offset_fetch as fetching
from kwire.codecs.messages import share_group_describe as sharing
from kwire.codecs.messages import share_group_heartbeat as share_beating
from kwire.codecs.messages import streams_group_describe as streaming
from kwire.codecs.primitives import ZERO_UUID
from kwire.requests.handlers import (
    alter_share_group_offsets,
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    delete_share_group_offsets,
    describe_groups,
    describe_share_group_offsets,
    find_coordinator,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
)
from kwire.security.operations import NOT_ASKED
from tests.security.guards.standing import (
    DELETE,
    DESCRIBE,
    GROUP,
    IDS,
    READ,
    TOPIC,
    TRANSACTION,
    Handler,
    access,
    on,
    on_cluster,
)

DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
SAID, TOPIC_SAID = "Group authorization failed.", "Topic authorization failed."


# -- describing


@pytest.mark.parametrize("asked", [False, True])
def test_describe_groups_has_refused_groups_first(asked: bool) -> None:
    found = [
        classic.DescribedGroup(group_id="g"),
        classic.DescribedGroup(ErrorCode.NOT_COORDINATOR, group_id="h"),
    ]
    handler = Handler(classic.DescribeGroupsResponse(groups=found))
    request = classic.DescribeGroupsRequest(["x", "g", "h"], asked)
    rights = [*on(GROUP, DESCRIBE, "g", "h"), *on(GROUP, DELETE, "g")]
    answer = describe_groups.guard(access(*rights), request, handler)
    assert [(each.group_id, each.error_code) for each in answer.groups] == [
        ("x", DENIED),
        ("g", 0),
        ("h", ErrorCode.NOT_COORDINATOR),
    ]
    assert handler.asked[0].groups == ["g", "h"]
    may = 1 << DESCRIBE | 1 << DELETE if asked else NOT_ASKED
    assert [each.authorized_operations for each in answer.groups] == [NOT_ASKED, may, NOT_ASKED]


def consumer(group_id: str, now: str, then: str) -> consumers.DescribedGroup:
    """With a member that has one topic and is to have another."""
    has, wants = (
        consumers.Assignment([consumers.TopicPartitions(topic_name=name)]) for name in (now, then)
    )
    member = consumers.Member(assignment=has, target_assignment=wants)
    return consumers.DescribedGroup(group_id=group_id, members=[member])


def sharer(group_id: str, reads: str, wants: str) -> sharing.DescribedGroup:
    has = sharing.Assignment([sharing.TopicPartitions(topic_name=reads)])
    member = sharing.Member(subscribed_topic_names=[wants], assignment=has)
    return sharing.DescribedGroup(group_id=group_id, members=[member])


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_group_with_a_hidden_topic_is_described_without_members(kind: str) -> None:
    of_kind: dict[str, tuple[Any, Any, Any]] = {
        "consumer": (consumer_group_describe.guard, consumer, consumers),
        "share": (share_group_describe.guard, sharer, sharing),
    }
    guard, make, messages = of_kind[kind]
    prefix = {"consumer": "ConsumerGroupDescribe", "share": "ShareGroupDescribe"}[kind]
    found = [make("a", "t", "u"), make("b", "t", "v"), make("c", "v", "t")]
    handler = Handler(getattr(messages, f"{prefix}Response")(groups=found))
    request = getattr(messages, f"{prefix}Request")(["x", "a", "b", "c"], True)
    rights = [*on(GROUP, DESCRIBE, "a", "b", "c"), *on(TOPIC, DESCRIBE, "t", "u")]
    answer = guard(access(*rights), request, handler)
    hidden = "The group has described topic(s) that the client is not authorized to describe."
    assert [
        (each.group_id, each.error_code, each.error_message, len(each.members))
        for each in answer.groups
    ] == [
        ("x", DENIED, None, 0),
        ("a", 0, None, 1),
        ("b", TOPIC_DENIED, hidden, 0),
        ("c", TOPIC_DENIED, hidden, 0),
    ]
    assert [each.authorized_operations for each in answer.groups] == [
        NOT_ASKED,
        *[1 << DESCRIBE] * 3,
    ]
    assert handler.asked[0].group_ids == ["a", "b", "c"]


@pytest.mark.parametrize("at", range(4))
def test_streams_group_with_a_hidden_topic_is_hidden(at: int) -> None:
    names = ["t"] * 4
    names[at] = "v"
    topology = streaming.Topology(
        1,
        [
            streaming.Subtopology("0", ["t"], [], [], []),
            streaming.Subtopology(
                "1",
                [names[0]],
                [names[1]],
                [streaming.TopicInfo(names[2])],
                [streaming.TopicInfo(names[3])],
            ),
        ],
    )
    found = [
        streaming.DescribedGroup(group_id="a", topology=topology, group_epoch=7),
        streaming.DescribedGroup(group_id="b", group_epoch=7),
    ]
    handler = Handler(streaming.StreamsGroupDescribeResponse(groups=found))
    request = streaming.StreamsGroupDescribeRequest(["x", "a", "b"], True)
    rights = [*on(GROUP, DESCRIBE, "a", "b"), *on(TOPIC, DESCRIBE, "t")]
    answer = streams_group_describe.guard(access(*rights), request, handler)
    said = "The described group uses topics that the client is not authorized to describe."
    refused, hidden, shown = answer.groups
    assert refused == streaming.DescribedGroup(error_code=DENIED, group_id="x")
    assert hidden == streaming.DescribedGroup(
        error_code=TOPIC_DENIED, error_message=said, group_id="a"
    )
    assert (shown.group_id, shown.group_epoch, shown.authorized_operations) == (
        "b",
        7,
        1 << DESCRIBE,
    )
    assert handler.asked[0].group_ids == ["a", "b"]


@pytest.mark.parametrize("everywhere", [False, True])
def test_list_groups_has_only_groups_with_describe(everywhere: bool) -> None:
    found = [listing.ListedGroup("a"), listing.ListedGroup("b")]
    rights = on_cluster(DESCRIBE) if everywhere else on(GROUP, DESCRIBE, "b")
    answer = list_groups.guard(
        access(*rights),
        listing.ListGroupsRequest(),
        Handler(listing.ListGroupsResponse(0, 0, found)),
    )
    assert answer.groups == (found if everywhere else found[1:])


def test_delete_groups_needs_delete_on_each_group() -> None:
    done = deleting.DeletableGroupResult("a")
    handler = Handler(deleting.DeleteGroupsResponse(results=[done]))
    request = deleting.DeleteGroupsRequest(["x", "a", "x", "a"])
    answer = delete_groups.guard(access(*on(GROUP, DELETE, "a")), request, handler)
    assert handler.asked[0].groups_names == ["a"]
    assert answer.results == [done, deleting.DeletableGroupResult("x", DENIED)]


# -- members


def beat(*names: str) -> beating.ConsumerGroupHeartbeatRequest:
    return beating.ConsumerGroupHeartbeatRequest("g", subscribed_topic_names=[*names])


def test_consumer_group_heartbeat_needs_read_and_describe_on_its_topics() -> None:
    rights = [*on(GROUP, READ, "g"), *on(TOPIC, DESCRIBE, "t", "u")]
    handler = Handler("done")
    sender = access(*rights)
    assert consumer_group_heartbeat.guard(sender, beat("t", "u", "t"), handler) == "done"
    may_describe = sender.context.may_describe
    assert may_describe is not None
    sender.context.principal = "User:the next"
    assert [may_describe(name) for name in ("t", "v")] == [True, False]
    refused = consumer_group_heartbeat.guard(access(*rights), beat("t", "v"), handler)
    assert refused.error_code == TOPIC_DENIED
    refused = consumer_group_heartbeat.guard(access(*rights[1:]), beat("t"), handler)
    assert refused.error_code == DENIED
    nothing = beating.ConsumerGroupHeartbeatRequest("g", subscribed_topic_names=None)
    assert consumer_group_heartbeat.guard(access(*rights), nothing, handler) == "done"
    assert len(handler.asked) == 2


def test_share_group_heartbeat_needs_read_and_describe_on_its_topics() -> None:
    rights = [*on(GROUP, READ, "g"), *on(TOPIC, DESCRIBE, "t")]
    handler = Handler("done")

    def asked(names: list[str] | None) -> share_beating.ShareGroupHeartbeatRequest:
        return share_beating.ShareGroupHeartbeatRequest("g", subscribed_topic_names=names)

    guard = share_group_heartbeat.guard
    assert guard(access(*rights), asked(["t"]), handler) == "done"
    assert guard(access(*rights), asked(None), handler) == "done"
    assert guard(access(*rights), asked(["t", "u"]), handler).error_code == TOPIC_DENIED
    assert guard(access(*rights[1:]), asked(["t"]), handler).error_code == DENIED
    assert len(handler.asked) == 2


# -- offsets


def test_offset_commit_needs_read_on_each_topic() -> None:
    def topic(name: str, topic_id: bytes = ZERO_UUID) -> committing.OffsetCommitRequestTopic:
        places = [committing.OffsetCommitRequestPartition(at) for at in (0, 3)]
        return committing.OffsetCommitRequestTopic(name, topic_id, places)

    def refused(name: str, topic_id: bytes, error: ErrorCode) -> Any:  # noqa: ANN401 - a result
        told = [committing.OffsetCommitResponsePartition(at, error) for at in (0, 3)]
        return committing.OffsetCommitResponseTopic(name, topic_id, told)

    done = committing.OffsetCommitResponseTopic("t")
    rights = [*on(GROUP, READ, "g"), *on(TOPIC, READ, "t")]
    handler = Handler(committing.OffsetCommitResponse(topics=[done]))
    asked = committing.OffsetCommitRequest("g", topics=[topic("t"), topic("u"), topic("")])
    answer = offset_commit.guard(access(*rights, version=9), asked, handler)
    assert answer.topics == [refused("u", ZERO_UUID, TOPIC_DENIED), done]
    assert [each.name for each in handler.asked[0].topics] == ["t", ""]
    handler = Handler(committing.OffsetCommitResponse(topics=[done]))
    ids = [IDS["t"], IDS["u"], b"?" * 16]
    asked = committing.OffsetCommitRequest("g", topics=[topic("", each) for each in ids])
    answer = offset_commit.guard(access(*rights, version=10), asked, handler)
    assert answer.topics == [refused("u", IDS["u"], TOPIC_DENIED), done]
    assert [each.name for each in handler.asked[0].topics] == ["t", ""]
    asked = committing.OffsetCommitRequest("g", topics=[topic("t"), topic("u")])
    answer = offset_commit.guard(access(*rights[1:], version=9), asked, handler)
    assert answer.topics == [refused(name, ZERO_UUID, DENIED) for name in ("t", "u")]


@pytest.mark.parametrize("failed", [False, True])
def test_offset_delete_needs_read_on_each_topic(failed: bool) -> None:
    places = [forgetting.OffsetDeleteRequestPartition(at) for at in (0, 3)]
    topics = [forgetting.OffsetDeleteRequestTopic(name, places) for name in ("u", "t")]
    done = forgetting.OffsetDeleteResponseTopic("t")
    error = ErrorCode.NOT_COORDINATOR if failed else ErrorCode.NONE
    handler = Handler(forgetting.OffsetDeleteResponse(error, topics=[done]))
    rights = [*on(GROUP, DELETE, "g"), *on(TOPIC, READ, "t")]
    asked = forgetting.OffsetDeleteRequest("g", list(topics))
    answer = offset_delete.guard(access(*rights), asked, handler)
    told = [forgetting.OffsetDeleteResponsePartition(at, TOPIC_DENIED) for at in (0, 3)]
    refused = [forgetting.OffsetDeleteResponseTopic("u", told)]
    assert answer.topics == ([done] if failed else [*refused, done])
    assert handler.asked[0].topics == topics[1:]
    asked = forgetting.OffsetDeleteRequest("g", list(topics))
    assert offset_delete.guard(access(*rights[1:]), asked, handler).error_code == DENIED


def fetched(name: str, topic_id: bytes = ZERO_UUID, *at: int) -> fetching.OffsetFetchResponseTopics:
    told = [fetching.OffsetFetchResponsePartitions(each, -1, -1, "", TOPIC_DENIED) for each in at]
    return fetching.OffsetFetchResponseTopics(name, topic_id, told)


def test_offset_fetch_of_several_groups_keeps_the_request_order() -> None:
    def topics(*names: str) -> list[fetching.OffsetFetchRequestTopics]:
        return [fetching.OffsetFetchRequestTopics(name, ZERO_UUID, [0, 3]) for name in names]

    asked = [
        fetching.OffsetFetchRequestGroup("x", topics=topics("t")),
        fetching.OffsetFetchRequestGroup("a", topics=topics("u", "t")),
        fetching.OffsetFetchRequestGroup("b", topics=None),
        fetching.OffsetFetchRequestGroup("y", topics=None),
        fetching.OffsetFetchRequestGroup("c", topics=topics("u")),
    ]
    failed = ErrorCode.NOT_COORDINATOR
    found = [
        fetching.OffsetFetchResponseGroup("a", [fetched("t")]),
        fetching.OffsetFetchResponseGroup("b", [fetched("t"), fetched("u")]),
        fetching.OffsetFetchResponseGroup("c", [], failed),
    ]
    handler = Handler(fetching.OffsetFetchResponse(groups=found))
    rights = [*on(GROUP, DESCRIBE, "a", "b", "c"), *on(TOPIC, DESCRIBE, "t")]
    request = fetching.OffsetFetchRequest(groups=asked)
    answer = offset_fetch.guard(access(*rights, version=8), request, handler)
    assert answer.groups == [
        fetching.OffsetFetchResponseGroup("x", error_code=DENIED),
        fetching.OffsetFetchResponseGroup("a", [fetched("t"), fetched("u", ZERO_UUID, 0, 3)]),
        fetching.OffsetFetchResponseGroup("b", [fetched("t")]),
        fetching.OffsetFetchResponseGroup("y", error_code=DENIED),
        fetching.OffsetFetchResponseGroup("c", [], failed),
    ]
    left = handler.asked[0].groups
    assert [each.group_id for each in left] == ["a", "b", "c"]
    assert [None if each.topics is None else len(each.topics) for each in left] == [1, None, 0]


def test_offset_fetch_by_topic_id_has_only_visible_topics() -> None:
    ids = [IDS["t"], IDS["u"], b"?" * 16]
    topics = [fetching.OffsetFetchRequestTopics("", each, [1]) for each in ids]
    asked = fetching.OffsetFetchRequestGroup("a", topics=topics)
    found = fetching.OffsetFetchResponseGroup("a", [fetched("t", IDS["t"])])
    handler = Handler(fetching.OffsetFetchResponse(groups=[found]))
    rights = [*on(GROUP, DESCRIBE, "a"), *on(TOPIC, DESCRIBE, "t")]
    request = fetching.OffsetFetchRequest(groups=[asked])
    answer = offset_fetch.guard(access(*rights, version=10), request, handler)
    assert answer.groups[0].topics[1:] == [fetched("u", IDS["u"], 1)]
    assert [each.name for each in handler.asked[0].groups[0].topics] == ["t", ""]


@pytest.mark.parametrize("everything", [False, True])
def test_offset_fetch_of_one_group_has_only_visible_topics(everything: bool) -> None:
    topics = [fetching.OffsetFetchRequestTopic(name, [0, 3]) for name in ("u", "t")]
    found = [fetching.OffsetFetchResponseTopic(name) for name in ("t", "u")[: 1 + everything]]
    handler = Handler(fetching.OffsetFetchResponse(topics=found))
    rights = [*on(GROUP, DESCRIBE, "a"), *on(TOPIC, DESCRIBE, "t")]
    request = fetching.OffsetFetchRequest("a", None if everything else topics)
    answer = offset_fetch.guard(access(*rights, version=7), request, handler)
    told = [fetching.OffsetFetchResponsePartition(at, -1, -1, "", TOPIC_DENIED) for at in (0, 3)]
    refused = [fetching.OffsetFetchResponseTopic("u", told)]
    assert answer.topics == [found[0], *([] if everything else refused)]
    assert handler.asked[0].topics == (None if everything else topics[1:])


@pytest.mark.parametrize("version", [1, 2, 7])
def test_offset_fetch_of_a_hidden_group_is_refused_as_its_version_requires(
    version: int,
) -> None:
    topics = [fetching.OffsetFetchRequestTopic("t", [0])]
    handler = Handler()
    request = fetching.OffsetFetchRequest("a", topics)
    answer = offset_fetch.guard(access(version=version), request, handler)
    told = fetching.OffsetFetchResponsePartition(0, -1, -1, "", DENIED)
    if version < 2:
        assert answer.topics == [fetching.OffsetFetchResponseTopic("t", [told])]
        assert answer.error_code == 0
    else:
        assert (answer.topics, answer.error_code) == ([], DENIED)
    assert not handler.asked


# -- coordinators


@pytest.mark.parametrize(
    ("key_type", "rights", "error", "said"),
    [
        (0, on(GROUP, DESCRIBE, "a"), DENIED, SAID),
        (
            1,
            on(TRANSACTION, DESCRIBE, "a"),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "Transactional Id authorization failed.",
        ),
        (
            2,
            on_cluster(AclOperation.CLUSTER_ACTION),
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            "Cluster authorization failed.",
        ),
    ],
)
def test_find_coordinator_needs_the_right_on_each_key(
    key_type: int, rights: list[Any], error: ErrorCode, said: str
) -> None:
    found = finding.Coordinator("a", 7, "h", 1)
    handler = Handler(finding.FindCoordinatorResponse(coordinators=[found]))
    request = finding.FindCoordinatorRequest("", key_type, ["x", "a", "y"])
    if key_type == 2:  # all of them or none
        request.coordinator_keys = ["a"]
    answer = find_coordinator.guard(access(*rights, version=4), request, handler)
    refused = [finding.Coordinator(key, -1, "", -1, error, "") for key in ("x", "a", "y")]
    assert answer.coordinators == ([found] if key_type == 2 else [refused[0], found, refused[2]])
    assert handler.asked[0].coordinator_keys == ["a"]
    request = finding.FindCoordinatorRequest("", key_type, ["x", "a", "y"])
    assert find_coordinator.guard(access(version=4), request, handler).coordinators == refused
    for key in ("a", "x"):
        handler = Handler("found")
        one = finding.FindCoordinatorRequest(key, key_type)
        answer = find_coordinator.guard(access(*rights, version=3), one, handler)
        if key == "a" or key_type == 2:
            assert answer == "found"
        else:
            assert answer == finding.FindCoordinatorResponse(
                error_code=error, error_message=said, node_id=-1, port=-1
            )


def test_find_coordinator_of_an_unknown_key_type_goes_to_the_handler() -> None:
    request = finding.FindCoordinatorRequest("a", 9)
    assert find_coordinator.guard(access(version=3), request, Handler("refused")) == "refused"


# -- where share groups read from


def where(name: str, *at: int) -> shared.DescribeShareGroupOffsetsResponseTopic:
    told = [
        shared.DescribeShareGroupOffsetsResponsePartition(
            each, -1, error_code=TOPIC_DENIED, error_message=TOPIC_SAID
        )
        for each in at
    ]
    return shared.DescribeShareGroupOffsetsResponseTopic(name, partitions=told)


def test_describe_share_group_offsets_keeps_the_request_order() -> None:
    def topics(*names: str) -> list[shared.DescribeShareGroupOffsetsRequestTopic]:
        return [shared.DescribeShareGroupOffsetsRequestTopic(name, [0, 3]) for name in names]

    asked = [
        shared.DescribeShareGroupOffsetsRequestGroup("x", topics("t")),
        shared.DescribeShareGroupOffsetsRequestGroup("a", topics("u", "t")),
        shared.DescribeShareGroupOffsetsRequestGroup("b", None),
    ]
    found = [
        shared.DescribeShareGroupOffsetsResponseGroup("a", [where("t")]),
        shared.DescribeShareGroupOffsetsResponseGroup("b", [where("u"), where("t")]),
    ]
    handler = Handler(shared.DescribeShareGroupOffsetsResponse(groups=found))
    rights = [*on(GROUP, DESCRIBE, "a", "b"), *on(TOPIC, DESCRIBE, "t")]
    request = shared.DescribeShareGroupOffsetsRequest(asked)
    answer = describe_share_group_offsets.guard(access(*rights), request, handler)
    assert answer.groups == [
        shared.DescribeShareGroupOffsetsResponseGroup("x", error_code=DENIED),
        shared.DescribeShareGroupOffsetsResponseGroup("a", [where("t"), where("u", 0, 3)]),
        shared.DescribeShareGroupOffsetsResponseGroup("b", [where("t")]),
    ]
    left = handler.asked[0].groups
    assert [each.group_id for each in left] == ["a", "b"]
    assert (left[0].topics, left[1].topics) == (topics("t"), None)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP])
def test_alter_share_group_offsets_needs_read_on_each_topic(
    error: ErrorCode,
) -> None:
    places = [altering.AlterShareGroupOffsetsRequestPartition(at) for at in (0, 3)]
    topics = [altering.AlterShareGroupOffsetsRequestTopic(name, places) for name in ("u", "t")]
    handler = Handler(altering.AlterShareGroupOffsetsResponse(error_code=error))
    rights = [*on(GROUP, READ, "g"), *on(TOPIC, READ, "t")]
    asked = altering.AlterShareGroupOffsetsRequest("g", topics)
    answer = alter_share_group_offsets.guard(access(*rights), asked, handler)
    told = [
        altering.AlterShareGroupOffsetsResponsePartition(at, TOPIC_DENIED, TOPIC_SAID)
        for at in (0, 3)
    ]
    refused = altering.AlterShareGroupOffsetsResponseTopic("u", partitions=told)
    assert answer.responses == ([] if error else [refused])
    assert [each.topic_name for each in handler.asked[0].topics] == ["t"]
    answer = alter_share_group_offsets.guard(access(*rights[1:]), asked, handler)
    assert answer == altering.AlterShareGroupOffsetsResponse(0, DENIED, SAID)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP])
def test_delete_share_group_offsets_needs_read_on_each_topic(
    error: ErrorCode,
) -> None:
    topics = [clearing.DeleteShareGroupOffsetsRequestTopic(name) for name in ("u", "t")]
    handler = Handler(clearing.DeleteShareGroupOffsetsResponse(error_code=error))
    rights = [*on(GROUP, DELETE, "g"), *on(TOPIC, READ, "t")]
    asked = clearing.DeleteShareGroupOffsetsRequest("g", topics)
    answer = delete_share_group_offsets.guard(access(*rights), asked, handler)
    refused = clearing.DeleteShareGroupOffsetsResponseTopic(
        "u", error_code=TOPIC_DENIED, error_message=TOPIC_SAID
    )
    assert answer.responses == ([] if error else [refused])
    assert [each.topic_name for each in handler.asked[0].topics] == ["t"]
    answer = delete_share_group_offsets.guard(access(*rights[1:]), asked, handler)
    assert answer == clearing.DeleteShareGroupOffsetsResponse(0, DENIED, SAID)
