"""Requests of administrators to a kwire and an Apache Kafka broker of one cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages import (
    add_raft_voter,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    api_versions,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_quorum,
    describe_topic_partitions,
    describe_user_scram_credentials,
    elect_leaders,
    expire_delegation_token,
    incremental_alter_configs,
    list_config_resources,
    list_partition_reassignments,
    metadata,
    remove_raft_voter,
    renew_delegation_token,
    unregister_broker,
    unregister_controller,
    update_features,
)
from kwire.codecs.primitives import Message
from kwire.conformance.kraft_cluster import APACHE, HOST, KWIRE, KRaftCluster
from kwire.conformance.wire.peer import ClientConnection, Reply
from kwire.testing.comparing.normal import plain
from tests.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.slow]

KWIRES, APACHES = 1, 2
PREFIX = {KWIRES: "ours", APACHES: "them"}
"""What the names begin with of all that a broker is asked to change; of the same length."""
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "auto.create.topics.enable": "false",
}
TOPIC, GROUP, CLIENT_METRICS, BROKER, LOGGER = 2, 32, 16, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
READ, ALLOW, LITERAL, ANY = 3, 3, 3, 1
ID = b"0123456789abcdef"

ConfigEdits = tuple[int, str, list[tuple[str, int, str | None]]]
"""The type and name of a resource, and its edits: config, operation, value."""


@pytest.fixture(scope="module")
def cluster(
    apache_kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KRaftCluster]:
    """A kwire and an Apache Kafka broker, beside a controller."""
    folder = tmp_path_factory.mktemp("admin-requests")
    made = KRaftCluster(folder, (KWIRE, APACHE), settings=SETTINGS)
    try:
        made.start()
        yield made
    finally:
        made.kill()


def ask(cluster: KRaftCluster, broker_id: int, request: Message, version: int | None = None) -> Any:  # noqa: ANN401 - by request
    """The broker's response, or the way in which it failed."""
    assert request.API_KEY is not None
    version = request.MAX_VERSION if version is None else version
    with closing(ClientConnection((HOST, cluster.brokers[broker_id].port))) as connection:
        connection.send(request.API_KEY, version, request.encode(version))
        outcome = connection.receive()
    return outcome.message if isinstance(outcome, Reply) else outcome


# -- changes: each broker is asked the same about names of its own


def topics_of(*wanted: tuple[str, int, int], validate_only: bool = False) -> Message:
    return create_topics.CreateTopicsRequest(
        [
            create_topics.CreatableTopic(
                name,
                partitions,
                replicas,
                [],
                [create_topics.CreatableTopicConfig("retention.ms", "5")],
            )
            for name, partitions, replicas in wanted
        ],
        30_000,
        validate_only,
    )


def grown(name: str, count: int) -> Message:
    topic = create_partitions.CreatePartitionsTopic(name, count, None)
    return create_partitions.CreatePartitionsRequest([topic], 30_000)


def configured(*resources: ConfigEdits) -> Message:
    messages = incremental_alter_configs
    return messages.IncrementalAlterConfigsRequest(
        [
            messages.AlterConfigsResource(
                kind, name, [messages.AlterableConfig(*config) for config in configs]
            )
            for kind, name, configs in resources
        ]
    )


def replaced(*resources: tuple[int, str, dict[str, str | None]]) -> Message:
    messages = alter_configs
    return messages.AlterConfigsRequest(
        [
            messages.AlterConfigsResource(
                kind, name, [messages.AlterableConfig(*item) for item in configs.items()]
            )
            for kind, name, configs in resources
        ]
    )


def config_requests(name: str, broker_id: int) -> Iterator[Message]:
    own, other = str(broker_id), str(3 - broker_id)
    yield configured(
        (TOPIC, name, [("retention.ms", SET, "7000")]),
        (TOPIC, f"{name}-unknown", [("retention.ms", SET, "7000")]),
        (GROUP, name, [("consumer.session.timeout.ms", SET, "50000")]),
        (CLIENT_METRICS, name, [("metrics", SET, "a,b"), ("interval.ms", SET, "1000")]),
        (BROKER, own, [("log.cleaner.io.buffer.load.factor", SET, "0.8")]),
        (BROKER, "", [("log.cleaner.threads", SET, "1")]),
    )
    yield configured(
        (TOPIC, name, [("cleanup.policy", APPEND, "compact")]),
        (BROKER, own, [("no.such.config", APPEND, "x")]),
    )
    yield configured((TOPIC, name, [("cleanup.policy", SUBTRACT, "delete"), ("x.y", DELETE, None)]))
    wrong: list[ConfigEdits] = [
        (TOPIC, name, [("retention.ms", SET, "soon")]),
        (TOPIC, name, [("retention.ms", SET, None)]),
        (TOPIC, name, [("retention.ms", SET, "1"), ("retention.ms", SET, "1")]),
        (TOPIC, name, [("retention.ms", APPEND, "1")]),
        (TOPIC, name, [("retention.ms", 9, "1")]),
        (TOPIC, "", [("retention.ms", SET, "1")]),
        (TOPIC, "a b", [("retention.ms", SET, "1")]),
        (GROUP, "", [("consumer.session.timeout.ms", SET, "1")]),
        (GROUP, name, [("consumer.session.timeout.ms", SET, "1")]),
        (CLIENT_METRICS, "", [("metrics", SET, "a")]),
        (CLIENT_METRICS, name, [("interval.ms", SET, "1")]),
        (BROKER, other, [("log.cleaner.threads", SET, "1")]),
        (BROKER, "x", [("log.cleaner.threads", SET, "1")]),
        (BROKER, own, [("log.cleaner.threads", SET, "-1")]),
        (BROKER, own, [("node.id", SET, "3")]),
        (BROKER, own, [("log.cleaner.threads", APPEND, "1")]),
        (BROKER, "", [("node.id", SET, "3")]),
        (LOGGER, other, [("root", SET, "INFO")]),
        (LOGGER, own, [("no.such.logger", SET, "INFO")]),
        (LOGGER, own, [("root", SET, "LOUD")]),
        (LOGGER, own, [("root", APPEND, "INFO")]),
        (99, name, [("x", SET, "1")]),
    ]
    yield from map(configured, wrong)
    yield configured((TOPIC, name, []), (TOPIC, name, []))
    yield replaced(
        (TOPIC, name, {"retention.ms": "9000"}),
        (TOPIC, f"{name}-unknown", {"retention.ms": "9000"}),
        (LOGGER, own, {"root": "INFO"}),
        (BROKER, other, {}),
        (TOPIC, f"{name}-b", {"retention.ms": "never"}),
        (GROUP, name, {"consumer.session.timeout.ms": None}),
    )


def right_requests(name: str) -> Iterator[Message]:
    users = [f"User:{name}", "nobody"]
    yield create_acls.CreateAclsRequest(
        [create_acls.AclCreation(TOPIC, name, LITERAL, user, "*", READ, ALLOW) for user in users]
    )
    each = delete_acls.DeleteAclsFilter
    yield delete_acls.DeleteAclsRequest(
        [
            each(TOPIC, f"{name}-unknown", LITERAL, None, None, ANY, ANY),
            each(TOPIC, name, 0, None, None, ANY, ANY),
        ]
    )
    scram = alter_user_scram_credentials
    yield scram.AlterUserScramCredentialsRequest(
        [scram.ScramCredentialDeletion(f"{name}-unknown", 1)],
        [
            scram.ScramCredentialUpsertion(name, 1, 4096, b"salt", bytes(32)),
            scram.ScramCredentialUpsertion(f"{name}-b", 1, 1, b"salt", bytes(32)),
        ],
    )
    quotas = alter_client_quotas
    yield quotas.AlterClientQuotasRequest(
        [
            quotas.RequestEntryData(
                [quotas.EntityData("user", name)], [quotas.OpData("producer_byte_rate", 1e6)]
            ),
            quotas.RequestEntryData(
                [quotas.EntityData("user", f"{name}-b")], [quotas.OpData("no_such_rate", 1.0)]
            ),
        ]
    )
    yield create_delegation_token.CreateDelegationTokenRequest("User", name)
    yield renew_delegation_token.RenewDelegationTokenRequest(b"h", 1)
    yield expire_delegation_token.ExpireDelegationTokenRequest(b"h", 1)


def cluster_requests(name: str) -> Iterator[Message]:
    features = update_features
    yield features.UpdateFeaturesRequest(
        feature_updates=[features.FeatureUpdateKey("metadata.version", 99)]
    )
    yield features.UpdateFeaturesRequest(
        feature_updates=[features.FeatureUpdateKey("no.such.feature", 1)]
    )
    yield unregister_broker.UnregisterBrokerRequest(77)
    yield unregister_controller.UnregisterControllerRequest(77)
    yield add_raft_voter.AddRaftVoterRequest("elsewhere", 1000, 7, ID)
    yield remove_raft_voter.RemoveRaftVoterRequest(None, 77, ID)
    chosen = [elect_leaders.TopicPartitions(name, [0, 9])]
    yield elect_leaders.ElectLeadersRequest(0, chosen)
    moved = alter_partition_reassignments
    parts = [moved.ReassignablePartition(0, [1, 2]), moved.ReassignablePartition(9, [1])]
    yield moved.AlterPartitionReassignmentsRequest(topics=[moved.ReassignableTopic(name, parts)])
    parts = [moved.ReassignablePartition(0, None), moved.ReassignablePartition(1, [77])]
    yield moved.AlterPartitionReassignmentsRequest(topics=[moved.ReassignableTopic(name, parts)])
    listed = list_partition_reassignments
    yield listed.ListPartitionReassignmentsRequest(
        topics=[listed.ListPartitionReassignmentsTopics(f"{name}-unknown", [0])]
    )


def topic_requests(name: str, broker_id: int) -> Iterator[Message]:
    yield topics_of((name, 2, 1), (f"{name}-b", 1, 2), ("a b", 1, 1), (f"{name}-c", 1, 9))
    yield topics_of((name, 2, 1), (f"{name}-d", -1, -1), validate_only=True)
    yield grown(name, 3)
    yield grown(name, 1)
    yield grown(f"{name}-unknown", 4)
    yield from config_requests(name, broker_id)
    yield from right_requests(name)
    yield from cluster_requests(name)
    states = [
        delete_topics.DeleteTopicState(f"{name}-b"),
        delete_topics.DeleteTopicState(f"{name}-unknown"),
        delete_topics.DeleteTopicState(None, ID),
    ]
    yield delete_topics.DeleteTopicsRequest(states, timeout_ms=30_000)


def without_names(value: object, broker_id: int) -> object:
    """A tree in which the two brokers have to be alike: names and ids are those of either."""
    if isinstance(value, dict):
        tree = {name: without_names(each, broker_id) for name, each in value.items()}
        if "topic_id" in tree:
            tree["topic_id"] = "an id"
        if tree.get("resource_type") in (BROKER, LOGGER) and tree["resource_name"]:
            is_own = tree["resource_name"] == str(broker_id)
            tree["resource_name"] = "OWN" if is_own else "OTHER"
        return tree
    if isinstance(value, list):  # Apache Kafka's order is often that of a hash table
        return sorted((without_names(each, broker_id) for each in value), key=repr)
    if not isinstance(value, str):
        return value
    text = value.replace(PREFIX[broker_id], "name")
    text = re.sub(rf"xpected {broker_id}\b", "xpected OWN", text)
    return re.sub(rf"received {3 - broker_id}\b", "received OTHER", text)


def outcome(cluster: KRaftCluster, broker_id: int, request: Message) -> object:
    """How the broker answers, without what differs by the names in the request."""
    response = ask(cluster, broker_id, request)
    if not isinstance(response, Message):
        return repr(response)
    return without_names(plain(response), broker_id)


ANY_MOVES = list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None)


def test_either_broker_answers_each_change_alike(cluster: KRaftCluster) -> None:
    pairs = zip(
        topic_requests(PREFIX[KWIRES], KWIRES),
        topic_requests(PREFIX[APACHES], APACHES),
        strict=True,
    )
    different = []
    for ours, theirs in pairs:
        answers = outcome(cluster, KWIRES, ours), outcome(cluster, APACHES, theirs)
        if answers[0] != answers[1]:
            different.append(f"{ours!r:.300}\n  kwire:  {answers[0]}\n  Apache: {answers[1]}")
        # One that is cancelled next is refused, if it is complete.
        until(lambda: not ask(cluster, APACHES, ANY_MOVES).topics, "reassigned")
    assert not different, "\n".join(different)


# -- what is there: each broker has the same


def sorted_tree(value: object) -> object:
    """The tree of a response, with lists in an order of their own."""
    if isinstance(value, dict):
        return {name: sorted_tree(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted(map(sorted_tree, value), key=repr)
    return value


def masked(*names: str) -> Callable[[object], object]:
    """Return a function that leaves out the fields of these names."""

    def mask(value: object) -> object:
        if isinstance(value, dict):
            return {name: mask(each) for name, each in value.items() if name not in names}
        return [mask(each) for each in value] if isinstance(value, list) else value

    return mask


def all_resources(cluster: KRaftCluster) -> list[describe_configs.DescribeConfigsResource]:
    kinds = [TOPIC, GROUP, CLIENT_METRICS]
    request = list_config_resources.ListConfigResourcesRequest(kinds)
    listed = ask(cluster, APACHES, request).config_resources
    resource = describe_configs.DescribeConfigsResource
    return [
        resource(BROKER, ""),
        *(resource(each.resource_type, each.resource_name) for each in listed),
    ]


QUESTIONS: dict[str, Callable[[], Message]] = {
    "metadata": lambda: metadata.MetadataRequest(None, False),
    "cluster": lambda: describe_cluster.DescribeClusterRequest(True, 1, True),
    "partitions": describe_topic_partitions.DescribeTopicPartitionsRequest,
    "resources": list_config_resources.ListConfigResourcesRequest,
    "acls": lambda: describe_acls.DescribeAclsRequest(1, None, 1, None, None, 1, 1),
    "quotas": describe_client_quotas.DescribeClientQuotasRequest,
    "users": lambda: describe_user_scram_credentials.DescribeUserScramCredentialsRequest(None),
    "reassignments": list_partition_reassignments.ListPartitionReassignmentsRequest,
    "quorum": lambda: describe_quorum.DescribeQuorumRequest(
        [
            describe_quorum.RequestTopicData(
                "__cluster_metadata", [describe_quorum.RequestPartitionData(0)]
            )
        ]
    ),
}
MOVING = masked(
    "controller_id",
    "throttle_time_ms",
    "high_watermark",
    "log_end_offset",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
)
"""Without what changes by itself, and the broker that is chosen at random."""


@pytest.mark.parametrize("name", QUESTIONS)
def test_either_broker_describes_the_cluster_alike(name: str, cluster: KRaftCluster) -> None:
    ask(cluster, APACHES, topics_of(("described", 2, 2)))
    wait_until_alike(cluster)
    ours, theirs = answers_of_both(cluster, QUESTIONS[name]())
    assert ours == theirs


def test_either_broker_describes_the_same_configs(cluster: KRaftCluster) -> None:
    wait_until_alike(cluster)
    request = describe_configs.DescribeConfigsRequest(all_resources(cluster), True, False)
    ours, theirs = answers_of_both(cluster, request)
    assert ours == theirs


def answers_of_both(cluster: KRaftCluster, request: Message) -> list[object]:
    return [sorted_tree(MOVING(plain(ask(cluster, each, request)))) for each in (KWIRES, APACHES)]


def test_either_broker_serves_the_same_requests(cluster: KRaftCluster) -> None:
    """Apart from those of client telemetry, which Apache Kafka serves with a plug-in only."""
    request = api_versions.ApiVersionsRequest("kwire", "1")
    answers = [ask(cluster, each, request) for each in (KWIRES, APACHES)]
    for name in ("supported_features", "finalized_features"):
        first, second = (sorted(map(repr, getattr(each, name))) for each in answers)
        assert first == second
    ours, theirs = (
        {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        for answer in answers
    )
    for key in (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY):
        ours.pop(key, None)
    assert ours == theirs


def wait_until_alike(cluster: KRaftCluster) -> None:
    """Wait until each broker has all records that one of them has now."""

    def offsets() -> list[int]:
        request = api_versions.ApiVersionsRequest("kwire", "1")
        told = (ask(cluster, each, request, 3) for each in (KWIRES, APACHES))
        return [each.finalized_features_epoch for each in told]

    newest = max(offsets())
    until(lambda: min(offsets()) >= newest, "caught up")
