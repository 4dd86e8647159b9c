"""ShareAcknowledge (key 79): v1-2.

Behaviour
- A member acknowledges records that it has acquired.  It accepts them, releases them for another
  delivery, rejects them, or reports offsets without a record (gaps).  The response follows once
  the acknowledgements are written.
- Each partition has its own answer: INVALID_RECORD_STATE for records that the member has not
  acquired or has lost, INVALID_REQUEST for malformed batches.  A partition with an error does not
  change at all.
- A topic that the sender may not read gives TOPIC_AUTHORIZATION_FAILED, even if it does not exist.
- Epoch -1 ends the session and releases the member's records.  Epoch 0 is an error: only ShareFetch
  begins a session.
- UNSUPPORTED_VERSION if share groups are not enabled.

Version notes: acquisition locks can be renewed, and the response has their duration, from v2.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kwire.coordinators.share.session import BEGIN_EPOCH, END_EPOCH, ShareSession
from kwire.coordinators.share_partitions.acknowledging import (
    Acknowledgements,
    PartitionOutcome,
    acknowledge,
    acknowledgements_of,
)
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response
from kwire.requests.handlers.fetching.read_rights import who_may_read
from kwire.requests.handlers.share_group_heartbeat import is_served
from kwire.requests.route import Right, Route

ROUTE = Route(ApiKey.SHARE_ACKNOWLEDGE, 1, 2, Right(AclOperation.READ, ResourceType.GROUP))


def handle(
    broker: Broker, request: ShareAcknowledgeRequest, context: Context
) -> ShareAcknowledgeResponse | Awaitable[ShareAcknowledgeResponse]:
    """Apply the member's acknowledgements, and return one result per partition."""
    if not is_served(broker):
        return ShareAcknowledgeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if request.group_id is None or not request.member_id:
        return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST)
    session = _session(broker, request)
    if isinstance(session, ErrorCode):
        return ShareAcknowledgeResponse(error_code=session)
    return _answer(broker, request, context, session)


def _session(broker: Broker, request: ShareAcknowledgeRequest) -> ShareSession | ErrorCode:
    """Return the member's share session, or the error why it cannot be used.

    Epoch 0 would begin a session, which only ShareFetch may do.
    """
    reader = request.group_id or "", request.member_id or ""
    epoch = request.share_session_epoch
    if epoch == BEGIN_EPOCH:
        return ErrorCode.INVALID_SHARE_SESSION_EPOCH
    sessions = broker.shares.sessions
    return sessions.end(reader) if epoch == END_EPOCH else sessions.next(reader, epoch)


async def _answer(
    broker: Broker, request: ShareAcknowledgeRequest, context: Context, session: ShareSession
) -> ShareAcknowledgeResponse:
    """Write the acknowledgements, and return the response; epoch -1 also ends the session."""
    shares = broker.shares
    reader = request.group_id or "", request.member_id or ""
    acknowledgements = acknowledgements_of(request)
    outcomes = await acknowledge(
        shares,
        reader,
        acknowledgements,
        context.api_version,
        renews=request.is_renew_ack,
        may_read=who_may_read(broker, context),
    )
    if request.share_session_epoch == END_EPOCH:
        shares.release(reader, session)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=shares.settings.of(reader[0]).limits.lock_ms,
        responses=_by_topic(acknowledgements, outcomes),
    )


def _by_topic(
    acknowledgements: Acknowledgements, outcomes: list[PartitionOutcome]
) -> list[ShareAcknowledgeTopicResponse]:
    """Return the outcomes, in the order of the acknowledgements, grouped by topic id."""
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for ((topic_id, index), _), outcome in zip(acknowledgements, outcomes, strict=True):
        topic = topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id=topic_id))
        topic.partitions.append(
            PartitionData(
                partition_index=index, error_code=outcome.error, error_message=outcome.message
            )
        )
    return list(topics.values())


# -- rights


def guard(access: Access, request: ShareAcknowledgeRequest, proceed: Proceed) -> Response:
    """Require READ on the group; the handler checks the topics."""
    if not access.may(AclOperation.READ, ResourceType.GROUP, request.group_id or ""):
        return ShareAcknowledgeResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return proceed(request)
