"""What Meters sum up, forget, and move on with time."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.server.metrics.distribution import SLICE_S, SLICES, quantiles_of
from kwire.server.metrics.meters import (
    EXACT_MAX,
    SAMPLED_EVERY,
    SAMPLED_RARELY,
    SAMPLES_MAX,
    Meters,
    request_name,
    timed_requests,
    window_of,
)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_ns = 5

    def __call__(self) -> int:
        return self.now_ns

    def move(self, seconds: int) -> None:
        self.now_ns += seconds * 1_000_000_000


class Counted:
    """What `fold` calls."""

    def __init__(self) -> None:
        self.folded = 0

    def fold(self) -> None:
        self.folded += 1


def test_request_names_are_kafkas() -> None:
    assert [request_name(key) for key in (0, 2, 17, 22, 23)] == [
        "Produce",
        "ListOffsets",
        "SaslHandshake",
        "InitProducerId",
        "OffsetForLeaderEpoch",
    ]
    assert request_name(ApiKey.ADD_OFFSETS_TO_TXN) == "AddOffsetsToTxn"


def test_fold_asks_all_connections_and_partitions() -> None:
    meters, connection, partition = Meters(Clock()), Counted(), Counted()
    meters.connections.add(connection)
    meters.hosted = {"t": {0: partition}}
    meters.fold()
    assert (connection.folded, partition.folded) == (1, 1)


def test_window_moves_with_the_clock_and_ends_after_two_minutes() -> None:
    clock = Clock()
    meters = Meters(clock)
    produce = meters.request("Produce")
    produce.local.observe(7)
    meters.disk.flush.observe(9)
    for _ in range(SLICES - 1):
        clock.move(SLICE_S)
        meters.fold()
        assert produce.local.quantiles([0.5]) == [7]
    clock.move(SLICE_S - 1)
    meters.fold()
    assert meters.disk.flush.quantiles([0.5]) == [9]
    clock.move(1)
    meters.fold()
    assert produce.local.quantiles([0.5]) == [0]
    assert meters.disk.flush.quantiles([0.5]) == [0]


def test_window_is_empty_after_a_long_time_without_a_fold() -> None:
    clock = Clock()
    meters = Meters(clock)
    meters.request("Produce").total.observe(7)
    clock.move(100_000)
    meters.fold()
    assert meters.request("Produce").total.quantiles([0.5]) == [0]


def test_sums_of_a_topic_that_is_gone_stay_in_all_topics() -> None:
    meters = Meters(Clock())
    meters.topic("a").bytes_in = 5
    meters.topic("b").bytes_in = 7
    meters.hosted = {"b": {}}
    meters.fold()
    assert list(meters.topics) == ["b"]
    assert (meters.gone.bytes_in, meters.all_topics().bytes_in) == (5, 12)


def test_meters_of_one_name_are_one_object() -> None:
    meters = Meters(Clock())
    assert meters.request("Fetch") is meters.request("Fetch")
    assert meters.topic("t") is meters.topic("t")
    assert meters.listener("l") is meters.listener("l")


def test_times_that_were_zero_count_in_the_quantiles() -> None:
    meters = Meters(Clock())
    for name in ("FetchConsumer", "FetchFollower"):
        meters.request(name).local.observe(3)
    meters.request("FetchConsumer").remote.observe(20)
    both = list(meters.requests.values())
    window, zeros = window_of(both, "remote", timed_requests(both))
    assert zeros == 1
    assert quantiles_of(window, [0.5, 0.999], zeros) == [0, 20]


def test_first_fast_requests_of_a_slice_are_all_timed_and_then_a_sample() -> None:
    meter = Meters(Clock()).request("Produce")
    assert all(meter.weight() == 1 for _ in range(EXACT_MAX))
    for left, every in ((SAMPLES_MAX, SAMPLED_EVERY), (0, SAMPLED_RARELY)):
        meter.samples_left = left
        weights = [meter.weight() for _ in range(15 * every)]
        assert set(weights) == {0, every}
        assert sum(weights) == len(weights)
    meter.turn()
    assert meter.weight() == 1


def test_late_watch_is_a_stall_above_the_limit() -> None:
    loop = Meters(Clock()).loop
    loop.woke(10, loop.STALL_NS)
    assert (loop.stalls, loop.awake_ns) == (0, 10)
    loop.woke(20, loop.STALL_NS + 1)
    loop.woke(30, loop.STALL_NS + 5)
    assert (loop.stalls, loop.longest) == (2, loop.STALL_NS + 5)
    assert loop.stalled == 2 * loop.STALL_NS + 6
