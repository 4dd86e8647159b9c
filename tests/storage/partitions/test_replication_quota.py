"""The rates that the throttles of replication measure; the clock is an argument."""

from __future__ import annotations

import pytest

from kwire.storage.partitions.replication_quota import UNLIMITED, ReplicationQuota

RATE = "leader.replication.throttled.rate"
TOPIC = "t"
BEGAN_MS = 1_700_000_000_000


def quota(bytes_per_s: int) -> ReplicationQuota:
    """A quota with Kafka's eleven windows of a second, of which the first begins now."""
    made = ReplicationQuota(11, 1)
    made.set_rate(RATE, {RATE: str(bytes_per_s)})
    made.is_exceeded(BEGAN_MS)
    return made


@pytest.mark.parametrize("answer_bytes", [1_000, 100_000, 1_000_000])
def test_rate_holds_if_the_quota_is_checked_before_each_send(answer_bytes: int) -> None:
    """Over 20 seconds the rate exceeds the quota by at most one response."""
    limited, sent = quota(1_000_000), 0
    for now_ms in range(BEGAN_MS, BEGAN_MS + 20_000):
        if not limited.is_exceeded(now_ms):
            limited.record(answer_bytes, now_ms)
            sent += answer_bytes
    assert 20_000_000 - answer_bytes <= sent <= 1.1 * 20_000_000 + answer_bytes


def test_quota_allows_exactly_its_rate() -> None:
    limited = quota(1000)
    limited.record(1000, BEGAN_MS)
    assert not limited.is_exceeded(BEGAN_MS)
    limited.record(1, BEGAN_MS)
    assert limited.is_exceeded(BEGAN_MS)
    assert not limited.is_exceeded(BEGAN_MS + 1001)


def test_rate_of_0_is_exceeded_by_the_first_bytes() -> None:
    limited = quota(0)
    assert not limited.is_exceeded(BEGAN_MS)
    limited.record(1, BEGAN_MS)
    assert limited.is_exceeded(BEGAN_MS + 10_999)
    assert not limited.is_exceeded(BEGAN_MS + 11_000)


def test_removed_rate_is_unlimited_and_an_invalid_one_is_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limited = quota(1)
    limited.record(10**12, BEGAN_MS)
    assert limited.is_exceeded(BEGAN_MS)
    limited.set_rate(RATE, {RATE: "fast"})
    assert limited.bytes_per_s == 1
    assert "'fast' is no number" in caplog.text
    limited.set_rate(RATE, {})
    assert limited.bytes_per_s == UNLIMITED
    assert not limited.is_exceeded(BEGAN_MS)


@pytest.mark.parametrize(
    ("replicas", "throttled"),
    [
        ("*", {0, 1, 12}),
        ("0:3,12:3", {0, 12}),
        ("0:33,1:3,12:4", {1}),
        (" 1:3 , 12:3", {1, 12}),
        ("0:4", set()),
        ("", set()),
    ],
)
def test_throttled_replicas_are_those_of_the_topic_config(
    replicas: str, throttled: set[int]
) -> None:
    limited = ReplicationQuota(11, 1)
    limited.set_replicas(TOPIC, "*", 3)
    limited.set_replicas(TOPIC, replicas, 3)
    assert {index for index in (0, 1, 12) if limited.is_throttled(TOPIC, index)} == throttled
    assert bool(limited.throttled) == bool(throttled)
    assert not limited.is_throttled("another", 0)


@pytest.mark.parametrize("replicas", ["", "0:4"])
def test_empty_replica_list_of_an_unthrottled_topic_is_accepted(replicas: str) -> None:
    limited = ReplicationQuota(11, 1)
    limited.set_replicas("other", "*", 3)
    limited.set_replicas(TOPIC, replicas, 3)
    assert limited.throttled == {"other": None}
