"""ShareFetch (key 78): v1-2.

Behaviour
- A member says what it has done with records (see ShareAcknowledge) and gets others, of the
  partitions of its session: epoch 0 begins one, -1 ends it and gives back what the member has.
- The reply waits up to `max_wait_ms` until there are `min_bytes` to read, and a record among them
  for the member; asked for none it does not wait.  It has whole batches, and says which of their
  records the member has, for how long.
- A partition that is new in its session is told of, later ones those with records, with an error or
  without it any longer, or of which something was said.
- A session ends with the connection on which it began, as with epoch -1.
- Whoever renews locks (KIP-1222) asks for no records: INVALID_REQUEST.
- UNKNOWN_SERVER_ERROR while its session has a topic id that there is not (any longer), once what
  it says is written: after the wait where the session has other topics, or where the topic of this
  id was deleted and made again, else at once.
- SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH; SHARE_SESSION_LIMIT_REACHED after the wait.
- UNSUPPORTED_VERSION where there are no share groups.

Version notes: strict limits of records and renewed locks from v2.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

import trio

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_fetch import (
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kwire.coordinators.share.session import BEGIN_EPOCH, END_EPOCH, Place, ShareSession
from kwire.coordinators.share_partitions.acknowledging import Outcome, Said, acknowledge, said_in
from kwire.requests.context import Context
from kwire.requests.handlers.fetching.read_rights import who_may_read
from kwire.requests.handlers.fetching.share_fetch import Found, ShareFetch
from kwire.requests.handlers.share_group_heartbeat import is_served


def handle(
    broker: Broker, request: ShareFetchRequest, context: Context
) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
    if not is_served(broker):
        return ShareFetchResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if request.group_id is None or not request.member_id or _reads_while_it_renews(request):
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    said = [each for each in said_in(request) if each[1]]
    if request.share_session_epoch == BEGIN_EPOCH and said:
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    session = _session(broker, request, context)
    if session is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
        return _refused_later(request, session)
    if isinstance(session, ErrorCode):
        return ShareFetchResponse(error_code=session)
    turn = Turn(session, session.turn(), said, who_may_read(broker, context))
    return _answer(broker, request, context.api_version, turn)


def _reads_while_it_renews(request: ShareFetchRequest) -> bool:
    limits = request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records
    return request.is_renew_ack and any(limits)


async def _refused_later(request: ShareFetchRequest, error: ErrorCode) -> ShareFetchResponse:
    """Who is refused asks again: it is to do so no sooner than if there had been nothing."""
    await trio.sleep(max(request.max_wait_ms, 0) / 1000)
    return ShareFetchResponse(error_code=error)


def _session(
    broker: Broker, request: ShareFetchRequest, context: Context
) -> ShareSession | ErrorCode:
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


class Turn(NamedTuple):
    """What is looked at for a request; `may_read`: which partitions, where somebody asks."""

    session: ShareSession
    places: list[Place]
    said: Said
    may_read: Callable[[Place], bool] | None


async def _answer(
    broker: Broker, request: ShareFetchRequest, version: int, turn: Turn
) -> ShareFetchResponse:
    shares = broker.shares
    reader = request.group_id or "", request.member_id or ""
    outcomes = await acknowledge(
        shares, reader, turn.said, version, renews=request.is_renew_ack, may_read=turn.may_read
    )
    found: Found = {}
    if request.share_session_epoch == END_EPOCH:
        shares.release(reader, turn.session)
    elif not request.is_renew_ack:
        nameless = [place for place in turn.places if broker.metadata.topic_name(place[0]) is None]
        if nameless:
            return await _without_names(broker, request, turn, nameless)
        found = await _fetch(broker, request, turn)
    for (place, _), outcome in zip(turn.said, outcomes, strict=True):
        _tell(found, place, outcome)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=shares.settings.of(reader[0]).limits.lock_ms,
        responses=_by_topic(found),
    )


async def _without_names(
    broker: Broker, request: ShareFetchRequest, turn: Turn, nameless: list[Place]
) -> ShareFetchResponse:
    """Apache Kafka 4.3.1 cannot say of a topic without a name that it is unknown.

    It fails once the member has records of other topics and counts as told of them; here such
    records are for who hears of them.  A member that reads other topics is answered after the wait,
    so that it does not ask again at once.  So is a member whose topic was deleted and made again:
    Apache Kafka finds the new topic's partition by the name that the session keeps, and waits for
    records that the deleted topic's share state does not give.
    """
    others = [place for place in turn.places if place not in nameless]
    for place in others:
        turn.session.told(place, well=True)
    if others or any(_is_made_again(broker, turn.session, place) for place in nameless):
        return await _refused_later(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    return ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)


def _is_made_again(broker: Broker, session: ShareSession, place: Place) -> bool:
    """Whether a topic of another id has the name of a deleted one, and this partition is here."""
    topic_id, partition_index = place
    name = session.names.get(topic_id)
    return name is not None and broker.hosted.get(name, partition_index) is not None


async def _fetch(broker: Broker, request: ShareFetchRequest, turn: Turn) -> Found:
    session, may_read = turn.session, turn.may_read
    denied = [place for place in turn.places if may_read is not None and not may_read(place)]
    fetch = ShareFetch(
        broker, broker.shares, request, [place for place in turn.places if place not in denied]
    )
    found = await fetch.run()
    for place in denied:
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        found[place] = PartitionData(partition_index=place[1], error_code=error, records=b"")
    for place in fetch.open:
        if session.is_news(place):
            found.setdefault(place, PartitionData(partition_index=place[1], records=b""))
    for place, data in found.items():
        session.told(place, well=data.error_code == ErrorCode.NONE)
    return found


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
