"""How replication's throttles count; the clock is an argument."""

from __future__ import annotations

import pytest

from kwire.storage.partitions.replication_quota import UNLIMITED, ReplicationQuota

RATE = "leader.replication.throttled.rate"
TOPIC = "t"
BEGAN_MS = 1_700_000_000_000


def quota(bytes_per_s: int) -> ReplicationQuota:
    """With Kafka's eleven windows of a second, of which the first begins now."""
    made = ReplicationQuota(11, 1)
    made.set_rate(RATE, {RATE: str(bytes_per_s)})
    made.is_exceeded(BEGAN_MS)
    return made


@pytest.mark.parametrize("answer_bytes", [1_000, 100_000, 1_000_000])
def test_whoever_asks_before_it_sends_keeps_to_the_rate(answer_bytes: int) -> None:
    """Over 20 seconds, but for the answer that passes it."""
    limited, sent = quota(1_000_000), 0
    for now_ms in range(BEGAN_MS, BEGAN_MS + 20_000):
        if not limited.is_exceeded(now_ms):
            limited.record(answer_bytes, now_ms)
            sent += answer_bytes
    assert 20_000_000 - answer_bytes <= sent <= 1.1 * 20_000_000 + answer_bytes


def test_exactly_the_rate_is_within_it() -> None:
    limited = quota(1000)
    limited.record(1000, BEGAN_MS)
    assert not limited.is_exceeded(BEGAN_MS)
    limited.record(1, BEGAN_MS)
    assert limited.is_exceeded(BEGAN_MS)
    assert not limited.is_exceeded(BEGAN_MS + 1001)


def test_nothing_may_pass_where_the_rate_is_0_and_something_has() -> None:
    limited = quota(0)
    assert not limited.is_exceeded(BEGAN_MS)
    limited.record(1, BEGAN_MS)
    assert limited.is_exceeded(BEGAN_MS + 10_999)
    assert not limited.is_exceeded(BEGAN_MS + 11_000)


def test_a_rate_that_is_taken_off_or_is_none(caplog: pytest.LogCaptureFixture) -> None:
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
def test_which_replicas_are_throttled(replicas: str, throttled: set[int]) -> None:
    limited = ReplicationQuota(11, 1)
    limited.set_replicas(TOPIC, "*", 3)
    limited.set_replicas(TOPIC, replicas, 3)
    assert {index for index in (0, 1, 12) if limited.is_throttled(TOPIC, index)} == throttled
    assert bool(limited.throttled) == bool(throttled)
    assert not limited.is_throttled("another", 0)


@pytest.mark.parametrize("replicas", ["", "0:4"])
def test_topic_that_was_never_throttled_may_be_set_to_no_replicas(replicas: str) -> None:
    limited = ReplicationQuota(11, 1)
    limited.set_replicas("other", "*", 3)
    limited.set_replicas(TOPIC, replicas, 3)
    assert limited.throttled == {"other": None}
