"""A Fetch of a consumer with a `consumer_byte_rate`: its limit, and the bytes charged for it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kwire.codecs.primitives import Frame
from kwire.security.quotas.enforced import ClientQuotas
from tests.requests.handlers.node import Node

BATCH = 146
"""Bytes of what Node.append writes."""


class Quotas:
    """Quotas of a client that gets at most `most` bytes, and waits `rest_ms` after each Fetch."""

    def __init__(self, most: int | None, rest_ms: int = 0) -> None:
        self.most = most
        self.rest_ms = rest_ms
        self.lookups: list[tuple[str, str]] = []
        self.charged: list[tuple[str, str, int]] = []

    def most_fetched(self, user: str, client_id: str) -> int | None:
        self.lookups.append((user, client_id))
        return self.most

    def fetched(self, user: str, client_id: str, size_bytes: int) -> int:
        self.charged.append((user, client_id, size_bytes))
        return self.rest_ms


@pytest.fixture
def full(node: Node) -> Node:
    """Topic `t` with three batches."""
    node.create("t")
    for _ in range(3):
        node.append("t")
    return node


def hold(node: Node, most: int | None, rest_ms: int = 0) -> Quotas:
    quotas = Quotas(most, rest_ms)
    node.broker.configs.quotas = cast(ClientQuotas, quotas)
    return quotas


def fetch_request(
    *, min_bytes: int = 1, max_bytes: int = 1 << 20, session: int = 0, epoch: int = -1
) -> FetchRequest:
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=100,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session,
        session_epoch=epoch,
        topics=[FetchTopic("t", partitions=[partition])],
    )


def records_of(reply: FetchResponse) -> int:
    data: Any = reply.responses[0].partitions[0].records
    return len(data)


@pytest.mark.parametrize(
    ("most", "max_bytes", "size_bytes"),
    [
        (None, 1 << 20, 3 * BATCH),
        (3 * BATCH, 1 << 20, 3 * BATCH),
        (3 * BATCH - 1, 1 << 20, 3 * BATCH - 1),
        (1 << 20, 2 * BATCH, 2 * BATCH),
        (BATCH, 2 * BATCH, BATCH),
        (1, 1 << 20, BATCH),
    ],
)
def test_fetch_returns_what_quota_and_request_allow(
    full: Node, most: int | None, max_bytes: int, size_bytes: int
) -> None:
    """At least one whole batch is returned."""
    hold(full, most)
    assert records_of(full.call(fetch_request(max_bytes=max_bytes), 11)) == size_bytes


def test_fetch_waits_only_for_the_bytes_its_quota_allows(full: Node) -> None:
    hold(full, 2 * BATCH)
    assert records_of(full.call(fetch_request(min_bytes=1000), 11)) == 2 * BATCH, "it does not wait"
    hold(full, 1000)
    assert records_of(full.call(fetch_request(min_bytes=3 * BATCH), 11)) == 3 * BATCH


@pytest.mark.parametrize("version", [4, 11, 12])
def test_consumer_quota_counts_the_whole_response(full: Node, version: int) -> None:
    quotas = hold(full, 1000)
    reply = full.call(fetch_request(), version)
    frame = Frame()
    reply.write(frame, version)
    assert quotas.lookups == [("ANONYMOUS", "")]
    assert quotas.charged == [("ANONYMOUS", "", frame.wire_size + 4)]
    assert reply.throttle_time_ms == 0


def test_client_without_a_quota_is_not_counted(full: Node) -> None:
    quotas = hold(full, None, rest_ms=5)
    assert records_of(full.call(fetch_request(), 11)) == 3 * BATCH
    assert quotas.charged == []


def test_throttled_client_gets_no_records(full: Node) -> None:
    hold(full, 1000, rest_ms=77)
    reply = full.call(fetch_request(), 11)
    assert (reply.throttle_time_ms, reply.session_id, reply.responses) == (77, 0, [])
    assert reply.error_code == ErrorCode.NONE
    opening = full.call(fetch_request(epoch=0), 11)
    assert (opening.throttle_time_ms, opening.session_id) == (77, 0), "no session is opened"


def test_fetch_session_of_a_throttled_client_continues(full: Node) -> None:
    quotas = hold(full, 1000)
    session = full.call(fetch_request(epoch=0), 11).session_id
    quotas.rest_ms = 77
    rested = full.call(fetch_request(session=session, epoch=1), 11)
    assert (rested.throttle_time_ms, rested.session_id, rested.responses) == (77, session, [])
    quotas.rest_ms = 0
    assert records_of(full.call(fetch_request(session=session, epoch=2), 11)) == 3 * BATCH
