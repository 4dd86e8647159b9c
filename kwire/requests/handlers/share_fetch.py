"""ShareFetch (key 78): v1-2.

Behaviour
- A member acknowledges records (see ShareAcknowledge) and acquires others, from the partitions of
  its share session.  Epoch 0 begins a session; -1 ends it and releases the member's records.
- The response waits up to `max_wait_ms` until `min_bytes` can be read and the member can acquire a
  record.  With a `min_bytes` of 0 it does not wait.  It has whole batches, and says which of their
  records the member has acquired and how long the acquisition lock lasts.
- The response has partitions that are new in the session, that have records or an error, whose
  error has ended, or of which the request acknowledges records.
- A session also ends with the connection on which it began.
- A request that renews acquisition locks (KIP-1222) must not fetch: INVALID_REQUEST.
- While the session has an unknown topic id, the response is UNKNOWN_SERVER_ERROR, after the
  acknowledgements are written.  It comes after the wait if the session has other topics or a new
  topic has the name of the deleted one, else at once.
- SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH; SHARE_SESSION_LIMIT_REACHED after the wait.
- UNSUPPORTED_VERSION if share groups are not enabled.

Version notes: strict limits of records and renewed locks from v2.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

import trio

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_fetch import (
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kwire.coordinators.share.session import BEGIN_EPOCH, END_EPOCH, ShareSession, TopicIdPartition
from kwire.coordinators.share_partitions.acknowledging import (
    Acknowledgements,
    PartitionOutcome,
    acknowledge,
    acknowledgements_of,
)
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response
from kwire.requests.handlers.fetching.read_rights import who_may_read
from kwire.requests.handlers.fetching.share_fetch import ShareFetch, SharePartitionAnswers
from kwire.requests.handlers.share_group_heartbeat import is_served
from kwire.requests.route import Right, Route

ROUTE = Route(ApiKey.SHARE_FETCH, 1, 2, Right(AclOperation.READ, ResourceType.GROUP))


def handle(
    broker: Broker, request: ShareFetchRequest, context: Context
) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
    """Apply the member's acknowledgements, then acquire records for it and return them.

    The first request of a session has no acknowledgements: INVALID_REQUEST.
    """
    if not is_served(broker):
        return ShareFetchResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if request.group_id is None or not request.member_id or _renews_and_fetches(request):
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    acknowledgements = [
        (place, batches) for place, batches in acknowledgements_of(request) if batches
    ]
    if request.share_session_epoch == BEGIN_EPOCH and acknowledgements:
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    session = _session(broker, request, context)
    if session is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
        return _refused_later(request, session)
    if isinstance(session, ErrorCode):
        return ShareFetchResponse(error_code=session)
    work = _ShareFetchWork(
        session, session.next_order(), acknowledgements, who_may_read(broker, context)
    )
    return _answer(broker, request, context.api_version, work)


def _renews_and_fetches(request: ShareFetchRequest) -> bool:
    limits = request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records
    return request.is_renew_ack and any(limits)


async def _refused_later(request: ShareFetchRequest, error: ErrorCode) -> ShareFetchResponse:
    """Return a response with `error` after `max_wait_ms`.

    The wait keeps the client from retrying in a tight loop.
    """
    await trio.sleep(max(request.max_wait_ms, 0) / 1000)
    return ShareFetchResponse(error_code=error)


def _session(
    broker: Broker, request: ShareFetchRequest, context: Context
) -> ShareSession | ErrorCode:
    """Begin, continue or end the member's share session; return it, or the error.

    The request changes the partitions of the session.  A session ends with the connection that has
    begun it.
    """
    shares = broker.shares
    reader = request.group_id or "", request.member_id or ""
    epoch = request.share_session_epoch
    if epoch == END_EPOCH:
        return shares.sessions.end(reader)
    if epoch == BEGIN_EPOCH:
        session = shares.sessions.begin(reader, broker.config.group_share_max_share_sessions)
        if isinstance(session, ShareSession):
            context.on_end = partial(shares.disconnected, reader, session)
    else:
        session = shares.sessions.next(reader, epoch)
    if isinstance(session, ShareSession):
        session.change(
            ((topic.topic_id, each.partition_index) for topic in request.topics
             for each in topic.partitions),
            ((topic.topic_id, each) for topic in request.forgotten_topics_data
             for each in topic.partitions),
        )  # fmt: skip
        for topic in request.topics:
            name = broker.metadata.topic_name(topic.topic_id)
            if name is not None:
                session.names[topic.topic_id] = name
    return session


class _ShareFetchWork(NamedTuple):
    """What one request reads and acknowledges; `may_read` is None without an authorizer."""

    session: ShareSession
    places: list[TopicIdPartition]
    acknowledgements: Acknowledgements
    may_read: Callable[[TopicIdPartition], bool] | None


async def _answer(
    broker: Broker, request: ShareFetchRequest, version: int, work: _ShareFetchWork
) -> ShareFetchResponse:
    """Write the acknowledgements, then fetch; return the response.

    It fetches nothing if the session ends, or if the request only renews acquisition locks.
    """
    shares = broker.shares
    reader = request.group_id or "", request.member_id or ""
    outcomes = await acknowledge(
        shares,
        reader,
        work.acknowledgements,
        version,
        renews=request.is_renew_ack,
        may_read=work.may_read,
    )
    answers: SharePartitionAnswers = {}
    if request.share_session_epoch == END_EPOCH:
        shares.release(reader, work.session)
    elif not request.is_renew_ack:
        answers = await _fetch(broker, request, work)
    for (place, _), outcome in zip(work.acknowledgements, outcomes, strict=True):
        _add_outcome(answers, place, outcome)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=shares.settings.of(reader[0]).limits.lock_ms,
        responses=_by_topic(answers),
    )


async def _fetch(
    broker: Broker, request: ShareFetchRequest, work: _ShareFetchWork
) -> SharePartitionAnswers:
    """Acquire records from the session's partitions, and record in the session what was sent.

    A partition without records is in the response only if the session must report it.
    """
    session = work.session
    refused: dict[TopicIdPartition, ErrorCode] = {}
    for place in work.places:
        if broker.metadata.topic_name(place[0]) is None:
            is_deleted = place[0] in session.names
            refused[place] = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_deleted else ErrorCode.UNKNOWN_TOPIC_ID
            )
        elif work.may_read is not None and not work.may_read(place):
            refused[place] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    fetch = ShareFetch(
        broker, broker.shares, request, [place for place in work.places if place not in refused]
    )
    answers = await fetch.run()
    for place, error in refused.items():
        answers[place] = PartitionData(partition_index=place[1], error_code=error, records=b"")
    for place in fetch.open:
        if session.must_report(place):
            answers.setdefault(place, PartitionData(partition_index=place[1], records=b""))
    for place, data in answers.items():
        session.record_result(place, succeeded=data.error_code == ErrorCode.NONE)
    return answers


def _add_outcome(
    answers: SharePartitionAnswers, place: TopicIdPartition, outcome: PartitionOutcome
) -> None:
    """Add the outcome of an acknowledgement to the partition's answer."""
    data = answers.setdefault(place, PartitionData(partition_index=place[1], records=b""))
    data.acknowledge_error_code = outcome.error
    data.acknowledge_error_message = outcome.message


def _by_topic(answers: SharePartitionAnswers) -> list[ShareFetchableTopicResponse]:
    """Return the answers of the partitions, grouped by topic id."""
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    for (topic_id, _), data in answers.items():
        topic = topics.setdefault(topic_id, ShareFetchableTopicResponse(topic_id=topic_id))
        topic.partitions.append(data)
    return list(topics.values())


# -- rights


def guard(access: Access, request: ShareFetchRequest, proceed: Proceed) -> Response:
    """Require READ on the group.

    The handler checks the topics, because the session has some that the request does not name: see
    kwire.requests.handlers.fetching.read_rights.
    """
    if not access.may(AclOperation.READ, ResourceType.GROUP, request.group_id or ""):
        return ShareFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return proceed(request)
