"""The values of the last hour."""

from __future__ import annotations

import random

from kwire.console.history.series import SampleHistory, SeriesKey, SeriesPoint, thinned

A, B, C = SeriesKey("rate", "a"), SeriesKey("rate", "b"), SeriesKey("lag", "a", "topic")


def test_points_have_all_samples_and_none_where_the_value_is_unknown() -> None:
    history = SampleHistory()
    history.add(1000, {A: 1.5})
    history.add(2000, {B: 2.0, A: None})
    history.add(3000, {A: 3.0, B: 4.0})
    assert history.points(A) == [
        SeriesPoint(1000, 1.5),
        SeriesPoint(2000, None),
        SeriesPoint(3000, 3.0),
    ]
    assert history.points(B) == [
        SeriesPoint(1000, None),
        SeriesPoint(2000, 2.0),
        SeriesPoint(3000, 4.0),
    ]
    assert history.points(C) == []
    assert (history.last(A), history.last(C), history.last_ms) == (3.0, None, 3000)
    assert history.keys("rate") == [A, B]
    assert history.keys("rate", "b") == [B]


def test_old_samples_and_series_without_values_are_forgotten() -> None:
    history = SampleHistory(span_ms=10_000)
    history.add(0, {A: 1.0, B: 1.0})
    history.add(5_000, {A: 2.0})
    history.add(12_000, {A: 3.0, C: 9.0})
    assert history.points(A) == [SeriesPoint(5_000, 2.0), SeriesPoint(12_000, 3.0)]
    assert history.points(B) == []
    # C has the place of B, and none of its values.
    assert history.points(C) == [SeriesPoint(5_000, None), SeriesPoint(12_000, 9.0)]


def test_series_past_the_limit_are_counted_and_left_out() -> None:
    history = SampleHistory(series_max=2)
    history.add(0, {A: 1.0, B: 1.0, C: 1.0})
    assert (history.left_out, history.points(C)) == (1, [])
    history.add(1, {A: 1.0, B: 1.0})
    assert history.left_out == 0


def test_history_with_too_many_values_keeps_the_hour_and_drops_old_rows() -> None:
    history = SampleHistory(values_max=100)
    for number in range(1, 201):
        history.add(number * 1000, {A: number, B: -number})
    points = history.points(A)
    assert len(points) <= 50
    times = [point.time_ms for point in points]
    assert times == sorted(times)
    assert times[0] <= 100_000, "the older half has points"
    assert times[-10:] == [number * 1000 for number in range(191, 201)], "the newest are all there"
    assert all(point.value == point.time_ms / 1000 for point in points)


def test_random_series_keep_their_own_values(rng: random.Random) -> None:
    history, expected = SampleHistory(span_ms=50), {}
    keys = [SeriesKey("k", str(number)) for number in range(12)]
    for time_ms in range(300):
        values = {key: float(rng.randrange(1000)) for key in keys if rng.random() < 0.1}
        history.add(time_ms, values)
        expected[time_ms] = values
        for key in keys:
            for point in history.points(key):
                assert point.value == expected[point.time_ms].get(key)


def test_thinned_points_keep_each_peak() -> None:
    points = [SeriesPoint(number, 1.0) for number in range(1000)]
    points[333] = SeriesPoint(333, 50.0)
    points[777] = SeriesPoint(777, 70.0)
    points[500] = SeriesPoint(500, None)
    few = thinned(points, 100)
    assert len(few) == 100
    assert SeriesPoint(333, 50.0) in few
    assert SeriesPoint(777, 70.0) in few
    assert thinned(points[:10], 100) == points[:10]
