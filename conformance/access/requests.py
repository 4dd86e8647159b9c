"""One request of each API key, made so that it changes nothing where it is allowed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, TypeAlias

from kwire.codecs.batches import Record, build
from kwire.codecs.primitives import Message

TOPIC: Final = "present"
"""A topic with one partition, which is there."""
MISSING: Final = "missing"
INDEX: Final = 99
"""A partition that no topic has, so that nothing is written and read."""
GROUP, TRANSACTION = "group", "transaction"
OWNER: Final = "admin"
"""Of a delegation token, which is there."""
_CLUSTER, _BROKER, _TOPICS, _GROUPS = "kafka-cluster", 4, 2, 32


class Messages:
    """The classes of one API key's module: `Messages("produce", topic_id).ProduceRequest`.

    `topic_id` is that of TOPIC, which the broker has chosen.
    """

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name = name
        self.topic_id = topic_id
        self._module = import_module(f"kwire.codecs.messages.{name}")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - classes of any message
        return getattr(self._module, name)


Made: TypeAlias = Any
"""A request, of a class that is looked up by its name."""
Make = Callable[[Messages, int], Made]


def _produce(of: Messages, version: int) -> Made:
    data = of.PartitionProduceData(INDEX, build([Record(0, 0, None, b"x")]))
    topic = of.TopicProduceData(TOPIC, of.topic_id, [data])
    return of.ProduceRequest(None, 1, 1000, [topic])


def _fetch(of: Messages, version: int) -> Made:
    partition = of.FetchPartition(INDEX, partition_max_bytes=1)
    topics = [of.FetchTopic(TOPIC, of.topic_id, [partition])]
    return of.FetchRequest(max_bytes=1, topics=topics)


def _list_offsets(of: Messages, version: int) -> Made:
    asked = of.ListOffsetsPartition(INDEX, timestamp=-1)
    return of.ListOffsetsRequest(-1, 0, [of.ListOffsetsTopic(TOPIC, [asked])])


def _metadata(of: Messages, version: int) -> Made:
    names = (TOPIC,) if version < 4 else (TOPIC, MISSING)
    request = of.MetadataRequest([of.MetadataRequestTopic(name=name) for name in names])
    request.allow_auto_topic_creation = version < 4
    if version >= 8:
        request.include_topic_authorized_operations = True
        request.include_cluster_authorized_operations = version <= 10
    return request


def _offset_commit(of: Messages, version: int) -> Made:
    asked = of.OffsetCommitRequestPartition(INDEX)
    topics = [of.OffsetCommitRequestTopic(TOPIC, of.topic_id, [asked])]
    return of.OffsetCommitRequest(GROUP, topics=topics)


def _offset_fetch(of: Messages, version: int) -> Made:
    if version < 8:
        return of.OffsetFetchRequest(GROUP, [of.OffsetFetchRequestTopic(TOPIC, [0])])
    topics = [of.OffsetFetchRequestTopics(TOPIC, of.topic_id, [0])]
    return of.OffsetFetchRequest(groups=[of.OffsetFetchRequestGroup(GROUP, topics=topics)])


def _find_coordinator(of: Messages, version: int) -> Made:
    if version < 4:
        return of.FindCoordinatorRequest(GROUP)
    return of.FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])


def _join_group(of: Messages, version: int) -> Made:
    protocols = [of.JoinGroupRequestProtocol("range", b"")]
    return of.JoinGroupRequest(GROUP, 0, 0, "", protocol_type="consumer", protocols=protocols)


def _leave_group(of: Messages, version: int) -> Made:
    if version < 3:
        return of.LeaveGroupRequest(GROUP, "member")
    return of.LeaveGroupRequest(GROUP, members=[of.MemberIdentity("member")])


def _describe_groups(of: Messages, version: int) -> Made:
    return of.DescribeGroupsRequest([GROUP], version >= 3)


def _create_topics(of: Messages, version: int) -> Made:
    topics = [of.CreatableTopic(name, 1, 1) for name in (TOPIC, MISSING)]
    return of.CreateTopicsRequest(topics, 10_000, True)


def _delete_topics(of: Messages, version: int) -> Made:
    if version < 6:
        return of.DeleteTopicsRequest(topic_names=[MISSING], timeout_ms=10_000)
    return of.DeleteTopicsRequest([of.DeleteTopicState(MISSING)], timeout_ms=10_000)


def _delete_records(of: Messages, version: int) -> Made:
    asked = of.DeleteRecordsPartition(INDEX, 0)
    return of.DeleteRecordsRequest([of.DeleteRecordsTopic(TOPIC, [asked])], 1000)


def _offset_for_leader_epoch(of: Messages, version: int) -> Made:
    asked = of.OffsetForLeaderPartition(INDEX, -1, 0)
    return of.OffsetForLeaderEpochRequest(-1, [of.OffsetForLeaderTopic(TOPIC, [asked])])


def _add_partitions(of: Messages, version: int) -> Made:
    topics = [of.AddPartitionsToTxnTopic(TOPIC, [INDEX])]
    if version < 4:
        return of.AddPartitionsToTxnRequest([], TRANSACTION, 1, 0, topics)
    transaction = of.AddPartitionsToTxnTransaction(TRANSACTION, 1, 0, True, topics)
    return of.AddPartitionsToTxnRequest([transaction])


def _write_markers(of: Messages, version: int) -> Made:
    topics = [of.WritableTxnMarkerTopic(TOPIC, [INDEX])]
    return of.WriteTxnMarkersRequest([of.WritableTxnMarker(1, 0, True, topics, 0)])


def _txn_offset_commit(of: Messages, version: int) -> Made:
    asked = of.TxnOffsetCommitRequestPartition(INDEX, 0, committed_metadata="")
    topics = [of.TxnOffsetCommitRequestTopic(TOPIC, [asked])]
    return of.TxnOffsetCommitRequest(TRANSACTION, GROUP, 1, 0, topics=topics)


def _describe_acls(of: Messages, version: int) -> Made:
    return of.DescribeAclsRequest(2, "no-such", 3, None, None, 1, 1)


def _create_acls(of: Messages, version: int) -> Made:
    return of.CreateAclsRequest([of.AclCreation(4, "other", 3, "User:x", "*", 3, 3)])


def _delete_acls(of: Messages, version: int) -> Made:
    return of.DeleteAclsRequest([of.DeleteAclsFilter(2, "no-such", 3, None, None, 1, 1)])


def _describe_configs(of: Messages, version: int) -> Made:
    return of.DescribeConfigsRequest(
        [
            of.DescribeConfigsResource(kind, name, ["no.such"])
            for kind, name in ((_TOPICS, TOPIC), (_BROKER, ""), (_GROUPS, GROUP))
        ]
    )


def _alter_configs(of: Messages, version: int) -> Made:
    set_none = [
        of.AlterConfigsResource(kind, name, [])
        for kind, name in ((_TOPICS, MISSING), (_BROKER, "1"), (_GROUPS, GROUP))
    ]
    kind = getattr(of, of.name.title().replace("_", "") + "Request")
    return kind(set_none, True)


def _alter_replica_log_dirs(of: Messages, version: int) -> Made:
    topics = [of.AlterReplicaLogDirTopic(TOPIC, [INDEX])]
    return of.AlterReplicaLogDirsRequest([of.AlterReplicaLogDir("/no/such", topics)])


def _create_partitions(of: Messages, version: int) -> Made:
    wanted = [of.CreatePartitionsTopic(name, 1, None) for name in (TOPIC, MISSING)]
    return of.CreatePartitionsRequest(wanted, 10_000, True)


def _elect_leaders(of: Messages, version: int) -> Made:
    return of.ElectLeadersRequest(0, [of.TopicPartitions(MISSING, [0])], 10_000)


def _reassign(of: Messages, version: int) -> Made:
    wanted = of.ReassignableTopic(MISSING, [of.ReassignablePartition(0, None)])
    return of.AlterPartitionReassignmentsRequest(10_000, topics=[wanted])


def _offset_delete(of: Messages, version: int) -> Made:
    asked = of.OffsetDeleteRequestPartition(0)
    return of.OffsetDeleteRequest(GROUP, [of.OffsetDeleteRequestTopic(TOPIC, [asked])])


def _alter_quotas(of: Messages, version: int) -> Made:
    request = of.AlterClientQuotasRequest
    entry = of.RequestEntryData
    return request([entry([of.EntityData("user", "x")], [of.OpData("no.such", 1.0)])], True)


def _create_token(of: Messages, version: int) -> Made:
    """For somebody else where that can be said, and for nobody who may be a renewer."""
    request = of.CreateDelegationTokenRequest(renewers=[of.CreatableRenewers("Role", "x")])
    if version >= 3:
        request.owner_principal_type, request.owner_principal_name = "User", OWNER
    return request


def _update_features(of: Messages, version: int) -> Made:
    return of.UpdateFeaturesRequest(10_000, [of.FeatureUpdateKey("no.such", 1)])


REQUESTS: Final[dict[str, Make]] = {
    "produce": _produce,
    "fetch": _fetch,
    "list_offsets": _list_offsets,
    "metadata": _metadata,
    "offset_commit": _offset_commit,
    "offset_fetch": _offset_fetch,
    "find_coordinator": _find_coordinator,
    "join_group": _join_group,
    "heartbeat": lambda of, version: of.HeartbeatRequest(GROUP, 1, "member"),
    "leave_group": _leave_group,
    "sync_group": lambda of, version: of.SyncGroupRequest(
        GROUP, 1, "member", protocol_type="consumer", protocol_name="range"
    ),
    "describe_groups": _describe_groups,
    "consumer_group_heartbeat": lambda of, version: of.ConsumerGroupHeartbeatRequest(
        GROUP, "member", 1, subscribed_topic_names=[TOPIC]
    ),
    "consumer_group_describe": lambda of, version: of.ConsumerGroupDescribeRequest([GROUP], True),
    "list_groups": lambda of, version: of.ListGroupsRequest(),
    "api_versions": lambda of, version: of.ApiVersionsRequest("matrix", "1"),
    "create_topics": _create_topics,
    "delete_topics": _delete_topics,
    "delete_records": _delete_records,
    "init_producer_id": lambda of, version: of.InitProducerIdRequest(TRANSACTION, 0),
    "offset_for_leader_epoch": _offset_for_leader_epoch,
    "add_partitions_to_txn": _add_partitions,
    "add_offsets_to_txn": lambda of, version: of.AddOffsetsToTxnRequest(TRANSACTION, 1, 0, GROUP),
    "end_txn": lambda of, version: of.EndTxnRequest(TRANSACTION, 1, 0, True),
    "write_txn_markers": _write_markers,
    "txn_offset_commit": _txn_offset_commit,
    "describe_acls": _describe_acls,
    "create_acls": _create_acls,
    "delete_acls": _delete_acls,
    "describe_configs": _describe_configs,
    "alter_configs": _alter_configs,
    "alter_replica_log_dirs": _alter_replica_log_dirs,
    "describe_log_dirs": lambda of, version: of.DescribeLogDirsRequest([]),
    "create_partitions": _create_partitions,
    "delete_groups": lambda of, version: of.DeleteGroupsRequest([GROUP]),
    "elect_leaders": _elect_leaders,
    "incremental_alter_configs": _alter_configs,
    "alter_partition_reassignments": _reassign,
    "list_partition_reassignments": lambda of, version: of.ListPartitionReassignmentsRequest(
        10_000
    ),
    "offset_delete": _offset_delete,
    "describe_client_quotas": lambda of, version: of.DescribeClientQuotasRequest([], True),
    "alter_client_quotas": _alter_quotas,
    "describe_user_scram_credentials": lambda of, version: of.DescribeUserScramCredentialsRequest(
        [of.UserName("nobody-there")]
    ),
    "alter_user_scram_credentials": lambda of, version: of.AlterUserScramCredentialsRequest(
        [of.ScramCredentialDeletion("nobody-there", 1)]
    ),
    "create_delegation_token": _create_token,
    "renew_delegation_token": lambda of, version: of.RenewDelegationTokenRequest(b"no such", -1),
    "expire_delegation_token": lambda of, version: of.ExpireDelegationTokenRequest(b"no such", -1),
    "describe_delegation_token": lambda of, version: of.DescribeDelegationTokenRequest(None),
    "update_features": _update_features,
    "describe_cluster": lambda of, version: of.DescribeClusterRequest(True),
    "describe_producers": lambda of, version: of.DescribeProducersRequest(
        [of.TopicRequest(TOPIC, [INDEX])]
    ),
    "describe_transactions": lambda of, version: of.DescribeTransactionsRequest([TRANSACTION]),
    "list_transactions": lambda of, version: of.ListTransactionsRequest(),
    "get_telemetry_subscriptions": lambda of, version: of.GetTelemetrySubscriptionsRequest(),
    "push_telemetry": lambda of, version: of.PushTelemetryRequest(),
    "list_config_resources": lambda of, version: of.ListConfigResourcesRequest(),
    "describe_topic_partitions": lambda of, version: of.DescribeTopicPartitionsRequest(
        [of.TopicRequest(TOPIC), of.TopicRequest(MISSING)]
    ),
    "share_group_heartbeat": lambda of, version: of.ShareGroupHeartbeatRequest(
        GROUP, "member", 1, None, [TOPIC]
    ),
    "share_group_describe": lambda of, version: of.ShareGroupDescribeRequest([GROUP], True),
    "streams_group_heartbeat": lambda of, version: of.StreamsGroupHeartbeatRequest(
        GROUP,
        "member",
        0,
        rebalance_timeout_ms=1000,
        topology=of.Topology(0, [of.Subtopology("0", [TOPIC])]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="process",
        client_tags=[],
    ),
    "streams_group_describe": lambda of, version: of.StreamsGroupDescribeRequest([GROUP], True),
    "share_fetch": lambda of, version: of.ShareFetchRequest(GROUP, "member", 5),
    "share_acknowledge": lambda of, version: of.ShareAcknowledgeRequest(GROUP, "member", 5),
    "initialize_share_group_state": lambda of, version: of.InitializeShareGroupStateRequest(
        GROUP, [of.InitializeStateData(of.topic_id, [of.PartitionData(INDEX)])]
    ),
    "read_share_group_state": lambda of, version: of.ReadShareGroupStateRequest(
        GROUP, [of.ReadStateData(of.topic_id, [of.PartitionData(INDEX)])]
    ),
    "write_share_group_state": lambda of, version: of.WriteShareGroupStateRequest(
        GROUP, [of.WriteStateData(of.topic_id, [of.PartitionData(INDEX)])]
    ),
    "delete_share_group_state": lambda of, version: of.DeleteShareGroupStateRequest(
        GROUP, [of.DeleteStateData(of.topic_id, [of.PartitionData(INDEX)])]
    ),
    "read_share_group_state_summary": lambda of, version: of.ReadShareGroupStateSummaryRequest(
        GROUP, [of.ReadStateSummaryData(of.topic_id, [of.PartitionData(INDEX)])]
    ),
    "describe_share_group_offsets": lambda of, version: of.DescribeShareGroupOffsetsRequest(
        [
            of.DescribeShareGroupOffsetsRequestGroup(
                GROUP, [of.DescribeShareGroupOffsetsRequestTopic(MISSING, [INDEX])]
            )
        ]
    ),
    "alter_share_group_offsets": lambda of, version: of.AlterShareGroupOffsetsRequest(
        GROUP,
        [
            of.AlterShareGroupOffsetsRequestTopic(
                MISSING, [of.AlterShareGroupOffsetsRequestPartition(INDEX)]
            )
        ],
    ),
    "delete_share_group_offsets": lambda of, version: of.DeleteShareGroupOffsetsRequest(
        GROUP, [of.DeleteShareGroupOffsetsRequestTopic(MISSING)]
    ),
}
"""By the API key's name, small."""

_VERSIONS: Final = {
    "produce": (3, 13), "fetch": (4, 18), "list_offsets": (1, 11), "metadata": (0, 13),
    "offset_commit": (2, 10), "offset_fetch": (1, 10), "find_coordinator": (0, 6),
    "join_group": (0, 9), "heartbeat": (0, 4), "leave_group": (0, 5), "sync_group": (0, 5),
    "consumer_group_heartbeat": (0, 1), "consumer_group_describe": (0, 1),
    "describe_groups": (0, 6), "list_groups": (0, 5), "api_versions": (0, 4),
    "create_topics": (2, 7), "delete_topics": (1, 6), "delete_records": (0, 2),
    "init_producer_id": (0, 5), "offset_for_leader_epoch": (2, 4),
    "add_partitions_to_txn": (0, 5), "add_offsets_to_txn": (0, 4), "end_txn": (0, 5),
    "write_txn_markers": (1, 2), "txn_offset_commit": (0, 5), "describe_acls": (1, 3),
    "create_acls": (1, 3), "delete_acls": (1, 3), "describe_configs": (1, 4),
    "alter_configs": (0, 2), "alter_replica_log_dirs": (1, 2), "describe_log_dirs": (1, 5),
    "create_partitions": (0, 3), "delete_groups": (0, 2), "elect_leaders": (0, 2),
    "incremental_alter_configs": (0, 1), "alter_partition_reassignments": (0, 1),
    "list_partition_reassignments": (0, 0), "offset_delete": (0, 0), "describe_cluster": (0, 2),
    "describe_producers": (0, 0), "describe_transactions": (0, 0), "list_transactions": (0, 2),
    "describe_client_quotas": (0, 1), "alter_client_quotas": (0, 1), "update_features": (0, 2),
    "create_delegation_token": (1, 3), "renew_delegation_token": (1, 2),
    "expire_delegation_token": (1, 2), "describe_delegation_token": (1, 3),
    "describe_user_scram_credentials": (0, 0), "alter_user_scram_credentials": (0, 0),
    "get_telemetry_subscriptions": (0, 0), "push_telemetry": (0, 0),
    "list_config_resources": (0, 1), "describe_topic_partitions": (0, 0),
    "share_group_heartbeat": (1, 1), "share_group_describe": (1, 1), "share_fetch": (1, 2),
    "share_acknowledge": (1, 2),
    "initialize_share_group_state": (0, 0), "read_share_group_state": (0, 0),
    "write_share_group_state": (0, 1), "delete_share_group_state": (0, 0),
    "read_share_group_state_summary": (0, 1), "describe_share_group_offsets": (0, 1),
    "alter_share_group_offsets": (0, 0), "delete_share_group_offsets": (0, 0),
    "streams_group_heartbeat": (0, 0), "streams_group_describe": (0, 0),
}  # fmt: skip
ASKED: Final = {name: range(first, last + 1) for name, (first, last) in _VERSIONS.items()}


def request_of(name: str, version: int, topic_id: bytes) -> Message:
    message: Message = REQUESTS[name](Messages(name, topic_id), version)
    return message
