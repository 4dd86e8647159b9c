"""Rates are what Apache Kafka 4.3.1 measures: Rates.java asked its Rate and its TokenBucket."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from kwire.conformance import java
from kwire.conformance.apache_kafka import libs
from kwire.quotas.rates import Rate, TokenBucket, Windows, throttle_ms

ANSWERS = Path(__file__).parent / "data" / "rates-4.3.1.txt"
SOURCE = Path(__file__).with_name("Rates.java")


def check(lines: Iterable[str]) -> int:
    """Compare each step of each history; how many there were."""
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


def test_as_they_were_kept() -> None:
    assert check(ANSWERS.read_text().splitlines()) == 400


@pytest.mark.long
@pytest.mark.java
def test_as_they_are_now(rng: random.Random) -> None:
    asked = [str(rng.getrandbits(62)), "500"]
    command = [str(java.executable()), "-cp", f"{libs()}/*", str(SOURCE), *asked]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    assert check(told.stdout.splitlines()) == 500 * 40


def test_a_client_rests_until_its_rate_is_what_it_may_be() -> None:
    rate = Rate(Windows(11, 1000))
    rate.record(20_000, 0)
    rest_ms = throttle_ms(rate, 1000, 0)
    assert rest_ms == 10_000  # 20 kB at 1 kB/s, of which ten seconds lie before it came
    assert throttle_ms(rate, 1000, rest_ms + 1000) == 0
    assert throttle_ms(rate, 2000, 0) == 0


def test_what_nobody_asks_for_is_forgotten() -> None:
    rate = Rate(Windows(3, 1000))
    rate.record(500, 0)
    assert rate.per_second(2_999) > 0
    assert rate.per_second(3_000) == 0


def test_a_bucket_is_overdrawn_once_and_paid_back() -> None:
    bucket = TokenBucket(Windows(2, 1000), 5, 0)
    bucket.take(12, 0)
    assert bucket.throttle_ms(0) == 400
    assert bucket.throttle_ms(400) == 0
    bucket.change(1, 400)
    bucket.take(1, 400)
    assert bucket.throttle_ms(400) == 1000
