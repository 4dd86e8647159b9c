"""Requests about transactions, settings and tokens, and those that are refused as a whole."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import add_offsets_to_txn as with_offsets
from kwire.codecs.messages import add_partitions_to_txn as adding
from kwire.codecs.messages import alter_client_quotas as quotas
from kwire.codecs.messages import alter_configs as altering
from kwire.codecs.messages import alter_partition_reassignments as moving
from kwire.codecs.messages import alter_replica_log_dirs as placing
from kwire.codecs.messages import alter_user_scram_credentials as users
from kwire.codecs.messages import create_acls as granting
from kwire.codecs.messages import delete_acls as revoking
from kwire.codecs.messages import describe_configs as showing
from kwire.codecs.messages import describe_transactions as describing
from kwire.codecs.messages import describe_user_scram_credentials as user_list
from kwire.codecs.messages import elect_leaders as electing
from kwire.codecs.messages import incremental_alter_configs as stepping
from kwire.codecs.messages import init_producer_id as beginning
from kwire.codecs.messages import join_group as joining
from kwire.codecs.messages import list_transactions as listing
from kwire.codecs.messages import read_share_group_state as reading
from kwire.codecs.messages import response_class
from kwire.codecs.messages import streams_group_heartbeat as streaming
from kwire.codecs.messages import sync_group as syncing
from kwire.codecs.messages import txn_offset_commit as committing
from kwire.codecs.messages import write_txn_markers as marking
from kwire.requests.guards import whole
from kwire.requests.guards.base import Refuse
from kwire.requests.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    describe_configs,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    list_transactions,
    read_share_group_state,
    streams_group_heartbeat,
    txn_offset_commit,
    write_txn_markers,
)
from kwire.requests.route import Route
from kwire.requests.routes import CLUSTER_ROUTES, ROUTES
from kwire.settings import ConfigResourceType
from tests.security.guards.standing import (
    ALTER,
    CREATE,
    DESCRIBE,
    GROUP,
    IDS,
    READ,
    TOPIC,
    TRANSACTION,
    WRITE,
    Handler,
    access,
    on,
    on_cluster,
)

DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
ACTION, IDEMPOTENT = AclOperation.CLUSTER_ACTION, AclOperation.IDEMPOTENT_WRITE


# -- transactions


@pytest.mark.parametrize(
    ("name", "rights", "error"),
    [
        ("x", on(TRANSACTION, WRITE, "x"), None),
        ("x", on(TRANSACTION, WRITE, "y"), DENIED),
        ("x", on_cluster(IDEMPOTENT), DENIED),
        (None, on_cluster(IDEMPOTENT), None),
        (None, on(TOPIC, WRITE, "any"), None),
        (None, on(TRANSACTION, WRITE, "x"), CLUSTER_DENIED),
        (None, on(TOPIC, READ, "any"), CLUSTER_DENIED),
    ],
)
def test_init_producer_id_needs_the_right_to_write(
    name: str | None, rights: list[Any], error: ErrorCode | None
) -> None:
    sender = access(*rights, api_key=ApiKey.INIT_PRODUCER_ID)
    request = beginning.InitProducerIdRequest(name)
    answer = init_producer_id.guard(sender, request, Handler("done"))
    refused = beginning.InitProducerIdResponse(
        error_code=error or 0, producer_id=-1, producer_epoch=0
    )
    assert answer == ("done" if error is None else refused)


def added(errors: dict[str, list[int]]) -> adding.AddPartitionsToTxnResponse:
    """The answer about partitions 0, 1 and 2 of topics."""
    return adding.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            adding.AddPartitionsToTxnTopicResult(
                name,
                [
                    adding.AddPartitionsToTxnPartitionResult(at, error)
                    for at, error in zip((-1, 0, 2), its, strict=True)
                ],
            )
            for name, its in errors.items()
        ]
    )


def test_add_partitions_to_txn_adds_all_or_none() -> None:
    def asked(*names: str) -> adding.AddPartitionsToTxnRequest:
        topics = [adding.AddPartitionsToTxnTopic(name, [-1, 0, 2]) for name in names]
        return adding.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x", v3_and_below_topics=topics
        )

    internal = "__consumer_offsets"
    rights = [*on(TRANSACTION, WRITE, "x"), *on(TOPIC, WRITE, "t", "none", internal)]
    guard = add_partitions_to_txn.guard
    assert guard(access(*rights, version=3), asked("t", "none"), Handler("done")) == "done"
    unknown, idle = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    answer = guard(access(*rights, version=3), asked("t", "u", "none", internal), Handler())
    assert answer == added(
        {
            "t": [unknown, idle, unknown],
            "u": [TOPIC_DENIED] * 3,
            "none": [unknown] * 3,
            internal: [TOPIC_DENIED] * 3,
        }
    )
    answer = guard(access(*rights[1:], version=3), asked("t"), Handler())
    assert answer == added({"t": [DENIED] * 3})
    by_broker = access(*on_cluster(ACTION), version=4)
    assert guard(by_broker, asked("t"), Handler("done")) == "done"
    answer = guard(access(*rights, version=4), asked("t"), Handler())
    assert answer == adding.AddPartitionsToTxnResponse(error_code=CLUSTER_DENIED)


def test_add_offsets_to_txn_needs_rights_on_transaction_and_group() -> None:
    rights = [*on(TRANSACTION, WRITE, "x"), *on(GROUP, READ, "g")]
    request = with_offsets.AddOffsetsToTxnRequest("x", group_id="g")
    guard = add_offsets_to_txn.guard
    assert guard(access(*rights), request, Handler("done")) == "done"
    assert guard(access(rights[0]), request, Handler()).error_code == GROUP_DENIED
    assert guard(access(rights[1]), request, Handler()).error_code == DENIED


def test_txn_offset_commit_needs_read_on_each_topic() -> None:
    rights = [
        *on(TRANSACTION, WRITE, "x"),
        *on(GROUP, READ, "g"),
        *on(TOPIC, READ, "t"),
    ]
    places = [committing.TxnOffsetCommitRequestPartition(at) for at in (0, 3)]

    def asked() -> committing.TxnOffsetCommitRequest:
        topics = [
            committing.TxnOffsetCommitRequestTopic(name, partitions=places) for name in ("u", "t")
        ]
        return committing.TxnOffsetCommitRequest("x", "g", topics=topics)

    def refused(name: str, error: ErrorCode) -> committing.TxnOffsetCommitResponseTopic:
        told = [committing.TxnOffsetCommitResponsePartition(at, error) for at in (0, 3)]
        return committing.TxnOffsetCommitResponseTopic(name, partitions=told)

    done = committing.TxnOffsetCommitResponseTopic("t")
    handler = Handler(committing.TxnOffsetCommitResponse(topics=[done]))
    guard = txn_offset_commit.guard
    assert guard(access(*rights), asked(), handler).topics == [refused("u", TOPIC_DENIED), done]
    assert [each.name for each in handler.asked[0].topics] == ["t"]
    for given, error in ((rights[1:], DENIED), ([rights[0], rights[2]], GROUP_DENIED)):
        answer = guard(access(*given), asked(), Handler())
        assert answer.topics == [refused(name, error) for name in ("u", "t")]


@pytest.mark.parametrize("operation", [ALTER, ACTION, DESCRIBE])
def test_write_txn_markers_needs_cluster_action_or_alter(operation: AclOperation) -> None:
    topics = [marking.WritableTxnMarkerTopic("t", [0, 3])]
    request = marking.WriteTxnMarkersRequest([marking.WritableTxnMarker(7, topics=topics)])
    sender = access(*on_cluster(operation), api_key=ApiKey.WRITE_TXN_MARKERS)
    answer = write_txn_markers.guard(sender, request, Handler("done"))
    told = [marking.WritableTxnMarkerPartitionResult(at, CLUSTER_DENIED) for at in (0, 3)]
    refused = marking.WriteTxnMarkersResponse(
        [marking.WritableTxnMarkerResult(7, [marking.WritableTxnMarkerTopicResult("t", told)])]
    )
    assert answer == (refused if operation is DESCRIBE else "done")


def test_describe_transactions_has_only_visible_topics() -> None:
    topics = [describing.TopicData(name) for name in ("t", "u")]
    found = [describing.TransactionState(0, "a", topics=topics)]
    handler = Handler(describing.DescribeTransactionsResponse(transaction_states=found))
    rights = [*on(TRANSACTION, DESCRIBE, "a"), *on(TOPIC, DESCRIBE, "t")]
    request = describing.DescribeTransactionsRequest(["x", "a", "y"])
    answer = describe_transactions.guard(access(*rights), request, handler)
    assert [
        (each.transactional_id, each.error_code, [topic.topic for topic in each.topics])
        for each in answer.transaction_states
    ] == [("x", DENIED, []), ("a", 0, ["t"]), ("y", DENIED, [])]
    assert handler.asked[0].transactional_ids == ["a"]


def test_list_transactions_has_only_visible_transactions() -> None:
    found = [listing.TransactionState(name) for name in ("a", "b")]
    handler = Handler(listing.ListTransactionsResponse(transaction_states=found))
    sender = access(*on(TRANSACTION, DESCRIBE, "b"))
    answer = list_transactions.guard(sender, listing.ListTransactionsRequest(), handler)
    assert answer.transaction_states == found[1:]


# -- settings


RESOURCES = [
    (ConfigResourceType.TOPIC, "t", TOPIC_DENIED, "Topic authorization failed."),
    (ConfigResourceType.GROUP, "g", GROUP_DENIED, "Group authorization failed."),
    (ConfigResourceType.BROKER, "1", CLUSTER_DENIED, "Cluster authorization failed."),
    (ConfigResourceType.BROKER_LOGGER, "1", CLUSTER_DENIED, "Cluster authorization failed."),
    (ConfigResourceType.CLIENT_METRICS, "m", CLUSTER_DENIED, "Cluster authorization failed."),
]


@pytest.mark.parametrize("kind", ["describe", "alter", "step"])
@pytest.mark.parametrize("given", ["nothing", "topic", "group", "cluster"])
def test_config_requests_need_the_right_on_each_resource(kind: str, given: str) -> None:
    needed = AclOperation.DESCRIBE_CONFIGS if kind == "describe" else AclOperation.ALTER_CONFIGS
    rights = {
        "nothing": on(TOPIC, DESCRIBE, "t"),
        "topic": on(TOPIC, needed, "t"),
        "group": on(GROUP, needed, "g"),
        "cluster": on_cluster(needed),
    }[given]
    errors = {"topic": TOPIC_DENIED, "group": GROUP_DENIED, "cluster": CLUSTER_DENIED}
    allowed = [each[:2] for each in RESOURCES if each[2] == errors.get(given)]
    messages: dict[str, tuple[Any, Any, Any, str, Any]] = {
        "describe": (
            describe_configs.guard,
            showing.DescribeConfigsResource,
            showing.DescribeConfigsResponse(),
            "results",
            showing.DescribeConfigsResult,
        ),
        "alter": (
            alter_configs.guard,
            altering.AlterConfigsResource,
            altering.AlterConfigsResponse(),
            "responses",
            altering.AlterConfigsResourceResponse,
        ),
        "step": (
            incremental_alter_configs.guard,
            stepping.AlterConfigsResource,
            stepping.IncrementalAlterConfigsResponse(),
            "responses",
            stepping.AlterConfigsResourceResponse,
        ),
    }
    guard, resource, response, field, result = messages[kind]
    handler = Handler(response)
    request = SimpleNamespace(resources=[resource(*each[:2]) for each in RESOURCES])
    answer = guard(access(*rights), request, handler)
    left = [(each.resource_type, each.resource_name) for each in handler.asked[0].resources]
    assert left == allowed
    one_broker = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
    silent = () if kind == "describe" else one_broker  # as in Apache Kafka 4.4
    assert getattr(answer, field) == [
        result(error, None if each in silent else said, each, name)
        for each, name, error, said in RESOURCES
        if (each, name) not in allowed
    ]


def test_configs_of_an_unknown_resource_type_go_to_the_handler() -> None:
    topic = showing.DescribeConfigsResource(ConfigResourceType.TOPIC, "t")
    odd = showing.DescribeConfigsResource(99, "x")
    request = showing.DescribeConfigsRequest([topic, odd])
    assert describe_configs.guard(access(), request, Handler("refused")) == "refused"
    assert request.resources == [topic, odd]
    handler = Handler(altering.AlterConfigsResponse())
    unset = altering.AlterConfigsRequest([altering.AlterConfigsResource(99, "x")])
    assert alter_configs.guard(access(), unset, handler).responses == []
    assert len(handler.asked[0].resources) == 1


# -- streams groups, and the share coordinator


@pytest.mark.parametrize(
    ("names", "rights", "error"),
    [
        (["t"], [*on(GROUP, READ, "g"), *on(TOPIC, DESCRIBE, "t")], None),
        (["t", "u"], [*on(GROUP, READ, "g"), *on(TOPIC, DESCRIBE, "t")], TOPIC_DENIED),
        (["u", "__consumer_offsets"], on(GROUP, READ, "g"), None),
        (["t"], on(TOPIC, DESCRIBE, "t"), GROUP_DENIED),
    ],
)
def test_streams_group_heartbeat_needs_read_and_describe_on_its_topics(
    names: list[str], rights: list[Any], error: ErrorCode | None
) -> None:
    topology = streaming.Topology(1, [streaming.Subtopology("0", source_topics=names)])
    request = streaming.StreamsGroupHeartbeatRequest("g", topology=topology)
    answer = streams_group_heartbeat.guard(access(*rights), request, Handler("done"))
    refused = streaming.StreamsGroupHeartbeatResponse(error_code=error or 0)
    assert answer == ("done" if error is None else refused)


@pytest.mark.parametrize("rights", [on_cluster(CREATE), on(TOPIC, CREATE, "new"), []])
def test_streams_group_heartbeat_creates_topics_only_with_create(rights: list[Any]) -> None:
    sender = access(*on(GROUP, READ, "g"), *rights)
    request = streaming.StreamsGroupHeartbeatRequest("g", topology=None)
    streams_group_heartbeat.guard(sender, request, Handler())
    may_create = sender.context.may_create
    assert may_create is not None
    sender.context.principal = "User:the next"
    everywhere = rights == on_cluster(CREATE)
    assert (may_create("new"), may_create("other")) == (bool(rights), everywhere)


def test_share_coordinator_requests_need_cluster_action() -> None:
    data = [reading.PartitionData(at) for at in (0, 3)]
    request = reading.ReadShareGroupStateRequest("g", [reading.ReadStateData(IDS["t"], data)])
    guard = read_share_group_state.guard
    assert guard(access(*on_cluster(ACTION)), request, Handler("done")) == "done"
    said = "Cluster authorization failed."
    told = [reading.PartitionResult(at, CLUSTER_DENIED, said) for at in (0, 3)]
    refused = reading.ReadShareGroupStateResponse([reading.ReadStateResult(IDS["t"], told)])
    assert guard(access(), request, Handler()) == refused


# -- refused as a whole


@pytest.mark.parametrize(
    ("kind", "rights", "error"),
    [
        (GROUP, on(GROUP, READ, "g"), GROUP_DENIED),
        (TRANSACTION, on(TRANSACTION, READ, "x"), DENIED),
        (ResourceType.CLUSTER, on_cluster(READ), CLUSTER_DENIED),
    ],
)
def test_request_needs_one_right_on_its_resource(
    kind: ResourceType, rights: list[Any], error: ErrorCode
) -> None:
    guard = whole.one(READ, kind, whole.with_error)
    request = SimpleNamespace(API_KEY=ApiKey.SYNC_GROUP, group_id="g", transactional_id="x")
    allowed = access(*rights, api_key=ApiKey.SYNC_GROUP)
    assert guard(allowed, request, Handler("done")) == "done"
    refused = guard(access(api_key=ApiKey.SYNC_GROUP), request, Handler())
    assert refused == syncing.SyncGroupResponse(error_code=error)
    assert whole.nothing(access(), request, Handler("done")) == "done"


ERROR, SAID = CLUSTER_DENIED, "Request needs ALTER permission."
TWO_TOPICS = SimpleNamespace(
    topics=[
        SimpleNamespace(name="t", partitions=[SimpleNamespace(partition_index=3)]),
    ]
)
ASKED: dict[ApiKey, tuple[Any, Any]] = {
    ApiKey.JOIN_GROUP: (None, joining.JoinGroupResponse(error_code=ERROR, protocol_name=None)),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (
        placing.AlterReplicaLogDirsRequest(
            [
                placing.AlterReplicaLogDir("/a", [placing.AlterReplicaLogDirTopic("t", [1, 0])]),
                placing.AlterReplicaLogDir("/b", [placing.AlterReplicaLogDirTopic("t", [0, 2])]),
            ]
        ),
        placing.AlterReplicaLogDirsResponse(
            results=[
                placing.AlterReplicaLogDirTopicResult(
                    "t",
                    [placing.AlterReplicaLogDirPartitionResult(at, ERROR) for at in (1, 0, 2)],
                )
            ]
        ),
    ),
    ApiKey.ELECT_LEADERS: (
        electing.ElectLeadersRequest(0, [electing.TopicPartitions("t", [0, 3])]),
        electing.ElectLeadersResponse(
            error_code=ERROR,
            replica_election_results=[
                electing.ReplicaElectionResult(
                    "t", [electing.PartitionResult(at, ERROR, SAID) for at in (0, 3)]
                )
            ],
        ),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        TWO_TOPICS,
        moving.AlterPartitionReassignmentsResponse(
            error_code=ERROR,
            error_message=SAID,
            responses=[
                moving.ReassignableTopicResponse(
                    "t", [moving.ReassignablePartitionResponse(3, ERROR, SAID)]
                )
            ],
        ),
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: (
        quotas.AlterClientQuotasRequest(
            [quotas.RequestEntryData([quotas.EntityData("user", "bob")])]
        ),
        quotas.AlterClientQuotasResponse(
            entries=[
                quotas.ResponseEntryData(
                    ERROR, "Cluster authorization failed.", [quotas.EntityData("user", "bob")]
                )
            ]
        ),
    ),
    ApiKey.CREATE_ACLS: (
        granting.CreateAclsRequest([granting.AclCreation()] * 2),
        granting.CreateAclsResponse(results=[granting.AclCreationResult(ERROR, SAID)] * 2),
    ),
    ApiKey.DELETE_ACLS: (
        revoking.DeleteAclsRequest([revoking.DeleteAclsFilter()] * 2),
        revoking.DeleteAclsResponse(
            filter_results=[revoking.DeleteAclsFilterResult(ERROR, SAID)] * 2
        ),
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (
        user_list.DescribeUserScramCredentialsRequest([user_list.UserName("bob")] * 2),
        user_list.DescribeUserScramCredentialsResponse(
            error_code=ERROR,
            error_message=None,
            results=[
                user_list.DescribeUserScramCredentialsResult(error_code=ERROR, error_message=None)
            ]
            * 2,
        ),
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (
        users.AlterUserScramCredentialsRequest(
            [users.ScramCredentialDeletion("a"), users.ScramCredentialDeletion("b")],
            [users.ScramCredentialUpsertion("b")],
        ),
        users.AlterUserScramCredentialsResponse(
            results=[
                users.AlterUserScramCredentialsResult(name, ERROR, SAID) for name in ("a", "b")
            ]
        ),
    ),
}


def refuse_of(api_key: ApiKey) -> Refuse:
    """The function by which the handler of an API key refuses a request as a whole."""
    refuse: Refuse = import_module(f"kwire.requests.handlers.{api_key.name.lower()}").refuse
    return refuse


@pytest.mark.parametrize("api_key", ASKED)
def test_refusal_has_the_entries_of_the_request(api_key: ApiKey) -> None:
    request, expected = ASKED[api_key]
    assert refuse_of(api_key)(request, ERROR, 9, SAID) == expected


@pytest.mark.parametrize(
    "api_key",
    [
        ApiKey.DESCRIBE_ACLS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ],
)
def test_refusal_without_entries_says_which_right_is_needed(
    api_key: ApiKey,
) -> None:
    answer: Any = refuse_of(api_key)(None, ERROR, 9, SAID)
    assert [type(answer)] == [response_class(api_key)]
    assert answer.error_code == ERROR
    of_a_broker = api_key is ApiKey.DESCRIBE_CLIENT_QUOTAS
    assert answer.error_message == (None if of_a_broker else SAID)
    if of_a_broker:
        assert answer.entries is None


def test_refusals_of_old_versions_have_only_their_fields() -> None:
    request = joining.JoinGroupRequest()
    assert join_group.refuse(request, ERROR, 6, SAID) == joining.JoinGroupResponse(
        error_code=ERROR, protocol_name=""
    )
    assert join_group.refuse(request, ERROR, 7, SAID).protocol_name is None
    everywhere = electing.ElectLeadersRequest(0, None)
    for version, error in ((0, ErrorCode.NONE), (1, ERROR)):
        answer = elect_leaders.refuse(everywhere, ERROR, version, SAID)
        assert (answer.error_code, answer.replica_election_results) == (error, [])
    nobody = user_list.DescribeUserScramCredentialsRequest(None)
    assert describe_user_scram_credentials.refuse(nobody, ERROR, 0, SAID).results == []


def test_guard_of_one_right_refuses_by_the_function_it_gets() -> None:
    sender = access(version=1, api_key=ApiKey.ELECT_LEADERS)
    guard = whole.one(ALTER, ResourceType.CLUSTER, elect_leaders.refuse)
    answer = guard(sender, electing.ElectLeadersRequest(0, None), Handler())
    assert answer == electing.ElectLeadersResponse(error_code=CLUSTER_DENIED)


@pytest.mark.parametrize("route", [*ROUTES, *CLUSTER_ROUTES], ids=lambda route: route.api_key.name)
def test_each_route_with_one_right_can_refuse(route: Route) -> None:
    """The response has a field for the error, or the handler has a function `refuse`."""
    handler = import_module(route.handler_module)
    if route.needs is not None and not hasattr(handler, "guard"):
        response = response_class(route.api_key)()
        assert hasattr(handler, "refuse") or hasattr(response, "error_code")
