"""Stopping a member whose metadata store does not answer, or whose disks have failed."""

from __future__ import annotations

import errno
import logging
import signal
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.broker.broker import Broker
from kwire.cluster.membership import member as membership
from kwire.cluster.membership.leaving import ShutdownLimits, hand_over
from kwire.cluster.metadata.changes import Change, SetConfigs
from kwire.cluster.metadata.image import NO_CONTROLLER, ClusterImage
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.shared.server import listen
from kwire.cluster.stores.zookeeper import link
from kwire.codecs.messages.controlled_shutdown import (
    ControlledShutdownResponse,
    RemainingPartition,
)
from kwire.log import LogDirError
from kwire.server.server import STOP_SIGNALS, _run_until_stopped, serve
from kwire.settings import BrokerConfig, ConfigResourceType, load
from kwire.testing import ZooKeeperProcess
from tests.cluster.observing import broker as member_image
from tests.cluster.sharing import Holder, holding
from tests.cluster.stores.zookeeper.proxy import proxied
from tests.cluster.stores.zookeeper.stores import opened
from tests.inside import PATIENCE_S, until

LIMITS = ShutdownLimits(attempts_max=3, backoff_s=5.0, answer_timeout_s=30.0)
DONE = ControlledShutdownResponse()
LEFT = ControlledShutdownResponse(remaining_partitions=[RemainingPartition("t", 0)])


async def seconds_to_hand_over(answers: Sequence[ControlledShutdownResponse | None]) -> float:
    """By a controller that gives `answers` in turn; None is a StoreError, and none at all the
    end of its answers."""
    left = list(answers)

    async def ask() -> ControlledShutdownResponse:
        if not left:
            await trio.sleep_forever()
        answer = left.pop(0)
        if answer is None:
            raise StoreError("made up")
        return answer

    began_at = trio.current_time()
    await hand_over(ask, lambda: False, LIMITS)
    return trio.current_time() - began_at


async def test_controlled_shutdown_ends_within_its_limits_whatever_the_controller_answers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    assert await seconds_to_hand_over([DONE]) == pytest.approx(0, abs=1)
    assert await seconds_to_hand_over([LEFT, None, DONE]) == pytest.approx(10, abs=1)
    assert await seconds_to_hand_over([LEFT, LEFT, LEFT, LEFT]) == pytest.approx(10, abs=1)
    assert await seconds_to_hand_over([None, LEFT]) == pytest.approx(45, abs=1)
    assert await seconds_to_hand_over([]) == pytest.approx(45, abs=1)


async def test_controlled_shutdown_is_skipped_if_no_other_broker_is_a_member() -> None:
    async def ask() -> ControlledShutdownResponse:
        raise AssertionError("nobody could take over")

    await hand_over(ask, lambda: True, LIMITS)


def test_limits_of_a_controlled_shutdown_are_settings_of_kafka_3_9() -> None:
    assert ShutdownLimits.of(load(None, {})) == ShutdownLimits(3, 0.5, 30.0)
    given = {
        "controlled.shutdown.max.retries": "7",
        "controlled.shutdown.retry.backoff.ms": "5000",
        "controller.socket.timeout.ms": "1000",
    }
    limits = ShutdownLimits.of(load(None, given))
    assert limits == ShutdownLimits(7, 5.0, 1.0)
    assert limits.total_s == 36


def settings(directory: Path, **more: str) -> BrokerConfig:
    given: Mapping[str, str] = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(directory / "logs"),
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    return load(None, given)


@asynccontextmanager
async def controller(config: BrokerConfig, metadata: Path | None = None) -> AsyncIterator[Broker]:
    """A broker that is a member of a cluster and its controller; stopped at the end.

    The cluster is that of the holder that listens on `metadata`, or of zookeeper.connect.
    """
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        broker: Broker = await nursery.start(serve, config, stop, metadata)
        member = broker.membership
        assert member is not None
        await until(lambda: member.is_controller)
        try:
            yield broker
        finally:
            stop.set()


class Pause:
    """Makes the holder's store answer no commit until `end`, as if its process were paused."""

    def __init__(self, holder: Holder, monkeypatch: pytest.MonkeyPatch) -> None:
        self._over = trio.Event()
        self.is_asked = trio.Event()
        commit = holder.local.commit

        async def paused(changes: Sequence[Change]) -> ClusterImage:
            self.is_asked.set()
            with trio.CancelScope(shield=True):  # as the commit itself
                await self._over.wait()
            return await commit(changes)

        monkeypatch.setattr(holder.local, "commit", paused)

    def end(self) -> None:
        self._over.set()


async def test_stopping_controller_is_replaced_although_its_store_is_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It hung for as long as the holder of the metadata was paused."""
    monkeypatch.setattr(membership, "RESIGN_TIMEOUT_S", 0.05)
    caplog.set_level(logging.WARNING, "kwire.cluster")
    config = settings(
        tmp_path,
        controller_socket_timeout_ms="50",
        controlled_shutdown_retry_backoff_ms="0",
    )
    async with holding(tmp_path) as holder:
        with trio.fail_after(PATIENCE_S):
            async with controller(config, holder.path) as broker:
                other = await holder.broker(2)
                assert broker.membership is not None
                pause = Pause(holder, monkeypatch)
                change = SetConfigs(ConfigResourceType.BROKER, "", {}, {"num.io.threads": "9"})
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(broker.membership.commit, [lambda image: change])
                    await pause.is_asked.wait()
                    nursery.cancel_scope.cancel()
            pause.end()
            await until(lambda: other.image.controller_id == NO_CONTROLLER)
            assert await other.campaign()
    assert "Nobody answered the controlled shutdown within 0.05 s" in caplog.text
    assert "The store of the cluster did not answer within 0.05 s" in caplog.text


@pytest.mark.java
@pytest.mark.slow
async def test_stopping_controller_is_replaced_although_zookeeper_is_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zookeeper: ZooKeeperProcess, unique: str
) -> None:
    monkeypatch.setattr(membership, "RESIGN_TIMEOUT_S", 0.05)
    monkeypatch.setattr(link, "STOP_TIMEOUT_S", 0.05)
    async with (
        proxied(zookeeper.port) as proxy,
        opened(zookeeper.connect(f"/{unique}"), 2) as other,
    ):
        config = settings(
            tmp_path,
            zookeeper_connect=proxy.connect(unique),
            controller_socket_timeout_ms="50",
            controlled_shutdown_retry_backoff_ms="0",
        )
        with trio.fail_after(PATIENCE_S):
            async with controller(config) as broker:
                await other.register(member_image(2))
                assert broker.membership is not None
                proxy.hold()
                change = SetConfigs(ConfigResourceType.BROKER, "", {}, {"num.io.threads": "9"})
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(broker.membership.commit, [lambda image: change])
                    await proxy.waiting.wait()
                    nursery.cancel_scope.cancel()
            assert other.image.controller_id == broker.node_id
            proxy.release()
            await other.shows(lambda image: image.controller_id == NO_CONTROLLER)
            assert await other.campaign()


async def test_member_that_lost_all_directories_exits_with_the_reason(tmp_path: Path) -> None:
    """It ended with status 0, so that no supervisor started it again."""
    async with holding(tmp_path) as holder:
        with pytest.RaisesGroup(
            pytest.RaisesExc(LogDirError, match=r"all log\.dirs have failed.*made up")
        ):
            async with controller(settings(tmp_path), holder.path) as broker:
                directory = broker.logs.online_dirs[0]
                broker.logs.dirs.dir_failed(directory, OSError(errno.EIO, "made up"))
                assert broker.storage_lost.is_set()


async def test_cancelled_request_sends_no_partial_line_to_the_holder(tmp_path: Path) -> None:
    """Who asks may be cancelled while the holder reads nothing; others ask over the same line."""
    async with holding(tmp_path) as holder:
        store = await holder.broker(1)
        value = "x" * 1_000_000  # more than the socket takes at once
        change = SetConfigs(ConfigResourceType.BROKER, "", {}, {"metric.reporters": value})
        with trio.move_on_after(0.001):
            await store.commit([change])
        with trio.fail_after(PATIENCE_S):
            assert await store.campaign()


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
async def test_member_waiting_for_its_store_at_start_stops_on_sigterm(tmp_path: Path) -> None:
    """The signal had no effect before the broker was ready, which it never is here."""
    with listen(tmp_path / "s") as listening, trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                _run_until_stopped, settings(tmp_path), None, False, tmp_path / "s", serve
            )
            listening.setblocking(False)
            with trio.socket.from_stdlib_socket(listening) as accepting:
                silent, _ = await accepting.accept()
                signal.raise_signal(signal.SIGTERM)
                assert await silent.recv(1) == b""
                silent.close()
