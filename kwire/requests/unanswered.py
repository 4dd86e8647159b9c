"""The answer to a request for the controllers that none of them has answered.

Apache Kafka's requests make it themselves (`getErrorResponse`): the error stands where the client
of that API looks for it, which is mostly beside each thing that the request names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode, put_error
from kwire.codecs.messages import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    response_class,
)
from kwire.codecs.messages.create_delegation_token import CreateDelegationTokenResponse
from kwire.requests.context import ANONYMOUS
from kwire.requests.token_requests import ERROR_TIMESTAMP_MS, REQUESTER_SINCE

if TYPE_CHECKING:
    from kwire.codecs.primitives import Message

Respond = Callable[[Any, ErrorCode], Any]
"""Returns the response to a request in which everything has the error."""


def unanswered(request: Message, version: int, error: ErrorCode) -> Message:
    """Return the response to a request for the controllers that failed as a whole."""
    assert request.API_KEY is not None
    respond = _IN_PARTS.get(request.API_KEY, _whole)
    response: Message = respond(request, error)
    if request.API_KEY == ApiKey.ELECT_LEADERS and version == 0:
        put_error(response, ErrorCode.NONE)  # only its parts have errors in this version
    if isinstance(response, CreateDelegationTokenResponse) and version >= REQUESTER_SINCE:
        response.token_requester_principal_type = response.principal_type
        response.token_requester_principal_name = response.principal_name
    return response


def _whole(request: Any, error: ErrorCode) -> Any:  # noqa: ANN401 - of many APIs
    response = response_class(request.API_KEY)()
    has_field = put_error(response, error)
    assert has_field, f"{type(response).__name__} has no error_code"
    if hasattr(response, "error_message"):
        is_told = request.API_KEY in _WITH_TEXT
        is_told |= request.API_KEY in _WITH_OWN_TEXT and error == ErrorCode.UNKNOWN_SERVER_ERROR
        response.error_message = _TEXTS.get(error) if is_told else None
    return response


def _create_token(request: Any, error: ErrorCode) -> Any:  # noqa: ANN401 - by API key
    kind, _, name = ANONYMOUS.partition(":")
    return CreateDelegationTokenResponse(
        error,
        kind,
        name,
        issue_timestamp_ms=ERROR_TIMESTAMP_MS,
        expiry_timestamp_ms=ERROR_TIMESTAMP_MS,
        max_timestamp_ms=ERROR_TIMESTAMP_MS,
    )


def _create_topics(request: Any, error: ErrorCode) -> Any:  # noqa: ANN401 - by API key
    result = create_topics.CreatableTopicResult
    return create_topics.CreateTopicsResponse(
        topics=[
            result(topic.name, error_code=error, error_message=None) for topic in request.topics
        ]
    )


def _delete_topics(request: Any, error: ErrorCode) -> Any:  # noqa: ANN401 - by API key
    result = delete_topics.DeletableTopicResult
    by_state = [result(each.name, each.topic_id, error) for each in request.topics]
    by_name = [result(name, error_code=error) for name in request.topic_names]
    return delete_topics.DeleteTopicsResponse(responses=by_state or by_name)


def _create_partitions(request: Any, error: ErrorCode) -> Any:  # noqa: ANN401 - by API key
    result = create_partitions.CreatePartitionsTopicResult
    return create_partitions.CreatePartitionsResponse(
        results=[result(topic.name, error) for topic in request.topics]
    )


def _create_acls(request: Any, error: ErrorCode) -> Any:  # noqa: ANN401 - by API key
    result = create_acls.AclCreationResult
    return create_acls.CreateAclsResponse(results=[result(error, None) for _ in request.creations])


def _delete_acls(request: Any, error: ErrorCode) -> Any:  # noqa: ANN401 - by API key
    result = delete_acls.DeleteAclsFilterResult
    return delete_acls.DeleteAclsResponse(
        filter_results=[result(error, None) for _ in request.filters]
    )


def _by_resource(result: Callable[..., Any], response: Callable[..., Any]) -> Respond:
    """Return what responds to changed configs with a `result` for each resource."""

    def respond(request: Any, error: ErrorCode) -> Any:  # noqa: ANN401 - of two APIs
        return response(
            responses=[
                result(error, None, each.resource_type, each.resource_name)
                for each in request.resources
            ]
        )

    return respond


def _elect_leaders(request: Any, error: ErrorCode) -> Any:  # noqa: ANN401 - by API key
    result = elect_leaders.PartitionResult
    return elect_leaders.ElectLeadersResponse(
        error_code=error,
        replica_election_results=[
            elect_leaders.ReplicaElectionResult(
                topic.topic, [result(index, error, None) for index in topic.partitions]
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _reassign(request: Any, error: ErrorCode) -> Any:  # noqa: ANN401 - by API key
    messages = alter_partition_reassignments
    return messages.AlterPartitionReassignmentsResponse(
        error_code=error,
        error_message=None,
        responses=[
            messages.ReassignableTopicResponse(
                topic.name,
                [
                    messages.ReassignablePartitionResponse(each.partition_index, error, None)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _list_reassignments(request: Any, error: ErrorCode) -> Any:  # noqa: ANN401 - by API key
    messages = list_partition_reassignments
    return messages.ListPartitionReassignmentsResponse(
        error_code=error,
        error_message=None,
        topics=[
            messages.OngoingTopicReassignment(
                topic.name,
                [messages.OngoingPartitionReassignment(index) for index in topic.partition_indexes],
            )
            for topic in request.topics or ()
        ],
    )


def _alter_quotas(request: Any, error: ErrorCode) -> Any:  # noqa: ANN401 - by API key
    messages = alter_client_quotas
    return messages.AlterClientQuotasResponse(
        entries=[
            messages.ResponseEntryData(error, _TEXTS.get(error), each.entity)
            for each in request.entries
        ]
    )


def _alter_credentials(request: Any, error: ErrorCode) -> Any:  # noqa: ANN401 - by API key
    result = alter_user_scram_credentials.AlterUserScramCredentialsResult
    users = dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))
    return alter_user_scram_credentials.AlterUserScramCredentialsResponse(
        results=[result(user, error, None) for user in users]
    )


_TEXTS: Final = {
    ErrorCode.REQUEST_TIMED_OUT: "The request timed out.",
    ErrorCode.UNKNOWN_SERVER_ERROR: (
        "The server experienced an unexpected error when processing the request."
    ),
}
"""Apache Kafka's texts of the errors."""
_WITH_TEXT: Final = frozenset(
    {ApiKey.DESCRIBE_QUORUM, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER}
)
"""Requests whose response has the text of the error."""
_WITH_OWN_TEXT: Final = frozenset({ApiKey.UNREGISTER_BROKER, ApiKey.UNREGISTER_CONTROLLER})
"""Requests whose response has the text of the exception, and that of a timeout has none."""

_IN_PARTS: Final[dict[int, Respond]] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_CONFIGS: _by_resource(
        alter_configs.AlterConfigsResourceResponse, alter_configs.AlterConfigsResponse
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _by_resource(
        incremental_alter_configs.AlterConfigsResourceResponse,
        incremental_alter_configs.IncrementalAlterConfigsResponse,
    ),
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassign,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_reassignments,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_credentials,
    ApiKey.CREATE_DELEGATION_TOKEN: _create_token,
}
"""The requests whose response has more than the error of the whole request."""
