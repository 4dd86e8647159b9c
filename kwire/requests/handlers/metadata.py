"""Metadata (key 3): v0-13.

Behaviour
- Tells the brokers with a listener of the name that the client came in by, at the addresses they
  advertise for it, the controller, and the topics asked for: by name or, from v12, by id; all of
  them, in the order of their names (Apache Kafka has that of a hash table), for a null list
  (an empty one in v0).  One id in the list makes it a list of ids.
- What exists comes first, in the order asked for and once each, then what does not.
- A member of a cluster that has not been told of its brokers and topics yet answers once it is.
- Topics that do not exist are created when the client allows it and
  `auto.create.topics.enable` is set.  This answer still says UNKNOWN_TOPIC_OR_PARTITION, as that
  of Apache Kafka 4 does (LEADER_NOT_AVAILABLE was before it); clients ask again.  On a connection
  that joins groups they hear the same for TOLD_MISSING_S more.
- Invalid names are INVALID_TOPIC_EXCEPTION, unknown ids UNKNOWN_TOPIC_ID.
- A null name, or an id, before v12 is INVALID_REQUEST for the whole request; the answer repeats
  the topics and tells nothing else.

Version notes: rack and controller from v1; cluster id from v2; auto-creation can be refused from
v4; offline replicas from v5; LISTENER_NOT_FOUND from v6; leader epochs from v7; authorized
operations from v8, of the cluster until v10; flexible from v9; ids from v10; null names from v12;
an error code of the whole from v13.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from kwire.broker.broker import Broker
from kwire.cluster.metadata.topic_names import INTERNAL_TOPICS, why_invalid
from kwire.cluster.metadata.views import MetadataView
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kwire.codecs.primitives import ZERO_UUID
from kwire.requests.context import Context
from kwire.security.operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS

if TYPE_CHECKING:
    from kwire.cluster.membership.contract import Membership

log = logging.getLogger("kwire.metadata")

TOLD_MISSING_S = 0.5
"""How long a connection that joins groups is told that a topic which it had made is not there.

A member that deals out partitions by one answer must not hear of more in the next.  kafka-go's
group reader asks once to deal out, and once more, some 5 ms later, for how many partitions there
are to begin with: if the topic appears between the two it waits for a change that never comes.
(Apache Kafka needs 25 to 150 ms to make a topic, and often is too late for the second question.)
Clients that have a connection of its own for a group's coordinator, as those of Apache Kafka,
librdkafka and kafka-python, ask for topics on another.
"""
TOLD_MISSING_MAX = 100
"""Of one connection; a client that has more topics made at once hears of the rest at once."""

MADE_TOGETHER_MAX = 1000
"""Topics that are told of for the first time before others have their turn, some 6 ms of work."""

_FIRST_WITH_LISTENER_NOT_FOUND = 6
_FIRST_WITH_IDS = 12


FIRST_TOLD_MS = 20_000
"""How long a member that has just started waits to be told who and what is in its cluster; less
than the 30 s that clients give a request.

Apache Kafka answers without any broker meanwhile, then without topics, which is for a moment only.
librdkafka's admin client that was told of no controller by each of its bootstrap servers does not
ask again for 60 s, and its producer that is told that a topic is gone gives its records up.
"""


def handle(
    broker: Broker, request: MetadataRequest, context: Context
) -> MetadataResponse | Awaitable[MetadataResponse]:
    if not broker.membership.is_told:
        return _once_told(broker, broker.membership, request, context)
    return _answer(broker, request, context)


async def _once_told(
    broker: Broker, member: Membership, request: MetadataRequest, context: Context
) -> MetadataResponse:
    """By what the controller tells this broker first; where there is none, of this broker alone."""
    await member.told(FIRST_TOLD_MS)
    answer = _answer(broker, request, context)
    return answer if isinstance(answer, MetadataResponse) else await answer


def _answer(
    broker: Broker, request: MetadataRequest, context: Context
) -> MetadataResponse | Awaitable[MetadataResponse]:
    version = context.api_version
    asked = request.topics
    view = broker.metadata_views.of(
        broker.image, context.listener, version >= _FIRST_WITH_LISTENER_NOT_FOUND
    )
    missing: list[str] = []
    if asked is None or (version == 0 and not asked):
        if len(view.names()) - view.told_count > MADE_TOGETHER_MAX:
            return _all_in_turns(view, request)
        topics = _found(view, view.names())
    elif any(topic.name is None or topic.topic_id != ZERO_UUID for topic in asked):
        error = _misuse_of_ids(asked, version)
        if error is not None:
            return _failed(asked, error)
        topics = _by_id(view, asked)
    else:
        names = [topic.name for topic in asked if topic.name is not None]
        topics, missing = _by_name(view, names, _hidden(context))
    response = _response(view, topics, request)
    if missing and request.allow_auto_topic_creation and broker.config.auto_create_topics_enable:
        return _creating(broker, missing, response, context)
    return response


def _hidden(context: Context) -> Collection[str]:
    """What this connection is still told to be missing."""
    if not context.told_missing:
        return ()
    now = trio.current_time()
    left = {name: until for name, until in context.told_missing.items() if until > now}
    context.told_missing = left or None
    return left


def _hide(context: Context, names: list[str]) -> None:
    until = trio.current_time() + TOLD_MISSING_S
    told = context.told_missing = context.told_missing or {}
    for name in names[: TOLD_MISSING_MAX - len(told)]:
        told.setdefault(name, until)


async def _all_in_turns(view: MetadataView, request: MetadataRequest) -> MetadataResponse:
    """All topics, where many have not been told of yet: others have their turns meanwhile."""
    names = list(view.names())  # the view follows what changes meanwhile
    for start in range(0, len(names), MADE_TOGETHER_MAX):
        _found(view, names[start : start + MADE_TOGETHER_MAX])
        await trio.lowlevel.checkpoint()
    return _response(view, _found(view, view.names()), request)


def _response(
    view: MetadataView, topics: list[MetadataResponseTopic], request: MetadataRequest
) -> MetadataResponse:
    if request.include_topic_authorized_operations:
        topics = [
            # of an unknown id there is no name by which permissions could be looked up
            each
            if each.name is None
            else replace(each, topic_authorized_operations=TOPIC_OPERATIONS)
            for each in topics
        ]
    with_operations = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=view.brokers,
        cluster_id=view.image.cluster_id,
        controller_id=view.image.controller_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS if with_operations else NOT_ASKED,
    )


async def _creating(
    broker: Broker, names: list[str], response: MetadataResponse, context: Context
) -> MetadataResponse:
    """Create first, so that the client's next try finds the topics there."""
    try:
        await broker.membership.create_on_first_use(names)
    except StoreError as problem:
        log.error("topics are not created on first use: %s", problem)
    if context.joins_groups:
        _hide(context, names)
    return response


def _found(view: MetadataView, names: Iterable[str]) -> list[MetadataResponseTopic]:
    return [topic for name in names if (topic := view.topic(name)) is not None]


def _by_name(
    view: MetadataView, names: list[str], hidden: Collection[str]
) -> tuple[list[MetadataResponseTopic], list[str]]:
    """The topics to tell, and the names that could be created."""
    found: list[MetadataResponseTopic] = []
    unknown: list[MetadataResponseTopic] = []
    missing: list[str] = []
    for name in dict.fromkeys(names) if len(names) > 1 else names:
        topic = view.topic(name)
        if topic is not None and name not in hidden:
            found.append(topic)
        elif topic is not None:
            unknown.append(_unknown(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name))
        elif why_invalid(name) is not None:
            unknown.append(_unknown(ErrorCode.INVALID_TOPIC_EXCEPTION, name))
        else:
            unknown.append(_unknown(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name))
            missing.append(name)
    return found + unknown, missing


def _unknown(error: ErrorCode, name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(error, name, is_internal=name in INTERNAL_TOPICS)


def _by_id(view: MetadataView, asked: list[MetadataRequestTopic]) -> list[MetadataResponseTopic]:
    """Names beside ids are not looked at."""
    unknown: list[MetadataResponseTopic] = []
    names: list[str] = []
    for topic_id in dict.fromkeys(topic.topic_id for topic in asked):
        name = view.image.names_by_id.get(topic_id)
        if name is not None:
            names.append(name)
        elif topic_id != ZERO_UUID:
            unknown.append(MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id))
    return unknown + _found(view, names)


def _misuse_of_ids(asked: list[MetadataRequestTopic], version: int) -> ErrorCode | None:
    if version < _FIRST_WITH_IDS:
        return ErrorCode.INVALID_REQUEST
    if all(topic.topic_id == ZERO_UUID for topic in asked):
        return ErrorCode.UNKNOWN_SERVER_ERROR  # a topic that is not named at all: Kafka's answer
    return None


def _failed(asked: list[MetadataRequestTopic], error: ErrorCode) -> MetadataResponse:
    return MetadataResponse(
        topics=[MetadataResponseTopic(error, topic.name or "", topic.topic_id) for topic in asked],
        error_code=error,
    )
