"""Fetch (key 1): v4-18.

Behaviour
- The broker reads partitions in the order of the request, each up to its own
  `partition_max_bytes` and all together up to `max_bytes` (at most `fetch.max.bytes`).  It never
  decodes a batch: it sends a region of the segment file, which starts with the batch that holds
  the offset and ends where the limit falls.  Only the first partition with records may exceed the
  limits, with its first batch, so that a consumer always makes progress (KIP-74).
- The response waits up to `max_wait_ms` until `min_bytes` can be read (a `min_bytes` above
  `max_bytes` counts as `max_bytes`).  It does not wait if a partition has an error or a diverging
  epoch, if no partition exists, or if a partition's records end within an older segment.
- Partitions that do not exist stand at the end of the response, unknown topic ids before unknown
  partitions, and do not end the wait.
- Consumers read up to the high watermark, with read_committed up to the last stable offset.
  With read_committed they get the aborted transactions of what they read, an empty list if there
  are none; with read_uncommitted or an error they get null (KIP-98).
- An offset outside the log gives OFFSET_OUT_OF_RANGE.  A leader epoch that is not the partition's
  gives FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH (KIP-320).  A request with `last_fetched_epoch`
  whose log has diverged from the leader's gets the offset where it diverged (KIP-595).
- Incremental sessions: kwire.storage.partitions.fetch_sessions.  In a session the response has
  only partitions with records, with an error, or whose high watermark or log start offset differ
  from the last response.
- kwire.requests.handlers.fetching.replica_fetch serves requests of followers.
- A consumer that can name its rack (from v11) may read committed records from a follower;
  kwire.requests.handlers.fetching.near_replica decides whether the leader sends it to one.
- A consumer above its `consumer_byte_rate` gets no records and a throttle time (KIP-219).

Version notes: log start offset from v5; sessions from v7; leader epoch from v9; preferred replica
and rack from v11; flexible, last fetched epoch from v12; topics by id instead
of name from v13; the replica id as a tagged field from v15; the current leader beside
NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH from v16; v17-18 add fields for KRaft only.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import FetchRequest, FetchResponse
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response
from kwire.requests.handlers.fetching.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetch,
    failed,
    replica_id,
)
from kwire.requests.route import Right, Route

ROUTE = Route(ApiKey.FETCH, 4, 18, Right(AclOperation.READ, ResourceType.TOPIC))


def handle(
    broker: Broker, request: FetchRequest, context: Context
) -> FetchResponse | Awaitable[FetchResponse]:
    """Return the records of each partition, or wait for `min_bytes` up to `max_wait_ms`.

    The order of the checks decides which of several errors the client sees: Kafka's order.
    """
    version = context.api_version
    # Imports that only some brokers need are made here: a start loads few modules.
    if replica_id(request, version) >= 0:
        from kwire.requests.handlers.fetching.replica_fetch import ReplicaFetch

        fetch: Fetch = ReplicaFetch(broker, request, version)
    elif request.rack_id and broker.membership.replication is not None:
        fetch = _fetch_with_rack(broker, request, context)
    else:
        fetch = Fetch(broker, request, version)
    # The quota lowers the limits, so it comes before the first read.
    if broker.configs.quotas is not None and not fetch.from_replica:
        from kwire.requests.handlers.fetching.budget import limit

        limit(fetch, broker.configs.quotas, context)
    # Kafka reports an error of the session before rights and the isolation level.
    if fetch.plan.error:
        return FetchResponse(error_code=fetch.plan.error)
    if broker.authorizer is not None:
        from kwire.requests.handlers.fetching.read_rights import refuse_unreadable

        refuse_unreadable(broker, fetch, context)
    if not READ_UNCOMMITTED <= request.isolation_level <= READ_COMMITTED:
        return failed(request, version, ErrorCode.UNKNOWN_SERVER_ERROR)
    enough = fetch.read()
    if fetch.cold:  # the first read did not wait for the disk; a thread does, then it reads again
        return fetch.read_in()
    if enough or request.max_wait_ms <= 0:
        return fetch.response()
    return fetch.wait(request.max_wait_ms)


def _fetch_with_rack(broker: Broker, request: FetchRequest, context: Context) -> Fetch:
    """The Fetch of a consumer that names its rack, in a cluster (KIP-392)."""
    from kwire.requests.handlers.fetching.near_replica import RACK_AWARE, RackAwareFetch

    if broker.config.replica_selector_class == RACK_AWARE:
        return RackAwareFetch(broker, request, context.api_version, context.listener)
    return Fetch(broker, request, context.api_version)


# -- rights


def guard(access: Access, request: FetchRequest, proceed: Proceed) -> Response:
    """Require CLUSTER_ACTION for a fetch as a replica; let every consumer pass.

    The handler checks the rights of consumers, because a session has partitions that its requests
    do not name.
    """
    is_consumer = replica_id(request, access.version) < 0
    if is_consumer or access.on_cluster(AclOperation.CLUSTER_ACTION):
        return proceed(request)
    refused = Fetch(access.broker, request, access.version)
    refused.refuse(list(refused.plan.targets), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return (
        FetchResponse(error_code=refused.plan.error) if refused.plan.error else refused.response()
    )
