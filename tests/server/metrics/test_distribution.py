"""Quantiles within their error, the window's end, and counts that only grow."""

from __future__ import annotations

import random

import pytest

from kwire.server.metrics.distribution import (
    QUANTILES,
    SLICES,
    Distribution,
    merged_window,
    middle_of,
    quantiles_of,
)

ERROR_MAX = 0.033
"""Half of a sixteenth, and a little for the rank within the bucket."""


def test_values_below_32_are_exact() -> None:
    for value in range(32):
        distribution = Distribution()
        distribution.observe(value)
        assert distribution.quantiles([0.5]) == [value]


@pytest.mark.parametrize("value", [32, 33, 47, 63, 64, 999, 1_000_000, 123_456_789, 2**62 + 1])
def test_quantile_of_one_value_is_within_the_error(value: int) -> None:
    distribution = Distribution()
    distribution.observe(value)
    assert distribution.quantiles([0.5]) == [pytest.approx(value, rel=ERROR_MAX)]


def test_quantiles_of_random_values_are_within_the_error(request: pytest.FixtureRequest) -> None:
    drawn = random.Random(request.config.getoption("seed"))
    values = [int(drawn.lognormvariate(11, 2)) for _ in range(5000)]
    distribution = Distribution()
    for value in values:
        distribution.observe(value)
    values.sort()
    wanted = [
        values[max(0, -(-int(point * 10_000) * len(values) // 10_000) - 1)] for point in QUANTILES
    ]
    assert distribution.quantiles() == pytest.approx(wanted, rel=ERROR_MAX, abs=0.5)
    assert distribution.count == len(values)
    assert distribution.sum == sum(values)


def test_weight_counts_a_value_several_times() -> None:
    distribution = Distribution()
    distribution.observe(1, weight=9)
    distribution.observe(20)
    assert (distribution.count, distribution.sum) == (10, 29)
    assert distribution.quantiles([0.5, 0.9, 0.95]) == [1, 1, 20]


def test_zeros_count_as_values_that_were_not_observed() -> None:
    distribution = Distribution()
    distribution.observe(20)
    assert distribution.quantiles([0.5, 0.999], zeros=9) == [0, 20]
    assert Distribution().quantiles([0.5], zeros=3) == [0]


def test_empty_window_has_zero_quantiles() -> None:
    assert Distribution().quantiles() == [0.0] * len(QUANTILES)


def test_value_leaves_the_window_after_all_its_slices_and_stays_in_count_and_sum() -> None:
    distribution = Distribution()
    distribution.observe(7)
    for _ in range(SLICES - 1):
        distribution.turn()
        assert distribution.quantiles([0.5]) == [7]
    distribution.turn()
    assert distribution.quantiles([0.5]) == [0]
    assert (distribution.count, distribution.sum) == (1, 7)


def test_merged_window_has_the_values_of_all_distributions() -> None:
    low, high = Distribution(), Distribution()
    low.observe(3)
    high.observe(30)
    assert quantiles_of(merged_window([low, high]), [0.5, 1.0]) == [3, 30]


def test_number_of_buckets_is_bounded() -> None:
    distribution = Distribution()
    for exponent in range(5, 40):
        for step in range(200):
            distribution.observe((1 << exponent) + (step << exponent) // 200)
    assert len(distribution.window()) <= 16 * 36
    assert middle_of(31) == 31.0
