"""ShareFetch (key 78): v1-2.

Behaviour
- A member says what it has done with records (see ShareAcknowledge) and gets others, of the
  partitions of its session: epoch 0 begins one, -1 ends it and gives back what the member has.
- The reply waits up to `max_wait_ms` until there is a record for the member; `min_bytes` does not
  count.  It has whole batches, and says which of their records the member has, for how long.
- In the first reply of a session are all its partitions, in later ones those with records, with an
  error, or of which something was said.
- SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED.
- UNSUPPORTED_VERSION where there are no share groups.

Version notes: strict limits of records and renewed locks from v2.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple

from kwire.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_fetch import (
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kwire.context import Context
from kwire.handlers.share_group_heartbeat import is_served
from kwire.share.session import BEGIN_EPOCH, END_EPOCH, Place, ShareSession
from kwire.sharing.acknowledging import Outcome, Said, acknowledge, said_in
from kwire.sharing.fetching import Found, ShareFetch


def handle(
    broker: Broker, request: ShareFetchRequest, context: Context
) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
    if not is_served(broker):
        return ShareFetchResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if request.group_id is None or not request.member_id:
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    said = said_in(request)
    if request.share_session_epoch == BEGIN_EPOCH and said:
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    session = _session(broker, request)
    if isinstance(session, ErrorCode):
        return ShareFetchResponse(error_code=session)
    places = session.turn()
    denied: list[Place] = []
    if broker.authorizer is not None:
        from kwire.security.guards.shares import split_readable

        places, denied = split_readable(broker, context, places)
        said = [each for each in said if each[0] not in denied]
    return _answer(broker, request, context.api_version, Turn(session, places, denied), said)


def _session(broker: Broker, request: ShareFetchRequest) -> ShareSession | ErrorCode:
    sessions = broker.shares.sessions
    reader = request.group_id or "", request.member_id or ""
    epoch = request.share_session_epoch
    if epoch == END_EPOCH:
        return sessions.end(reader)
    if epoch == BEGIN_EPOCH:
        session = sessions.begin(reader, broker.config.group_share_max_share_sessions)
    else:
        session = sessions.next(reader, epoch)
    if isinstance(session, ShareSession):
        session.change(
            ((topic.topic_id, each.partition_index) for topic in request.topics
             for each in topic.partitions),
            ((topic.topic_id, each) for topic in request.forgotten_topics_data
             for each in topic.partitions),
        )  # fmt: skip
    return session


class Turn(NamedTuple):
    """What is looked at for a request: partitions that the member may read, and others."""

    session: ShareSession
    places: list[Place]
    denied: list[Place]


async def _answer(
    broker: Broker, request: ShareFetchRequest, version: int, turn: Turn, said: Said
) -> ShareFetchResponse:
    shares = broker.shares
    group_id, member_id = request.group_id or "", request.member_id or ""
    outcomes = await acknowledge(
        shares, group_id, member_id, said, version, renews=request.is_renew_ack
    )
    found: Found = {}
    if request.share_session_epoch == END_EPOCH:
        shares.release(group_id, member_id, list(turn.session.places))
    elif not request.is_renew_ack:
        found = await ShareFetch(broker, shares, request, turn.places).run()
    if request.share_session_epoch == BEGIN_EPOCH:
        for place in turn.places:
            found.setdefault(place, PartitionData(partition_index=place[1], records=b""))
    for place in turn.denied:
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        found[place] = PartitionData(partition_index=place[1], error_code=error, records=b"")
    for (place, _), outcome in zip(said, outcomes, strict=True):
        _tell(found, place, outcome)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=shares.settings.of(group_id).limits.lock_ms,
        responses=_by_topic(found),
    )


def _tell(found: Found, place: Place, outcome: Outcome) -> None:
    data = found.setdefault(place, PartitionData(partition_index=place[1], records=b""))
    data.acknowledge_error_code = outcome.error
    data.acknowledge_error_message = outcome.sentence


def _by_topic(found: Found) -> list[ShareFetchableTopicResponse]:
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    for (topic_id, _), data in found.items():
        topic = topics.setdefault(topic_id, ShareFetchableTopicResponse(topic_id=topic_id))
        topic.partitions.append(data)
    return list(topics.values())
