"""Rates match Apache Kafka 4.3.1's Rate and TokenBucket, which Rates.java ran."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from kwire.conformance.apache_kafka import source_command
from kwire.security.quotas.rates import Rate, SimpleRate, TokenBucket, Windows, throttle_ms

ANSWERS = Path(__file__).parent / "data" / "rates-4.3.1.txt"
SOURCE = Path(__file__).with_name("Rates.java")

BEGAN_MS = 1_700_000_000_000
FROM_APACHE_KAFKA = """
148+29 201=29.0 455+77 717+95 792+241 1080+524 3340+503 3363+745 5750+602 5803=602.0
5978+555 6269+74 6431=1231.0 6677+207 7414+143 7502=902.3972602739726 7619+451 7637+738
8188=1136.177194421657 8350+135 8623+117 8875+789 9116+223 11630+916 11852=916.0
14417+319 14484=319.0 14647+730 14768+797 15009=1846.0 15143+730 15247+984 15397+428
15642+141 15704=3208.2362082362083 15715+671
"""
"""Kafka's SimpleRate with two windows of 1 s: records (ms + bytes) and rates (ms = rate)."""


def check(lines: Iterable[str]) -> int:
    """Compare each step of each history; return the number of steps."""
    steps = 0
    for line in lines:
        first, *rest = line.split()
        if first == "new":
            count, size_ms, bound, start_ms = map(float, rest)
            windows = Windows(int(count), int(size_ms))
            rate, bucket = Rate(windows), TokenBucket(windows, bound, start_ms)
            continue
        amount = float(first)
        now_ms, per_second, span_ms, tokens = map(float, rest)
        rate.record(amount, now_ms)
        bucket.take(amount, now_ms)
        assert rate.per_second(now_ms) == pytest.approx(per_second), line
        assert rate.span_ms(now_ms) == span_ms, line
        owed_ms = bucket.throttle_ms(now_ms)
        assert owed_ms == (round(-tokens / bound * 1000) if tokens < 0 else 0), line
        steps += 1
    return steps


def test_rates_match_recorded_kafka_values() -> None:
    assert check(ANSWERS.read_text().splitlines()) == 400


@pytest.mark.long
@pytest.mark.java
def test_apache_kafka_gives_the_recorded_rates(rng: random.Random) -> None:
    asked = [str(rng.getrandbits(62)), "500"]
    command = source_command(SOURCE, asked)
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    assert check(told.stdout.splitlines()) == 500 * 40


def test_throttle_time_brings_the_rate_down_to_its_bound() -> None:
    rate = Rate(Windows(11, 1000))
    rate.record(20_000, 0)
    rest_ms = throttle_ms(rate, 1000, 0)
    assert rest_ms == 10_000  # 20 kB at 1 kB/s, of which ten seconds lie before it came
    assert throttle_ms(rate, 1000, rest_ms + 1000) == 0
    assert throttle_ms(rate, 2000, 0) == 0


def test_rate_without_requests_becomes_0() -> None:
    rate = Rate(Windows(3, 1000))
    rate.record(500, 0)
    assert rate.per_second(2_999) > 0
    assert rate.per_second(3_000) == 0


def test_overdrawn_bucket_recovers_with_time() -> None:
    bucket = TokenBucket(Windows(2, 1000), 5, 0)
    bucket.take(12, 0)
    assert bucket.throttle_ms(0) == 400
    assert bucket.throttle_ms(400) == 0
    bucket.change(1, 400)
    bucket.take(1, 400)
    assert bucket.throttle_ms(400) == 1000


def test_simple_rate_matches_apache_kafka() -> None:
    rate = SimpleRate(Windows(2, 1000))
    for told in FROM_APACHE_KAFKA.split():
        at_ms, is_said, number = re.split("([+=])", told)
        if is_said == "=":
            assert rate.per_second(int(at_ms)) == pytest.approx(float(number))
        else:
            rate.record(int(number), int(at_ms))


def test_simple_rate_divides_by_at_least_one_window() -> None:
    rate = SimpleRate(Windows(11, 1000))
    rate.record(500, BEGAN_MS)
    assert rate.per_second(BEGAN_MS) == 500
    assert rate.per_second(BEGAN_MS + 999) == 500
    assert rate.per_second(BEGAN_MS + 2000) == 250


def test_window_ends_after_its_size_and_is_reset_after_all_windows() -> None:
    rate = SimpleRate(Windows(2, 1000))
    rate.record(100, BEGAN_MS)
    rate.record(100, BEGAN_MS + 999)  # the same window
    rate.record(100, BEGAN_MS + 1000)  # the next
    assert rate.per_second(BEGAN_MS + 1000) == 300
    assert rate.per_second(BEGAN_MS + 2998) == pytest.approx(300 / 2.998)
    # 2 s after the last of the first window that one begins anew; the other began 1.999 s ago.
    assert rate.per_second(BEGAN_MS + 2999) == pytest.approx(100 / 1.999)


def test_rate_is_reset_after_a_long_pause() -> None:
    rate = SimpleRate(Windows(2, 1000))
    rate.record(1000, BEGAN_MS)
    assert rate.per_second(BEGAN_MS + 60_000) == 0
    rate.record(10, BEGAN_MS + 60_500)
    assert rate.per_second(BEGAN_MS + 60_500) == 10


def test_rate_reuses_its_windows() -> None:
    rate = SimpleRate(Windows(2, 1000))
    for second in range(100):
        rate.record(1000, BEGAN_MS + 1000 * second)
    assert rate.per_second(BEGAN_MS + 98_999) == pytest.approx(3000 / 1.999)
    assert rate.per_second(BEGAN_MS + 99_500) == pytest.approx(2000 / 1.5)


@pytest.mark.parametrize("count", [1, 2, 5, 11])
def test_rate_keeps_one_more_window_than_it_measures(count: int) -> None:
    """As in Kafka's SampledStat: the current window and the full ones."""
    rate = Rate(Windows(count, 1000))
    for second in range(50):
        rate.record(1000, BEGAN_MS + 1000 * second)
    assert len(rate._ring) == count + 1


def test_rate_of_a_single_window_spans_at_least_one_millisecond() -> None:
    """As in Kafka: at its start a single window would have lasted 0 ms."""
    rate = Rate(Windows(1, 1000))
    rate.record(5, BEGAN_MS)
    assert rate.per_second(BEGAN_MS) == 5000
    assert rate.per_second(BEGAN_MS + 10) == 500
