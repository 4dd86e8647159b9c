"""Fetch (key 1): v4-18.

Behaviour
- Partitions are read in the order asked, each up to its own `partition_max_bytes` and all up to
  `max_bytes` (at most `fetch.max.bytes`).  A batch is never decoded: what goes out is a region of
  the segment file, from the batch that holds the offset, cut off where the limit falls.  Only the
  first partition with records ignores the limits for its first batch, so that a consumer always
  gets on (KIP-74).
- The reply waits up to `max_wait_ms` until `min_bytes` can be read (`min_bytes` above `max_bytes`
  counts as that).  It does not wait when a partition has an error or a diverging epoch, when there
  is nothing to wait for, or when a partition's records end within an older segment.  Partitions
  that do not exist are told at the end of the reply and do not hasten it.
- Of what does not exist the unknown topic ids are told first, then the unknown partitions.
- Consumers read up to the high watermark, or with read_committed up to the last stable offset;
  they then get the aborted transactions of what they read, an empty list where there are none and
  null with read_uncommitted or an error (KIP-98).
- Offsets outside the log are OFFSET_OUT_OF_RANGE, a leader epoch that is not the partition's
  FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH (KIP-320).  With `last_fetched_epoch` a fetch that has
  diverged from the leader's log is told where (KIP-595).
- Incremental sessions: kwire.storage.partitions.fetch_sessions.  In a session only partitions with
  records, with an error, or whose high watermark or log start offset differ from the last reply
  are told.
- A request that says it comes from a replica is served by
  kwire.requests.handlers.fetching.replica_fetch.
- Consumers that can name their rack (v11) may read from a follower what it knows to be committed;
  whether a leader sends them to one is in kwire.requests.handlers.fetching.near_replica.
- A consumer above its `consumer_byte_rate` gets no records and the time it is to rest (KIP-219).

Version notes: log start offset from v5; sessions from v7; leader epoch from v9; preferred replica
and rack from v11; flexible, last fetched epoch from v12; topics by id instead
of name from v13; the replica id as a tagged field from v15; the current leader beside
NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH from v16; v17-18 add fields for raft alone.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import FetchRequest, FetchResponse
from kwire.requests.context import Context
from kwire.requests.handlers.fetching.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetch,
    failed,
    replica_id,
)


def handle(
    broker: Broker, request: FetchRequest, context: Context
) -> FetchResponse | Awaitable[FetchResponse]:
    version = context.api_version
    if replica_id(request, version) >= 0:
        from kwire.requests.handlers.fetching.replica_fetch import ReplicaFetch

        fetch: Fetch = ReplicaFetch(broker, request, version)
    elif request.rack_id and broker.membership.replication is not None:
        fetch = _of_a_rack(broker, request, context)
    else:
        fetch = Fetch(broker, request, version)
    if broker.configs.quotas is not None and not fetch.from_replica:
        from kwire.requests.handlers.fetching.budget import limit

        limit(fetch, broker.configs.quotas, context)
    if fetch.plan.error:
        return FetchResponse(error_code=fetch.plan.error)
    if broker.authorizer is not None:
        from kwire.requests.handlers.fetching.read_rights import refuse_unreadable

        refuse_unreadable(broker, fetch, context)
    if not READ_UNCOMMITTED <= request.isolation_level <= READ_COMMITTED:
        return failed(request, version, ErrorCode.UNKNOWN_SERVER_ERROR)
    enough = fetch.read()
    if fetch.cold:
        return fetch.read_in()
    if enough or request.max_wait_ms <= 0:
        return fetch.response()
    return fetch.wait(request.max_wait_ms)


def _of_a_rack(broker: Broker, request: FetchRequest, context: Context) -> Fetch:
    """A consumer that says where it is, in a cluster (KIP-392)."""
    from kwire.requests.handlers.fetching.near_replica import RACK_AWARE, RackAwareFetch

    if broker.config.replica_selector_class == RACK_AWARE:
        return RackAwareFetch(broker, request, context.api_version, context.listener)
    return Fetch(broker, request, context.api_version)
