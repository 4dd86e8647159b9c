"""Random changes of a small cluster, most of them possible."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from kwire.cluster.metadata.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    Change,
    ChangeAcls,
    CreateTopic,
    DeleteTopic,
    MarkForDeletion,
    RegisterBroker,
    SetConfigs,
    SetController,
    SetFeatures,
    SetToken,
    TakeProducerIds,
    UnregisterBroker,
)
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.image import (
    TOPIC_RESOURCE,
    BrokerImage,
    ClusterImage,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from kwire.cluster.metadata.tokens import DelegationToken

NAMES = ("a", "b.c", "b_c", "d\n☃")
IDS = tuple(bytes([number]) * 16 for number in range(1, 9))
GROUP_RESOURCE = 32

partitions = st.builds(
    PartitionImage,
    leader=st.sampled_from((-1, 1, 2)),
    leader_epoch=st.integers(0, 3),
    partition_epoch=st.integers(0, 3),
    replicas=st.sampled_from(((1,), (1, 2), (2, 1))),
    isr=st.sampled_from(((), (1,), (1, 2))),
    offline=st.sampled_from(((), (1,))),
    adding=st.sampled_from(((), (2,))),
    removing=st.sampled_from(((), (1,))),
    recovering=st.booleans(),
    controller_epoch=st.integers(0, 2),
)
partition_lists = st.lists(partitions, min_size=1, max_size=3).map(tuple)
topics = st.builds(TopicImage, st.sampled_from(NAMES), st.sampled_from(IDS), partition_lists)
configs = st.dictionaries(st.sampled_from(("retention.ms", "x")), st.text(max_size=3), max_size=2)
resources = st.one_of(
    st.tuples(st.just(TOPIC_RESOURCE), st.sampled_from(NAMES)),
    st.tuples(st.just(GROUP_RESOURCE), st.sampled_from(("", "g"))),
)
brokers = st.builds(
    BrokerImage,
    st.integers(1, 3),
    st.sampled_from(((), (Endpoint("PLAINTEXT", "here", 9092),))),
    st.sampled_from((None, "r")),
    st.sampled_from((-1, 7)),
    st.sampled_from(({}, {"feature_version": (1, 2)})),
)
patterns = st.builds(
    ResourcePattern,
    st.sampled_from((ResourceType.TOPIC, ResourceType.USER)),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    st.sampled_from(("*", "a")),
)
entries = st.builds(
    AccessControlEntry,
    st.sampled_from(("User:*", "User:☃")),
    st.just("*"),
    st.sampled_from((AclOperation.READ, AclOperation.ALL)),
    st.sampled_from((AclPermissionType.ALLOW, AclPermissionType.DENY)),
)
token_ids = st.sampled_from(("t1", "t2"))
principals = st.sampled_from(("User:a", "User:b,=é", "Role:c"))
times_ms = st.integers(0, 2**63 - 1)


def token_of(token_id: str) -> st.SearchStrategy[DelegationToken]:
    renewers = st.lists(principals, max_size=2).map(tuple)
    named = st.just(token_id)
    return st.builds(
        DelegationToken, named, principals, principals, renewers, times_ms, times_ms, times_ms
    )


levels = st.dictionaries(st.sampled_from(("transaction.version", "x")), st.integers(0, 2))


@st.composite
def change_of_access(draw: st.DrawFn, image: ClusterImage) -> Change:
    """A change of access control lists or delegation tokens."""
    if draw(st.booleans()):
        token_id = draw(token_ids)
        return SetToken(token_id, image.tokens.get(token_id), draw(st.none() | token_of(token_id)))
    pattern, drawn = draw(patterns), draw(st.frozensets(entries, max_size=3))
    there = image.acls_on(pattern)
    return ChangeAcls(pattern, tuple(drawn - there), tuple(drawn & there))


@st.composite
def change_of(draw: st.DrawFn, image: ClusterImage) -> Change:
    """A change that is possible for `image`, or sometimes one that is not."""
    kinds = ("create", "add", "alter", "mark", "delete", "set", "access", "live", "ids", "features")
    kind = draw(st.sampled_from(kinds))
    existing_topics = sorted(image.topics) if draw(st.integers(0, 9)) else []
    topic = (
        image.topics[draw(st.sampled_from(existing_topics))] if existing_topics else draw(topics)
    )
    if kind == "create":
        return CreateTopic(draw(topics), draw(configs))
    if kind == "add":
        first = len(topic.partitions)
        return AddPartitions(topic.name, topic.id, first, draw(partition_lists))
    if kind == "alter":
        index = draw(st.integers(0, len(topic.partitions)))
        epoch = topic.partitions[index % len(topic.partitions)].partition_epoch
        state = replace(draw(partitions), partition_epoch=epoch + draw(st.integers(0, 2)))
        return AlterPartition(topic.name, topic.id, index, epoch, state)
    if kind == "mark":
        return MarkForDeletion(topic.name, topic.id)
    if kind == "delete":
        return DeleteTopic(topic.name, topic.id)
    if kind == "set":
        resource, name = draw(resources)
        return SetConfigs(resource, name, image.configs_of(resource, name), draw(configs))
    if kind == "access":
        return draw(change_of_access(image))
    if kind == "ids":
        first = image.next_producer_id
        return TakeProducerIds(first, first + draw(st.integers(-1, 1000)))
    if kind == "features":
        epoch = image.features.epoch
        after = draw(st.builds(FinalizedFeatures, levels, st.none() | levels))
        return SetFeatures(epoch, replace(after, epoch=epoch + draw(st.integers(0, 3))))
    return draw(
        st.one_of(
            st.builds(RegisterBroker, brokers),
            st.builds(UnregisterBroker, st.integers(1, 3)),
            st.builds(
                SetController,
                st.just(image.controller_id),
                st.integers(-1, 3),
                st.integers(0, 2),
            ),
        )
    )
