"""ShareAcknowledge (key 79): v1-2.

Behaviour
- A member says what it has done with records that it has: accepted, released for somebody else,
  rejected for good, or found that there is none (a gap).  It is answered once that is written.
- Each partition has its own answer: INVALID_RECORD_STATE for what the member does not have (any
  longer), INVALID_REQUEST for what cannot be.  Then nothing of that partition has happened.
- Who may not read a topic is told TOPIC_AUTHORIZATION_FAILED of it, before it is looked for.
- Epoch -1 ends the session and gives back what the member has; 0 begins none here.
- UNSUPPORTED_VERSION where there are no share groups.

Version notes: locks are renewed, and their length told, from v2.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kwire.coordinators.share.session import BEGIN_EPOCH, END_EPOCH, ShareSession
from kwire.coordinators.share_partitions.acknowledging import Outcome, Said, acknowledge, said_in
from kwire.requests.context import Context
from kwire.requests.handlers.fetching.read_rights import who_may_read
from kwire.requests.handlers.share_group_heartbeat import is_served


def handle(
    broker: Broker, request: ShareAcknowledgeRequest, context: Context
) -> ShareAcknowledgeResponse | Awaitable[ShareAcknowledgeResponse]:
    if not is_served(broker):
        return ShareAcknowledgeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if request.group_id is None or not request.member_id:
        return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST)
    session = _session(broker, request)
    if isinstance(session, ErrorCode):
        return ShareAcknowledgeResponse(error_code=session)
    return _answer(broker, request, context, session)


def _session(broker: Broker, request: ShareAcknowledgeRequest) -> ShareSession | ErrorCode:
    reader = request.group_id or "", request.member_id or ""
    epoch = request.share_session_epoch
    if epoch == BEGIN_EPOCH:
        return ErrorCode.INVALID_SHARE_SESSION_EPOCH
    sessions = broker.shares.sessions
    return sessions.end(reader) if epoch == END_EPOCH else sessions.next(reader, epoch)


async def _answer(
    broker: Broker, request: ShareAcknowledgeRequest, context: Context, session: ShareSession
) -> ShareAcknowledgeResponse:
    shares = broker.shares
    reader = request.group_id or "", request.member_id or ""
    said = said_in(request)
    outcomes = await acknowledge(
        shares,
        reader,
        said,
        context.api_version,
        renews=request.is_renew_ack,
        may_read=who_may_read(broker, context),
    )
    if request.share_session_epoch == END_EPOCH:
        shares.release(reader, session)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=shares.settings.of(reader[0]).limits.lock_ms,
        responses=_by_topic(said, outcomes),
    )


def _by_topic(said: Said, outcomes: list[Outcome]) -> list[ShareAcknowledgeTopicResponse]:
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for ((topic_id, index), _), outcome in zip(said, outcomes, strict=True):
        topic = topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id=topic_id))
        topic.partitions.append(
            PartitionData(
                partition_index=index, error_code=outcome.error, error_message=outcome.sentence
            )
        )
    return list(topics.values())
