"""One valid request of each API key, as the base of mutations and unusual deliveries.

Requests that change a cluster are only validated, since a flipped bit may turn one partition into
thousands. Groups have no members, so that no request waits for others to join.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.batches import Compression
from kwire.codecs.compression import compress
from kwire.codecs.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kwire.codecs.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codecs.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.codecs.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from kwire.codecs.messages.api_versions import ApiVersionsRequest
from kwire.codecs.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.codecs.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.codecs.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from kwire.codecs.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kwire.codecs.messages.delete_groups import DeleteGroupsRequest
from kwire.codecs.messages.describe_acls import DescribeAclsRequest
from kwire.codecs.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kwire.codecs.messages.describe_cluster import DescribeClusterRequest
from kwire.codecs.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.codecs.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kwire.codecs.messages.describe_groups import DescribeGroupsRequest
from kwire.codecs.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from kwire.codecs.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kwire.codecs.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from kwire.codecs.messages.describe_topic_partitions import TopicRequest as DescribedTopic
from kwire.codecs.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from kwire.codecs.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kwire.codecs.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.codecs.messages.list_config_resources import ListConfigResourcesRequest
from kwire.codecs.messages.list_groups import ListGroupsRequest
from kwire.codecs.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.codecs.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.codecs.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kwire.codecs.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.codecs.messages.push_telemetry import PushTelemetryRequest
from kwire.codecs.messages.renew_delegation_token import RenewDelegationTokenRequest
from kwire.codecs.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest
from kwire.codecs.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.codecs.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.codecs.messages.unregister_controller import UnregisterControllerRequest
from kwire.codecs.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.codecs.primitives import Message
from kwire.conformance.behaviour.asking import (
    SET,
    TOPIC,
    add_partitions,
    alter,
    create_topic,
    delete_records,
    delete_topic,
    list_offsets,
    offset_fetch,
)
from kwire.conformance.hostile.sound_transactions import TRANSACTION_REQUESTS
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases import (
    add_raft_voter,
    describe_quorum,
    remove_raft_voter,
    unregister_broker,
)
from kwire.conformance.wire.cases.build import (
    ALLOW,
    ANY,
    LITERAL,
    READ,
    batch,
    commit,
    fetch,
    join,
    produce,
    sync,
)
from kwire.conformance.wire.cases.build import TOPIC as TOPIC_ACLS
from kwire.conformance.wire.cases.consumer_group import join as join_consumer_group
from kwire.conformance.wire.cases.share_group import acknowledge as share_acknowledge
from kwire.conformance.wire.cases.share_group import fetch as share_fetch
from kwire.conformance.wire.cases.share_group import join as join_share_group
from kwire.conformance.wire.cases.share_offsets import alter as alter_share_offsets
from kwire.conformance.wire.cases.share_offsets import delete as delete_share_offsets
from kwire.conformance.wire.cases.share_offsets import describe as describe_share_offsets
from kwire.conformance.wire.cases.share_state import REQUESTS as SHARE_STATE_REQUESTS
from kwire.conformance.wire.cases.streams_group import complete_topology
from kwire.conformance.wire.cases.streams_group import join as join_streams_group
from kwire.conformance.wire.cases.streams_group_topology_description_update import (
    update as update_description,
)
from kwire.conformance.wire.stage import Stage

Make = Callable[[Stage, CaseTopic, int], Message]
"""A function of stage, topic with some records, and version; its request is answered at once."""

TELEMETRY_INSTANCE = b"hostile-instance"
RETENTION = "retention.ms"


def _metadata(stage: Stage, topic: CaseTopic, version: int) -> Message:
    topics = [MetadataRequestTopic(name=topic.name)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=version < 4)


def _offset_fetch(stage: Stage, topic: CaseTopic, version: int) -> Message:
    if version >= 8:
        return offset_fetch(stage.name("g"), topic, 0)
    return OffsetFetchRequest(stage.name("g"), [OffsetFetchRequestTopic(topic.name, [0])])


def _find_coordinator(stage: Stage, topic: CaseTopic, version: int) -> Message:
    """Return a request for one group; from version 4 on it has a list of keys."""
    group_id = stage.name("g")
    if version < 4:
        return FindCoordinatorRequest(key=group_id)
    return FindCoordinatorRequest(coordinator_keys=[group_id])


def _leave_group(stage: Stage, topic: CaseTopic, version: int) -> Message:
    if version < 3:
        return LeaveGroupRequest(group_id=stage.name("g"), member_id="m-1")
    return LeaveGroupRequest(group_id=stage.name("g"), members=[MemberIdentity("m-1")])


def _delete_topics(stage: Stage, topic: CaseTopic, version: int) -> Message:
    """Return a request for a missing topic; before version 6 it has a list of names."""
    request = delete_topic(stage.name("none"))
    if version < 6:
        request.topics, request.topic_names = [], [stage.name("none")]
    return request


def _describe_log_dirs(stage: Stage, topic: CaseTopic, version: int) -> Message:
    return DescribeLogDirsRequest([DescribableLogDirTopic(topic.name, [0])])


def _epoch_end(stage: Stage, topic: CaseTopic, version: int) -> Message:
    partition = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    return OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic.name, [partition])])


def _offset_delete(stage: Stage, topic: CaseTopic, version: int) -> Message:
    partitions = [OffsetDeleteRequestPartition(0)]
    return OffsetDeleteRequest(stage.name("g"), [OffsetDeleteRequestTopic(topic.name, partitions)])


def _alter_configs(stage: Stage, topic: CaseTopic, version: int) -> Message:
    resource = AlterConfigsResource(TOPIC, topic.name, [AlterableConfig(RETENTION, "1000000")])
    return AlterConfigsRequest([resource], validate_only=True)


def _describe_configs(stage: Stage, topic: CaseTopic, version: int) -> Message:
    return DescribeConfigsRequest([DescribeConfigsResource(TOPIC, topic.name, [RETENTION])])


def _cancel_reassignment(stage: Stage, topic: CaseTopic, version: int) -> Message:
    """Return a request without replicas, which cancels a reassignment; there is none to cancel."""
    cancelled = ReassignableTopic(topic.name, [ReassignablePartition(0, None)])
    return AlterPartitionReassignmentsRequest(topics=[cancelled])


def _share_state(key: ApiKey) -> Make:
    """Return a request for the share state of a partition that has none."""
    make = SHARE_STATE_REQUESTS[key]
    return lambda stage, topic, version: make(stage.name("g"), topic.id, 0)


SOUND_REQUESTS: Mapping[ApiKey, Make] = {
    **TRANSACTION_REQUESTS,
    ApiKey.PRODUCE: lambda stage, topic, version: produce(
        topic, batch(stage, b"a", b"b", keyed=True, compression=Compression.NONE)
    ),
    ApiKey.FETCH: lambda stage, topic, version: fetch(topic),
    ApiKey.LIST_OFFSETS: lambda stage, topic, version: list_offsets(topic, -1),
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_COMMIT: lambda stage, topic, version: commit(stage.name("g"), topic),
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: lambda stage, topic, version: join(stage.name("g"), "m-1"),
    ApiKey.HEARTBEAT: lambda stage, topic, version: HeartbeatRequest(stage.name("g"), 1, "m-1"),
    ApiKey.LEAVE_GROUP: _leave_group,
    ApiKey.SYNC_GROUP: lambda stage, topic, version: sync(stage.name("g"), "m-1"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda stage, topic, version: join_consumer_group(
        stage.name("g"), "m-1", topic
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda stage, topic, version: ConsumerGroupDescribeRequest(
        [stage.name("g")]
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: lambda stage, topic, version: join_share_group(
        stage.name("g"), "m-1", topic
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: lambda stage, topic, version: ShareGroupDescribeRequest(
        [stage.name("g")]
    ),
    ApiKey.SHARE_FETCH: lambda stage, topic, version: share_fetch(stage.name("g"), "m-1", 0, topic),
    ApiKey.SHARE_ACKNOWLEDGE: lambda stage, topic, version: share_acknowledge(
        stage.name("g"), "m-1", 1, topic, (0, 4, [1])
    ),
    **{key: _share_state(key) for key in SHARE_STATE_REQUESTS},
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: lambda stage, topic, version: describe_share_offsets(
        stage.name("g"), (topic.name, [0])
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: lambda stage, topic, version: alter_share_offsets(
        stage.name("g"), (topic.name, [(0, 1)])
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: lambda stage, topic, version: delete_share_offsets(
        stage.name("g"), topic.name
    ),
    ApiKey.STREAMS_GROUP_HEARTBEAT: lambda stage, topic, version: join_streams_group(
        stage.name("g"), "m-1", complete_topology(topic)
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: lambda stage, topic, version: StreamsGroupDescribeRequest(
        [stage.name("g")]
    ),
    ApiKey.DESCRIBE_GROUPS: lambda stage, topic, version: DescribeGroupsRequest([stage.name("g")]),
    ApiKey.LIST_GROUPS: lambda stage, topic, version: ListGroupsRequest(),
    ApiKey.API_VERSIONS: lambda stage, topic, version: ApiVersionsRequest("hostile", "1.0"),
    ApiKey.CREATE_TOPICS: lambda stage, topic, version: create_topic(
        stage.name("new"), validate=True, retention_ms="1000000"
    ),
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: lambda stage, topic, version: delete_records(topic, 1),
    ApiKey.INIT_PRODUCER_ID: lambda stage, topic, version: InitProducerIdRequest(None, 60_000),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _epoch_end,
    ApiKey.DESCRIBE_ACLS: lambda stage, topic, version: DescribeAclsRequest(
        ANY, None, ANY, None, None, ANY, ANY
    ),
    ApiKey.CREATE_ACLS: lambda stage, topic, version: CreateAclsRequest(
        [AclCreation(TOPIC_ACLS, topic.name, LITERAL, "User:alice", "*", READ, ALLOW)]
    ),
    ApiKey.DELETE_ACLS: lambda stage, topic, version: DeleteAclsRequest(
        [DeleteAclsFilter(TOPIC_ACLS, topic.name, LITERAL, None, None, ANY, ANY)]
    ),
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: lambda stage, topic, version: AlterReplicaLogDirsRequest(
        [AlterReplicaLogDir("/no/such/directory", [AlterReplicaLogDirTopic(topic.name, [0])])]
    ),
    ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: lambda stage, topic, version: add_partitions(
        topic.name, 2, validate=True
    ),
    ApiKey.ELECT_LEADERS: lambda stage, topic, version: ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic.name, [0])]
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _cancel_reassignment,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda stage, topic, version: (
        ListPartitionReassignmentsRequest(
            topics=[ListPartitionReassignmentsTopics(topic.name, [0])]
        )
    ),
    ApiKey.DELETE_GROUPS: lambda stage, topic, version: DeleteGroupsRequest([stage.name("g")]),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda stage, topic, version: alter(
        topic.name, (RETENTION, SET, "1000000"), validate=True
    ),
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.DESCRIBE_CLUSTER: lambda stage, topic, version: DescribeClusterRequest(),
    ApiKey.DESCRIBE_PRODUCERS: lambda stage, topic, version: DescribeProducersRequest(
        [TopicRequest(topic.name, [0])]
    ),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: lambda stage, topic, version: (
        GetTelemetrySubscriptionsRequest(TELEMETRY_INSTANCE)
    ),
    ApiKey.PUSH_TELEMETRY: lambda stage, topic, version: PushTelemetryRequest(
        TELEMETRY_INSTANCE, 0, True, Compression.GZIP, compress(Compression.GZIP, b"metrics" * 99)
    ),
    ApiKey.LIST_CONFIG_RESOURCES: lambda stage, topic, version: ListConfigResourcesRequest(),
    ApiKey.SASL_HANDSHAKE: lambda stage, topic, version: SaslHandshakeRequest("PLAIN"),
    ApiKey.SASL_AUTHENTICATE: lambda stage, topic, version: SaslAuthenticateRequest(b"\0a\0b"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda stage, topic, version: DescribeClientQuotasRequest(
        [ComponentData("user", 0, stage.name("u"))], strict=True
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: lambda stage, topic, version: AlterClientQuotasRequest(
        [
            RequestEntryData(
                [EntityData("user", stage.name("u"))], [OpData("producer_byte_rate", 0.0, True)]
            )
        ],
        validate_only=True,
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda stage, topic, version: (
        DescribeUserScramCredentialsRequest([UserName(stage.name("u"))])
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda stage, topic, version: (
        AlterUserScramCredentialsRequest([ScramCredentialDeletion(stage.name("u"), 1)])
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: lambda stage, topic, version: CreateDelegationTokenRequest(
        renewers=[CreatableRenewers("User", stage.name("u"))]
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: lambda stage, topic, version: RenewDelegationTokenRequest(
        b"hmac", 1000
    ),
    ApiKey.EXPIRE_DELEGATION_TOKEN: lambda stage, topic, version: ExpireDelegationTokenRequest(
        b"hmac", 1000
    ),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: lambda stage, topic, version: DescribeDelegationTokenRequest(
        [DescribeDelegationTokenOwner("User", stage.name("u"))]
    ),
    ApiKey.UPDATE_FEATURES: lambda stage, topic, version: UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="transaction.version", max_version_level=2)],
        validate_only=True,
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda stage, topic, version: DescribeTopicPartitionsRequest(
        [DescribedTopic(topic.name)], 10
    ),
    ApiKey.DESCRIBE_QUORUM: lambda stage, topic, version: describe_quorum.access_request(
        version, topic.id
    ),
    ApiKey.ADD_RAFT_VOTER: lambda stage, topic, version: add_raft_voter.access_request(
        version, topic.id
    ),
    ApiKey.REMOVE_RAFT_VOTER: lambda stage, topic, version: remove_raft_voter.access_request(
        version, topic.id
    ),
    ApiKey.UNREGISTER_BROKER: lambda stage, topic, version: unregister_broker.access_request(
        version, topic.id
    ),
    ApiKey.UNREGISTER_CONTROLLER: lambda stage, topic, version: UnregisterControllerRequest(
        unregister_broker.NOBODY
    ),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: lambda stage, topic, version: (
        update_description(stage.name("g"))
    ),
}
