"""The responses to requests that are refused as a whole, if they need more than an error code.

In a message field Apache Kafka prints its Java object of the request, with memory addresses; this
broker says which right the request needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_client_quotas import (
    AlterClientQuotasResponse,
    ResponseEntryData,
)
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kwire.codecs.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kwire.codecs.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kwire.codecs.messages.create_acls import AclCreationResult, CreateAclsResponse
from kwire.codecs.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsResponse
from kwire.codecs.messages.describe_acls import DescribeAclsResponse
from kwire.codecs.messages.describe_client_quotas import DescribeClientQuotasResponse
from kwire.codecs.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kwire.codecs.messages.elect_leaders import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kwire.codecs.messages.init_producer_id import InitProducerIdResponse
from kwire.codecs.messages.join_group import JoinGroupResponse
from kwire.codecs.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
)
from kwire.codecs.messages.update_features import UpdateFeaturesResponse
from kwire.codecs.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kwire.requests.guards.base import Request, Response

_JOINS_WITH_NULL_SINCE = 7
_ELECTIONS_WITH_ERROR_SINCE = 1


def _join_group(
    request: Request, error: ErrorCode, version: int, message: str
) -> JoinGroupResponse:
    name = None if version >= _JOINS_WITH_NULL_SINCE else ""
    return JoinGroupResponse(error_code=error, protocol_name=name)


def _init_producer_id(
    request: Request, error: ErrorCode, version: int, message: str
) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=0)


def _write_txn_markers(
    request: Request, error: ErrorCode, version: int, message: str
) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        [
                            WritableTxnMarkerPartitionResult(index, error)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _alter_replica_log_dirs(
    request: Request,
    error: ErrorCode,
    version: int,
    message: str,
) -> AlterReplicaLogDirsResponse:
    partitions: dict[str, dict[int, None]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            partitions.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions))
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                name, [AlterReplicaLogDirPartitionResult(index, error) for index in indexes]
            )
            for name, indexes in partitions.items()
        ]
    )


def _elect_leaders(
    request: Request, error: ErrorCode, version: int, message: str
) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error if version >= _ELECTIONS_WITH_ERROR_SINCE else ErrorCode.NONE,
        replica_election_results=[
            ReplicaElectionResult(
                topic.topic,
                [PartitionResult(index, error, message) for index in topic.partitions],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _alter_partition_reassignments(
    request: Request,
    error: ErrorCode,
    version: int,
    message: str,
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=error,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                topic.name,
                [
                    ReassignablePartitionResponse(partition.partition_index, error, message)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _list_partition_reassignments(
    request: Request,
    error: ErrorCode,
    version: int,
    message: str,
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=error, error_message=message)


def _describe_client_quotas(
    request: Request, error: ErrorCode, version: int, message: str
) -> DescribeClientQuotasResponse:
    """Without a message, as in Kafka, where the broker and not the controller answers it."""
    return DescribeClientQuotasResponse(error_code=error, error_message=None, entries=None)


def _alter_client_quotas(
    request: Request, error: ErrorCode, version: int, message: str
) -> AlterClientQuotasResponse:
    denied = "Cluster authorization failed."
    return AlterClientQuotasResponse(
        entries=[ResponseEntryData(error, denied, entry.entity) for entry in request.entries]
    )


def _update_features(
    request: Request, error: ErrorCode, version: int, message: str
) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=error, error_message=message)


def _describe_acls(
    request: Request, error: ErrorCode, version: int, message: str
) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error, error_message=message)


def _create_acls(
    request: Request, error: ErrorCode, version: int, message: str
) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error, message) for _ in request.creations]
    )


def _delete_acls(
    request: Request, error: ErrorCode, version: int, message: str
) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error, message) for _ in request.filters]
    )


def _describe_user_scram_credentials(
    request: Request, error: ErrorCode, version: int, message: str
) -> DescribeUserScramCredentialsResponse:
    """One result per requested user, without name and message, as in Kafka."""
    results = [
        DescribeUserScramCredentialsResult(error_code=error, error_message=None)
        for _ in request.users or ()
    ]
    return DescribeUserScramCredentialsResponse(
        error_code=error, error_message=None, results=results
    )


def _alter_user_scram_credentials(
    request: Request, error: ErrorCode, version: int, message: str
) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys(change.name for change in (*request.deletions, *request.upsertions))
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user, error, message) for user in users]
    )


REFUSALS: Final[dict[ApiKey, Callable[[Request, ErrorCode, int, str], Response]]] = {
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.DESCRIBE_ACLS: _describe_acls,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _describe_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_user_scram_credentials,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_partition_reassignments,
    ApiKey.UPDATE_FEATURES: _update_features,
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
}
