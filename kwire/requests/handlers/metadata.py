"""Metadata (key 3): v0-13.

Behaviour
- The response has the controller, the brokers and the requested topics.  The brokers are those
  that have a listener with the name of the client's listener, at the addresses that they advertise
  for it.
- Topics are requested by name or, from v12, by id; one id in the list makes it a list of ids.  A
  null list (in v0 an empty one) requests all topics.  They are sorted by name; Apache Kafka has
  them in the order of a hash table.
- Existing topics come first, in the order of the request and once each, then the unknown ones.
- A cluster member that has not received the cluster's brokers and topics yet waits for them.
- While new leaders are elected for a broker whose process has just ended, a response about its
  partitions waits for them (kwire.cluster.membership.ended).
- A response about given topics names a broker until 2 s after it left the cluster, for librdkafka
  would forget the new leaders of its partitions (ibid.).  Lists of all topics, or of brokers alone,
  have only members.
- Topics that do not exist are created if the client allows it and `auto.create.topics.enable` is
  set.  This response still has UNKNOWN_TOPIC_OR_PARTITION, as in Apache Kafka 4 (earlier versions
  had LEADER_NOT_AVAILABLE), and clients ask again.  A connection that joins groups gets the same
  error for another HIDDEN_S.
- Invalid names give INVALID_TOPIC_EXCEPTION, unknown ids UNKNOWN_TOPIC_ID.
- A null name or an id before v12 gives INVALID_REQUEST for the whole request; the response repeats
  the topics and has nothing else.

Version notes: rack and controller from v1; cluster id from v2; auto-creation can be refused from
v4; offline replicas from v5; LISTENER_NOT_FOUND from v6; leader epochs from v7; authorized
operations from v8, of the cluster until v10; flexible from v9; ids from v10; null names from v12;
an error code of the whole response from v13.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from kwire.broker.broker import Broker
from kwire.cluster.membership.ended import is_election_pending, wait_for_election
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.encoded import Block, block_of, blocks_of, write_around
from kwire.cluster.metadata.topic_names import INTERNAL_TOPICS, why_invalid
from kwire.cluster.metadata.views import MetadataView
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kwire.codecs.primitives import ZERO_UUID, Frame
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.guards.visibility import cluster_operations, topic_operations
from kwire.requests.in_steps import WrittenInSteps
from kwire.requests.route import Right, Route
from kwire.security.operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS

if TYPE_CHECKING:
    from kwire.cluster.membership.contract import ClusterMembership
    from kwire.cluster.metadata.image import ClusterImage

log = logging.getLogger("kwire.metadata")

HIDDEN_S = 0.5
"""For how long a topic stays unknown to a connection that joins groups and created it.

A group leader that assigns partitions from one response must not see more of them in the next.
kafka-go's group reader requests Metadata for the assignment, and some 5 ms later again to learn how
many partitions to watch.  If the topic appears between the two, it waits for a change that never
comes.  (Apache Kafka needs 25 to 150 ms to create a topic, often longer than these 5 ms.)
Clients with a separate connection for the group coordinator, such as those of Apache Kafka,
librdkafka and kafka-python, send Metadata on another connection.
"""
HIDDEN_MAX = 100
"""Topics hidden per connection; if a client creates more at once, it sees the others at once."""

TOPICS_AT_ONCE = 250
"""Topics of a long response that are looked at before other tasks run: about 1.5 ms of work when
all are new."""

_FIRST_WITH_LISTENER_NOT_FOUND = 6
_FIRST_WITH_IDS = 12

FIRST_IMAGE_MS = 20_000
"""For how long a starting member waits for the cluster's first metadata image; less than the 30 s
that clients give a request.

Apache Kafka answers without brokers in the meantime, and then for a moment without topics.  If no
bootstrap server names a controller, librdkafka's admin client does not ask again for 60 s; if a
topic is unknown, librdkafka's producer gives its records up.
"""

ROUTE = Route(ApiKey.METADATA, 0, 13, Right(AclOperation.DESCRIBE, ResourceType.TOPIC))


def handle(
    broker: Broker, request: MetadataRequest, context: Context
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Return the metadata; wait for the controller's first image, and for elections."""
    member = broker.membership
    if not member.has_metadata:
        return _answer_with_first_image(broker, member, request, context)
    if member.ended_brokers and is_election_pending(member, names := _named(broker.image, request)):
        return _answer_after_election(broker, names, request, context)
    return _answer(broker, request, context)


async def _answer_with_first_image(
    broker: Broker, member: ClusterMembership, request: MetadataRequest, context: Context
) -> MetadataResponse:
    """The response from the first image of the controller.

    If none arrives within FIRST_IMAGE_MS, the response has this broker only.
    """
    await member.wait_for_metadata(FIRST_IMAGE_MS)
    answer = _answer(broker, request, context)
    return answer if isinstance(answer, MetadataResponse) else await answer


async def _answer_after_election(
    broker: Broker, names: Collection[str], request: MetadataRequest, context: Context
) -> MetadataResponse:
    """The response once the topics of these names have new leaders."""
    await wait_for_election(broker.membership, names)
    answer = _answer(broker, request, context)
    return answer if isinstance(answer, MetadataResponse) else await answer


def _named(image: ClusterImage, request: MetadataRequest) -> Collection[str]:
    """The names of the requested topics; no name or id requests all topics."""
    if not request.topics:
        return image.topics.keys()
    return [topic.name or image.names_by_id.get(topic.topic_id) or "" for topic in request.topics]


def _answer(
    broker: Broker, request: MetadataRequest, context: Context
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Return the brokers and the requested topics, from this broker's metadata image.

    The response waits if it creates missing topics, or has many topics to encode.
    """
    version = context.api_version
    requested = request.topics
    view = broker.metadata_views.of(
        broker.image, context.listener, version >= _FIRST_WITH_LISTENER_NOT_FOUND
    )
    missing: list[str] = []
    if requested is None or (version == 0 and not requested):
        if view.is_long:
            return _all_in_steps(broker, view, request, version)
        topics = view.all_topics()
    elif any(topic.name is None or topic.topic_id != ZERO_UUID for topic in requested):
        error = _misuse_of_ids(requested, version)
        if error is not None:
            return _failed(requested, error)
        topics = _by_id(view, requested)
    else:
        names = [topic.name for topic in requested if topic.name is not None]
        topics, missing = _by_name(view, names, _hidden(context))
    if request.include_topic_authorized_operations:
        topics = _with_operations(topics)
    response = _response(view, topics, request, broker.controller_seen)
    if requested and (departed := broker.departed.brokers):
        response.brokers = view.brokers + view.shown(departed)
    if missing and request.allow_auto_topic_creation and broker.config.auto_create_topics_enable:
        return _creating(broker, missing, response, context)
    return response


def _hidden(context: Context) -> Collection[str]:
    """Topics that exist but are still unknown to this connection: see HIDDEN_S."""
    if not context.hidden_topics:
        return ()
    now = trio.current_time()
    hidden = {name: until for name, until in context.hidden_topics.items() if until > now}
    context.hidden_topics = hidden or None
    return hidden


def _hide(context: Context, names: list[str]) -> None:
    """Hide created topics from this connection for HIDDEN_S; at most HIDDEN_MAX are hidden."""
    until = trio.current_time() + HIDDEN_S
    hidden = context.hidden_topics = context.hidden_topics or {}
    for name in names[: HIDDEN_MAX - len(hidden)]:
        hidden.setdefault(name, until)


class _AllTopics(MetadataResponse, WrittenInSteps):
    """A response with thousands of topics, which is written in steps.

    is_kept   whether `topics` are all topics of the view as it was when they were listed, so that
              the view's bytes can be sent.  A guard that changes `topics` resets it
    is_exact  whether a topic that is new since then must be left out: its rights are not checked
    """

    __slots__ = ("_image", "_view", "is_exact", "is_kept")

    def __init__(self, view: MetadataView, response: MetadataResponse, *, is_kept: bool) -> None:
        """Take over the fields of `response`, whose topics are those of the view."""
        super().__init__(
            brokers=response.brokers,
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            topics=response.topics,
            cluster_authorized_operations=response.cluster_authorized_operations,
        )
        self._view = view
        self._image = view.image
        self.is_kept = is_kept
        self.is_exact = False

    async def write_in_steps(self, out: Frame, version: int) -> None:
        """Write the response; each step takes a millisecond or two."""
        blocks = await self._kept_blocks(version) if self.is_kept else None
        if blocks is None:
            blocks = []
            for topics in blocks_of(self.topics):
                blocks.append(block_of(topics, version))
                await trio.lowlevel.checkpoint()
        write_around(out, self, blocks, version)

    async def _kept_blocks(self, version: int) -> list[Block] | None:
        """Return the view's bytes once they are complete; None if they say too much by then."""
        encoded = self._view.encoded(version)
        while not encoded.is_complete:
            encoded.write_block()
            await trio.lowlevel.checkpoint()
        self._view.limit_encoded(encoded)
        if self.is_exact and self._view.image is not self._image:
            return None
        return encoded.blocks


async def _all_in_steps(
    broker: Broker, view: MetadataView, request: MetadataRequest, version: int
) -> MetadataResponse:
    """The response with all topics of a large cluster; other tasks run between its steps."""
    if view.response_count < len(view.names()):
        names = list(view.names())  # a copy: the view's names change while other tasks run
        for start in range(0, len(names), TOPICS_AT_ONCE):
            _existing(view, names[start : start + TOPICS_AT_ONCE])
            await trio.lowlevel.checkpoint()
    with_operations = request.include_topic_authorized_operations
    response = _AllTopics(
        view,
        _response(view, view.all_topics(), request, broker.controller_seen),
        is_kept=not with_operations,
    )
    if with_operations:
        topics: list[MetadataResponseTopic] = []
        for some in batched(response.topics):
            topics += _with_operations(some)
            await trio.lowlevel.checkpoint()
        response.topics = topics
    return response


def batched(topics: list[MetadataResponseTopic]) -> Iterator[list[MetadataResponseTopic]]:
    """Yield TOPICS_AT_ONCE of the topics at a time."""
    return (topics[at : at + TOPICS_AT_ONCE] for at in range(0, len(topics), TOPICS_AT_ONCE))


def _with_operations(topics: list[MetadataResponseTopic]) -> list[MetadataResponseTopic]:
    """Return copies of the topics with all operations; an unknown id has no name to look up rights
    by."""
    return [
        topic
        if topic.name is None
        else replace(topic, topic_authorized_operations=TOPIC_OPERATIONS)
        for topic in topics
    ]


def _response(
    view: MetadataView,
    topics: list[MetadataResponseTopic],
    request: MetadataRequest,
    controller_id: int,
) -> MetadataResponse:
    """Return the response with `topics`; it has the cluster's operations if the request asks for
    them.

    `guard` replaces the operations with those of the sender.
    """
    with_operations = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=view.brokers,
        cluster_id=view.image.cluster_id,
        controller_id=controller_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS if with_operations else NOT_ASKED,
    )


async def _creating(
    broker: Broker, names: list[str], response: MetadataResponse, context: Context
) -> MetadataResponse:
    """`response` once the topics are created, so that the client's next request finds them."""
    try:
        await broker.membership.create_on_first_use(names, context)
    except StoreError as problem:
        log.error(
            "Cannot create topics on first use: %s. Clients will request them again.", problem
        )
    if context.joins_groups:
        _hide(context, names)
    return response


def _existing(view: MetadataView, names: Iterable[str]) -> list[MetadataResponseTopic]:
    return [topic for name in names if (topic := view.topic(name)) is not None]


def _by_name(
    view: MetadataView, names: list[str], hidden: Collection[str]
) -> tuple[list[MetadataResponseTopic], list[str]]:
    """The topics of the response, and the names of those that could be created."""
    existing: list[MetadataResponseTopic] = []
    unknown: list[MetadataResponseTopic] = []
    missing: list[str] = []
    for name in dict.fromkeys(names) if len(names) > 1 else names:
        topic = view.topic(name)
        if topic is not None and name not in hidden:
            existing.append(topic)
        elif topic is not None:
            unknown.append(_unknown(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name))
        elif why_invalid(name) is not None:
            unknown.append(_unknown(ErrorCode.INVALID_TOPIC_EXCEPTION, name))
        else:
            unknown.append(_unknown(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name))
            missing.append(name)
    return existing + unknown, missing


def _unknown(error: ErrorCode, name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(error, name, is_internal=name in INTERNAL_TOPICS)


def _by_id(
    view: MetadataView, requested: list[MetadataRequestTopic]
) -> list[MetadataResponseTopic]:
    """The topics of a list of ids; the names in it are ignored."""
    unknown: list[MetadataResponseTopic] = []
    names: list[str] = []
    for topic_id in dict.fromkeys(topic.topic_id for topic in requested):
        name = view.image.names_by_id.get(topic_id)
        if name is not None:
            names.append(name)
        elif topic_id != ZERO_UUID:
            unknown.append(MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id))
    return unknown + _existing(view, names)


def _misuse_of_ids(requested: list[MetadataRequestTopic], version: int) -> ErrorCode | None:
    """Return the error of a request with topic ids that is refused as a whole, else None."""
    if version < _FIRST_WITH_IDS:
        return ErrorCode.INVALID_REQUEST
    if all(topic.topic_id == ZERO_UUID for topic in requested):
        return ErrorCode.UNKNOWN_SERVER_ERROR  # a topic with neither name nor id: as in Kafka
    return None


def _failed(requested: list[MetadataRequestTopic], error: ErrorCode) -> MetadataResponse:
    """Return the response in which each requested topic has `error`."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error, topic.name or "", topic.topic_id) for topic in requested
        ],
        error_code=error,
    )


# -- rights


def guard(access: Access, request: MetadataRequest, proceed: Proceed) -> Response:
    """Show the sender only topics that it may describe, and create only those that it may.

    Topics that the request names are refused one by one; if it requests all topics, the others are
    left out.
    """
    requested = request.topics
    everything = requested is None or (access.version == 0 and not requested)
    refused: list[MetadataResponseTopic] = []
    if not everything and not _is_misuse(request, access.version):
        request, refused = _without_denied(access, request)
    # In v0 an empty list requests all topics, so drop the topics that the handler then returns.
    nothing_left = access.version == 0 and not everything and not request.topics

    if everything:
        answer = proceed(request)
        if isinstance(answer, Awaitable):
            return _visible_in_steps(access, request, answer)
        assert isinstance(answer, MetadataResponse)
        answer.topics = _visible(access, request, answer.topics)
        return _with_cluster_operations(access, answer)

    def merge(response: MetadataResponse) -> MetadataResponse:
        """Set the sender's authorized operations, and add the refused topics."""
        if nothing_left:
            response.topics = []
        if request.include_topic_authorized_operations:
            _set_operations(access, response.topics)
        response.topics = [*response.topics, *refused]
        return _with_cluster_operations(access, response)

    return reshaped(proceed(request), merge)


def _visible(
    access: Access, request: MetadataRequest, topics: list[MetadataResponseTopic]
) -> list[MetadataResponseTopic]:
    """Return the topics that the sender may describe, with its operations if it asks for them."""
    visible = [
        topic
        for topic in topics
        if topic.name is not None and access.on_topic(AclOperation.DESCRIBE, topic.name, quiet=True)
    ]
    if request.include_topic_authorized_operations:
        _set_operations(access, visible)
    return visible


async def _visible_in_steps(
    access: Access, request: MetadataRequest, pending: Awaitable[MetadataResponse]
) -> MetadataResponse:
    """The response to a request for all topics; other tasks run while it is made."""
    response = await pending
    visible: list[MetadataResponseTopic] = []
    for some in batched(response.topics):
        visible += _visible(access, request, some)
        await trio.lowlevel.checkpoint()
    if isinstance(response, _AllTopics):
        response.is_exact = True
        response.is_kept &= len(visible) == len(response.topics)
    response.topics = visible
    return _with_cluster_operations(access, response)


def _set_operations(access: Access, topics: list[MetadataResponseTopic]) -> None:
    """Set the sender's operations in topics that the handler has copied for this request."""
    for topic in topics:
        if topic.name and topic.error_code != ErrorCode.UNKNOWN_TOPIC_ID:
            topic.topic_authorized_operations = topic_operations(access, topic.name)


def _with_cluster_operations(access: Access, response: MetadataResponse) -> MetadataResponse:
    """Return the response with the operations that the sender may do on the cluster, if it asks."""
    if response.cluster_authorized_operations != NOT_ASKED:
        response.cluster_authorized_operations = cluster_operations(access)
    return response


def _is_misuse(request: MetadataRequest, version: int) -> bool:
    """Whether the handler refuses the request as a whole because of its names or ids."""
    topics = request.topics or ()
    if all(topic.name is not None and topic.topic_id == ZERO_UUID for topic in topics):
        return False
    return version < _FIRST_WITH_IDS or all(topic.topic_id == ZERO_UUID for topic in topics)


def _without_denied(
    access: Access, request: MetadataRequest
) -> tuple[MetadataRequest, list[MetadataResponseTopic]]:
    """Return the request without refused topics, and the answers for these.

    A missing topic is refused, too, if the sender may see it but not create it.
    """
    topics = request.topics or []
    if any(topic.topic_id != ZERO_UUID for topic in topics):
        return _ids_without_denied(access, request)
    names = dict.fromkeys(topic.name or "" for topic in topics)
    seen = access.permitted(AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    visible = [name for name in names if name in seen]
    uncreatable = dict.fromkeys(_uncreatable(access, request, visible))
    allowed = [topic for topic in topics if topic.name in seen and topic.name not in uncreatable]
    refused = [*uncreatable, *(name for name in names if name not in seen)]
    return replace(request, topics=allowed), [_denied(name) for name in refused]


def _uncreatable(access: Access, request: MetadataRequest, names: list[str]) -> list[str]:
    """Missing topics that the request would create, but that its sender may not create."""
    broker = access.broker
    if not (request.allow_auto_topic_creation and broker.config.auto_create_topics_enable):
        return []
    missing = [name for name in names if name not in broker.image.topics]
    if not missing or access.on_cluster(AclOperation.CREATE, quiet=True):
        return []
    creatable = access.permitted(AclOperation.CREATE, ResourceType.TOPIC, missing)
    return [name for name in missing if name not in creatable]


def _ids_without_denied(
    access: Access, request: MetadataRequest
) -> tuple[MetadataRequest, list[MetadataResponseTopic]]:
    """The request without ids that the sender may not see, and the answers for these.

    The answers have no names: a name would say what the id belongs to.
    """
    allowed, hidden = [], []
    names = access.broker.image.names_by_id
    for topic in request.topics or ():
        name = names.get(topic.topic_id)
        if name is None or access.on_topic(AclOperation.DESCRIBE, name):
            allowed.append(topic)
        else:
            hidden.append(
                MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic.topic_id)
            )
    return replace(request, topics=allowed), hidden


def _denied(name: str) -> MetadataResponseTopic:
    """Return the answer for a topic that the sender may not describe or create."""
    return MetadataResponseTopic(
        ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, is_internal=name in INTERNAL_TOPICS
    )
