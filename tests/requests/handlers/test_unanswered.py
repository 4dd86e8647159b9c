"""Answers to requests that no controller has answered, compared with Apache Kafka's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import (
    add_raft_voter,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    describe_quorum,
    elect_leaders,
    expire_delegation_token,
    incremental_alter_configs,
    list_partition_reassignments,
    remove_raft_voter,
    renew_delegation_token,
    unregister_broker,
    unregister_controller,
    update_features,
)
from kwire.codecs.primitives import Message
from kwire.conformance.apache_kafka import source_command
from kwire.requests.route import Route
from kwire.requests.routes import ROUTES
from kwire.requests.unanswered import unanswered

SOURCE = Path(__file__).with_name("FailRequests.java")
BY_CONTROLLER = [route for route in ROUTES if route.by_controller]
ID = b"0123456789abcdef"


def _topics() -> Message:
    topics = [create_topics.CreatableTopic(name, 1, 1) for name in "ab"]
    return create_topics.CreateTopicsRequest(topics)


def _states() -> Message:
    states = [delete_topics.DeleteTopicState("a"), delete_topics.DeleteTopicState(None, ID)]
    return delete_topics.DeleteTopicsRequest(states)


def _partitions() -> Message:
    grown = [create_partitions.CreatePartitionsTopic(name, 3) for name in "ab"]
    return create_partitions.CreatePartitionsRequest(grown)


def _acls() -> Message:
    acls = [create_acls.AclCreation(2, name, 3, "User:a", "*", 3, 3) for name in "ab"]
    return create_acls.CreateAclsRequest(acls)


def _acl_filters() -> Message:
    each = delete_acls.DeleteAclsFilter
    filters = [each(2, name, 3, "User:a", "*", 3, 3) for name in "ab"]
    return delete_acls.DeleteAclsRequest(filters)


def _configs() -> Message:
    resources = [alter_configs.AlterConfigsResource(2, name) for name in "ab"]
    return alter_configs.AlterConfigsRequest(resources)


def _incremental_configs() -> Message:
    resources = [incremental_alter_configs.AlterConfigsResource(2, name) for name in "ab"]
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources)


def _elections() -> Message:
    chosen = [elect_leaders.TopicPartitions(name, [0, 1]) for name in "ab"]
    return elect_leaders.ElectLeadersRequest(topic_partitions=chosen)


def _reassignments() -> Message:
    moved = alter_partition_reassignments
    parts = [moved.ReassignablePartition(index, [1]) for index in (0, 1)]
    return moved.AlterPartitionReassignmentsRequest(
        topics=[moved.ReassignableTopic(name, parts) for name in "ab"]
    )


def _listed_reassignments() -> Message:
    listed = list_partition_reassignments
    return listed.ListPartitionReassignmentsRequest(
        topics=[listed.ListPartitionReassignmentsTopics(name, [0, 1]) for name in "ab"]
    )


def _quotas() -> Message:
    quotas = alter_client_quotas
    ops = [quotas.OpData("producer_byte_rate", 1.0)]
    entities = [[quotas.EntityData("user", name)] for name in ("a", None)]
    return quotas.AlterClientQuotasRequest(
        [quotas.RequestEntryData(entity, ops) for entity in entities]
    )


def _credentials() -> Message:
    scram = alter_user_scram_credentials
    return scram.AlterUserScramCredentialsRequest(
        [scram.ScramCredentialDeletion(name, 1) for name in "ab"],
        [scram.ScramCredentialUpsertion(name, 1, 4096, b"s", b"p") for name in "ac"],
    )


def _quorum() -> Message:
    topic = describe_quorum.RequestTopicData(
        "__cluster_metadata", [describe_quorum.RequestPartitionData(0)]
    )
    return describe_quorum.DescribeQuorumRequest([topic])


REQUESTS: dict[ApiKey, Message] = {
    ApiKey.CREATE_TOPICS: _topics(),
    ApiKey.DELETE_TOPICS: _states(),
    ApiKey.CREATE_PARTITIONS: _partitions(),
    ApiKey.CREATE_ACLS: _acls(),
    ApiKey.DELETE_ACLS: _acl_filters(),
    ApiKey.ALTER_CONFIGS: _configs(),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_configs(),
    ApiKey.ELECT_LEADERS: _elections(),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassignments(),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _listed_reassignments(),
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas(),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _credentials(),
    ApiKey.UPDATE_FEATURES: update_features.UpdateFeaturesRequest(
        feature_updates=[update_features.FeatureUpdateKey("metadata.version", 30)]
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: create_delegation_token.CreateDelegationTokenRequest(),
    ApiKey.RENEW_DELEGATION_TOKEN: renew_delegation_token.RenewDelegationTokenRequest(b"h"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: expire_delegation_token.ExpireDelegationTokenRequest(b"h"),
    ApiKey.DESCRIBE_QUORUM: _quorum(),
    ApiKey.UNREGISTER_BROKER: unregister_broker.UnregisterBrokerRequest(1),
    ApiKey.UNREGISTER_CONTROLLER: unregister_controller.UnregisterControllerRequest(1),
    ApiKey.ADD_RAFT_VOTER: add_raft_voter.AddRaftVoterRequest("c", 1, 1, ID),
    ApiKey.REMOVE_RAFT_VOTER: remove_raft_voter.RemoveRaftVoterRequest("c", 1, ID),
}
"""A request of each API that names two things, where it can."""


def request_of(api_key: ApiKey, version: int) -> Message:
    """The request of the API in that version; until v5, DeleteTopics has names only."""
    if api_key == ApiKey.DELETE_TOPICS and version < 6:
        return delete_topics.DeleteTopicsRequest(topic_names=["a", "b"])
    return REQUESTS[api_key]


CASES = [
    (route, version)
    for route in BY_CONTROLLER
    for version in range(route.min_version, route.max_version + 1)
]


def by_apache_kafka(failure: str, libs: Path) -> list[str]:
    """The response of Apache Kafka's request to each case, in hex."""
    lines = [
        f"{int(route.api_key)} {version} {request_of(route.api_key, version).encode(version).hex()}"
        for route, version in CASES
    ]
    command = source_command(SOURCE, [failure], libs)
    done = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, timeout=120
    )
    assert not done.returncode, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.java
@pytest.mark.parametrize(
    ("failure", "error"),
    [("timeout", ErrorCode.REQUEST_TIMED_OUT), ("unknown", ErrorCode.UNKNOWN_SERVER_ERROR)],
)
def test_each_response_is_the_one_that_apache_kafka_makes(
    failure: str, error: ErrorCode, apache_kafka_libs: Path
) -> None:
    expected = by_apache_kafka(failure, apache_kafka_libs)
    assert len(expected) == len(CASES)
    different = []
    for (route, version), wanted in zip(CASES, expected, strict=True):
        made = unanswered(request_of(route.api_key, version), version, error)
        if made.encode(version).hex() != wanted:
            theirs = type(made).decode(bytes.fromhex(wanted), version)
            different.append(f"{route.api_key.name} v{version}:\n  {made!r}\n  {theirs!r}")
    assert not different, "\n".join(different)


@pytest.mark.parametrize("route", BY_CONTROLLER, ids=lambda route: route.api_key.name)
def test_failure_is_told_in_every_version(route: Route) -> None:
    for version in range(route.min_version, route.max_version + 1):
        request = request_of(route.api_key, version)
        told = unanswered(request, version, ErrorCode.REQUEST_TIMED_OUT).encode(version)
        assert told != unanswered(request, version, ErrorCode.NONE).encode(version)
