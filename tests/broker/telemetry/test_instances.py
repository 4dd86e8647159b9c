"""The machine that answers clients, at made-up times: scripts, and drawn schedules."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.broker.telemetry.instances import (
    FORGOTTEN_AFTER_MS_MIN,
    ClientInstances,
    Instance,
    Push,
    TelemetryClient,
)
from kwire.broker.telemetry.subscriptions import AssignedSubscription, Subscription, Subscriptions
from kwire.codecs.errors import ErrorCode

INTERVAL_MS = 1000
SIZE_BYTES_MAX = 100
NONE = ErrorCode.NONE
THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class Bench:
    """One broker's machine, with a clock that the test sets."""

    def __init__(self, instances_max: int = 100) -> None:
        self.subscriptions = Subscriptions()
        self.subscribe()
        self.machine = ClientInstances(self.subscriptions, SIZE_BYTES_MAX, instances_max)
        self.now_ms = 0
        self.becomes = NONE
        """What becomes of payloads."""
        self.taken: list[bytes] = []

    def subscribe(self, metrics: str = "m", interval_ms: int = INTERVAL_MS) -> None:
        configs = {"metrics": metrics, "interval.ms": str(interval_ms)}
        self.subscriptions.set("s", Subscription.of(configs))

    def ask(self, number: int = 1, connection: str = "c") -> AssignedSubscription | ErrorCode:
        return self.machine.ask(client(number, connection), self.now_ms)

    def push(
        self,
        number: int = 1,
        connection: str = "c",
        *,
        subscription_id: int | None = None,
        terminating: bool = False,
        codec: int = 0,
        size_bytes: int = 1,
    ) -> ErrorCode:
        def take(instance: Instance) -> ErrorCode:
            self.taken.append(instance.id)
            return self.becomes

        if subscription_id is None:
            subscription_id = self.subscriptions.asked_of(client(number).id, {}).subscription_id
        push = Push(subscription_id, terminating, codec, size_bytes)
        return self.machine.push(client(number, connection), push, self.now_ms, take)


def client(number: int, connection: str = "c") -> TelemetryClient:
    return TelemetryClient(number.to_bytes(15) + b"\x07", {}, connection)


def test_client_may_push_again_after_an_interval() -> None:
    bench = Bench()
    told = bench.ask()
    assert isinstance(told, AssignedSubscription)
    assert told.interval_ms == INTERVAL_MS
    assert bench.push() == NONE
    bench.now_ms = INTERVAL_MS - 1
    assert bench.push() == THROTTLED
    bench.now_ms = INTERVAL_MS
    assert bench.push() == NONE
    assert len(bench.taken) == 2


def test_client_may_ask_again_after_an_interval() -> None:
    bench = Bench()
    bench.ask()
    bench.now_ms = 600
    assert bench.push() == NONE
    bench.now_ms = 1599
    assert bench.ask() == THROTTLED
    bench.now_ms = 1600
    assert isinstance(bench.ask(), AssignedSubscription)


@pytest.mark.parametrize(
    ("push", "error"),
    [
        (lambda bench: bench.push(subscription_id=1), ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        (lambda bench: bench.push(codec=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (lambda bench: bench.push(codec=-1), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_client_may_ask_at_once_after_a_refused_push(
    push: Callable[[Bench], ErrorCode], error: ErrorCode
) -> None:
    bench = Bench()
    bench.ask()
    assert push(bench) == error
    assert isinstance(bench.ask(), AssignedSubscription)
    assert bench.ask() == THROTTLED, "it was told by then"
    assert bench.push() == THROTTLED, "the refused push counts"
    assert bench.taken == []


@pytest.mark.parametrize("error", [ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.INVALID_RECORD])
def test_client_waits_an_interval_after_an_invalid_push(error: ErrorCode) -> None:
    bench = Bench()
    bench.ask()
    bench.becomes = error
    too_much = error is ErrorCode.TELEMETRY_TOO_LARGE
    assert bench.push(size_bytes=SIZE_BYTES_MAX + too_much) == error
    assert bench.ask() == THROTTLED


def test_first_push_after_a_terminating_push_is_refused() -> None:
    bench = Bench()
    bench.ask()
    assert bench.push() == NONE
    assert bench.push(terminating=True) == NONE, "the last one need not wait"
    assert bench.push() == ErrorCode.INVALID_REQUEST
    bench.now_ms = INTERVAL_MS
    assert bench.push() == NONE, "as Apache Kafka has it: what was refused says it goes on"


def test_empty_push_is_accepted_and_not_stored() -> None:
    bench = Bench()
    bench.ask()
    assert bench.push(size_bytes=0) == NONE
    assert bench.taken == []


def test_push_with_a_reserved_instance_id_is_refused() -> None:
    bench = Bench()
    for instance_id in (bytes(16), bytes(15) + b"\1"):
        nobody = TelemetryClient(instance_id, {}, "c")
        push = Push(0, terminating=False, compression_type=0, size_bytes=1)
        error = bench.machine.push(nobody, push, 0, lambda _: NONE)
        assert error == ErrorCode.INVALID_REQUEST
    assert len(bench.machine) == 0


def test_client_is_not_throttled_after_a_subscription_change() -> None:
    bench = Bench()
    bench.ask()
    old = bench.subscriptions.asked_of(client(1).id, {}).subscription_id
    bench.subscribe("other")
    assert bench.push(subscription_id=old) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    told = bench.ask()
    assert isinstance(told, AssignedSubscription)
    assert told.metrics == ("other",)


def test_client_is_forgotten_when_its_first_connection_closes() -> None:
    bench = Bench()
    bench.ask(connection="first")
    assert bench.ask(connection="second") == THROTTLED
    bench.machine.disconnected("second")
    assert bench.ask(connection="second") == THROTTLED
    bench.machine.disconnected("first")
    assert len(bench.machine) == 0
    assert isinstance(bench.ask(connection="second"), AssignedSubscription)


@pytest.mark.parametrize(
    ("interval_ms", "silence_ms"), [(1000, FORGOTTEN_AFTER_MS_MIN), (200_000, 600_000)]
)
def test_client_is_forgotten_after_three_silent_intervals(
    interval_ms: int, silence_ms: int
) -> None:
    bench = Bench()
    bench.subscribe(interval_ms=interval_ms)
    bench.ask()
    bench.push(terminating=True)
    bench.now_ms = silence_ms - 1
    assert bench.push() == ErrorCode.INVALID_REQUEST
    bench.push(terminating=True)
    bench.now_ms += silence_ms
    assert bench.push() == NONE, "it is a new one"


def test_longest_silent_client_is_dropped_above_the_maximum() -> None:
    bench = Bench(instances_max=3)
    for number in (1, 2, 3):
        bench.ask(number)
    bench.ask(1)
    bench.ask(4)
    assert len(bench.machine) == 3
    assert bench.ask(1) == THROTTLED
    assert isinstance(bench.ask(2), AssignedSubscription), "it was silent longest"


class Watch:
    """A bench whose clients are watched: each payload that is taken needs a reason."""

    def __init__(self) -> None:
        self.bench = Bench(instances_max=3)
        self._taken_ms: dict[bytes, int] = {}
        """When a payload of this client was last taken."""
        self._has_reason: set[bytes] = set()

    def wait(self, ms: int) -> None:
        self.bench.now_ms += ms

    def ask(self, number: int) -> None:
        if isinstance(self.bench.ask(number, f"c{number}"), AssignedSubscription):
            self._has_reason.add(client(number).id)

    def push(self, number: int, *, terminating: bool = False) -> None:
        bench, who = self.bench, client(number).id
        is_new = who not in bench.machine
        has_waited = bench.now_ms - self._taken_ms.get(who, -INTERVAL_MS) >= INTERVAL_MS
        before = len(bench.taken)
        bench.push(number, f"c{number}", terminating=terminating)
        if len(bench.taken) > before:
            assert is_new or has_waited or terminating or who in self._has_reason
            self._taken_ms[who] = bench.now_ms
            self._has_reason.discard(who)

    def last(self, number: int) -> None:
        self.push(number, terminating=True)

    def wrong(self, number: int) -> None:
        before = len(self.bench.taken)
        assert self.bench.push(number, f"c{number}", subscription_id=1) != NONE
        assert len(self.bench.taken) == before

    def hang_up(self, number: int) -> None:
        self.bench.machine.disconnected(f"c{number}")
        assert client(number).id not in self.bench.machine

    def change(self, number: int) -> None:
        self.bench.subscribe(f"m{number}")
        self._has_reason |= self._taken_ms.keys()


STEPS = st.one_of(
    st.tuples(st.just(Watch.wait), st.sampled_from([1, 500, 999, 1000, 59_999, 60_000])),
    *(
        st.tuples(st.just(step), st.integers(1, 4))
        for step in (Watch.ask, Watch.push, Watch.last, Watch.wrong, Watch.hang_up, Watch.change)
    ),
)


@given(st.lists(STEPS, max_size=60))
def test_drawn_requests_accept_payloads_only_by_the_rules(
    steps: list[tuple[Callable[[Watch, int], None], int]],
) -> None:
    """It is the first one, or an interval has passed, or it is the last one, or its client was told
    anew what to push.  No more clients are known than may be, and whoever waits is served."""
    watch = Watch()
    for step, number in steps:
        step(watch, number)
        assert len(watch.bench.machine) <= 3
    watch.wait(INTERVAL_MS)
    for number in (1, 2, 3, 4):
        assert isinstance(watch.bench.ask(number, f"c{number}"), AssignedSubscription)
        assert watch.bench.push(number, f"c{number}") in (NONE, ErrorCode.INVALID_REQUEST)
