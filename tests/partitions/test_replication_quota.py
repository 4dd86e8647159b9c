"""How replication's throttles count; the clock is an argument."""

from __future__ import annotations

import re

import pytest

from kwire.partitions.replication_quota import UNLIMITED, ReplicationQuota, SimpleRate

RATE = "leader.replication.throttled.rate"
TOPIC = "t"
BEGAN_MS = 1_700_000_000_000
FROM_APACHE_KAFKA = """
148+29 201=29.0 455+77 717+95 792+241 1080+524 3340+503 3363+745 5750+602 5803=602.0
5978+555 6269+74 6431=1231.0 6677+207 7414+143 7502=902.3972602739726 7619+451 7637+738
8188=1136.177194421657 8350+135 8623+117 8875+789 9116+223 11630+916 11852=916.0
14417+319 14484=319.0 14647+730 14768+797 15009=1846.0 15143+730 15247+984 15397+428
15642+141 15704=3208.2362082362083 15715+671
"""
"""What its SimpleRate with two windows of a second was told (ms + bytes), and said (ms = rate)."""


def quota(bytes_per_s: int) -> ReplicationQuota:
    """With Kafka's eleven windows of a second, of which the first begins now."""
    made = ReplicationQuota(11, 1)
    made.set_rate(RATE, {RATE: str(bytes_per_s)})
    made.is_exceeded(BEGAN_MS)
    return made


def test_it_counts_as_apache_kafka_does() -> None:
    rate = SimpleRate(2, 1000)
    for told in FROM_APACHE_KAFKA.split():
        at_ms, is_said, number = re.split("([+=])", told)
        if is_said == "=":
            assert rate.per_second(int(at_ms)) == pytest.approx(float(number))
        else:
            rate.record(int(number), int(at_ms))


def test_what_is_counted_within_the_first_second_counts_as_in_one() -> None:
    rate = SimpleRate(11, 1000)
    rate.record(500, BEGAN_MS)
    assert rate.per_second(BEGAN_MS) == 500
    assert rate.per_second(BEGAN_MS + 999) == 500
    assert rate.per_second(BEGAN_MS + 2000) == 250


def test_a_window_is_full_after_its_time_and_forgotten_after_all_windows_time() -> None:
    rate = SimpleRate(2, 1000)
    rate.record(100, BEGAN_MS)
    rate.record(100, BEGAN_MS + 999)  # the same window
    rate.record(100, BEGAN_MS + 1000)  # the next
    assert rate.per_second(BEGAN_MS + 1000) == 300
    assert rate.per_second(BEGAN_MS + 2998) == pytest.approx(300 / 2.998)
    # 2 s after the last of the first window that one begins anew; the other began 1.999 s ago.
    assert rate.per_second(BEGAN_MS + 2999) == pytest.approx(100 / 1.999)


def test_after_a_pause_nothing_is_remembered() -> None:
    rate = SimpleRate(2, 1000)
    rate.record(1000, BEGAN_MS)
    assert rate.per_second(BEGAN_MS + 60_000) == 0
    rate.record(10, BEGAN_MS + 60_500)
    assert rate.per_second(BEGAN_MS + 60_500) == 10


def test_windows_are_used_again_in_turn() -> None:
    rate = SimpleRate(2, 1000)
    for second in range(100):
        rate.record(1000, BEGAN_MS + 1000 * second)
    assert rate.per_second(BEGAN_MS + 98_999) == pytest.approx(3000 / 1.999)
    assert rate.per_second(BEGAN_MS + 99_500) == pytest.approx(2000 / 1.5)


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
