"""The driver of a broker's lifecycle, beside simulated controllers and on a mock clock."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
import trio.testing

from kwire.cluster.peers.error import PeerError
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.kraft.lifecycle import Effect, Lifecycle, Registered, Turn
from kwire.cluster.stores.kraft.living import BrokerLife, steady_ms
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.cluster.stores.kraft.lifecycle_stage import IDENTITY
from tests.cluster.stores.kraft.test_lifecycle_any_controllers import RIVAL, Controllers


@dataclass
class Channel:
    """Gives the requests of a broker to simulated controllers, which take some time to answer."""

    controllers: Controllers = field(default_factory=Controllers)
    asked: list[Any] = field(default_factory=list)
    refusal: int = 0
    """An error for each registration."""
    is_silent: bool = False

    async def call(self, request: Any, timeout_ms: float) -> Any:  # noqa: ANN401 - of either API
        self.asked.append(request)
        if self.is_silent:
            await trio.sleep(timeout_ms / 1000)
            raise PeerError("the controllers", "no answer")
        await trio.sleep(0.01)
        if isinstance(request, BrokerHeartbeatRequest):
            return self.controllers.heartbeat(request, steady_ms())
        answer = self.controllers.register(request.incarnation_id, steady_ms())
        answer.error_code = self.refusal or answer.error_code
        return answer


@dataclass
class Stage:
    """A running broker beside its channel."""

    channel: Channel
    life: BrokerLife
    effects: list[Effect]
    image_is_behind: bool = False


@asynccontextmanager
async def living(channel: Channel) -> AsyncIterator[Stage]:
    effects: list[Effect] = []
    controllers = channel.controllers
    life = BrokerLife(
        Lifecycle(IDENTITY),
        channel,
        lambda: controllers.log_end - 1 - 1_000 * stage.image_is_behind,
        effects.append,
    )
    stage = Stage(channel, life, effects)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(life.run)
        yield stage
        nursery.cancel_scope.cancel()


async def test_broker_registers_catches_up_serves_and_leaves(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with living(Channel()) as stage:
        life, channel = stage.life, stage.channel
        assert (life.epoch, life.is_fenced, life.has_session) == (-1, True, False)
        stage.image_is_behind = True
        assert await life.wait_registered() == 10 == life.epoch
        await trio.sleep(1)
        assert not life.is_caught_up
        stage.image_is_behind = False
        life.wake()
        await life.wait_caught_up()
        assert trio.current_time() % 1 < 0.9, "at once, and not with the next heartbeat"
        await trio.sleep(10)
        assert life.is_fenced
        life.ready()
        await life.wait_unfenced()
        assert not channel.controllers.is_fenced
        beats = len(channel.asked)
        await trio.sleep(20)
        assert 9 <= len(channel.asked) - beats <= 10
        assert life.has_session
        life.set_directories((b"a" * 16,), (b"b" * 16,))
        await trio.sleep(0.1)
        assert channel.asked[-1].offline_log_dirs == [b"a" * 16]
        assert channel.asked[-1].cordoned_log_dirs == [b"b" * 16]
        channel.controllers.leaving_answers = 1
        assert await life.leave()
        beats = len(channel.asked)
        await trio.sleep(20)
        assert len(channel.asked) == beats, "no heartbeat after the end"
        with pytest.raises(StoreError, match="has left the cluster"):
            await life.wait_unfenced()
    assert stage.effects == [Registered(10), Turn.CAUGHT_UP, Turn.UNFENCED, Turn.FENCED]


async def has_session_after(life: BrokerLife, seconds: float) -> bool:
    await trio.sleep(seconds)
    return life.has_session


async def test_session_ends_while_controllers_are_silent_and_begins_again(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with living(Channel()) as stage:
        stage.life.ready()
        await stage.life.wait_unfenced()
        stage.channel.is_silent = True
        with caplog.at_level(logging.WARNING):
            assert not await has_session_after(stage.life, 60)
        assert 1 <= len(caplog.messages) <= 6
        assert (
            "the controllers have not accepted the last request: the controllers: no answer"
            in caplog.text
        )
        assert not stage.life.is_fenced, "what the controllers said last"
        stage.channel.is_silent = False
        assert await has_session_after(stage.life, 15)
        assert not stage.channel.controllers.is_fenced


async def test_broker_takes_its_id_when_the_session_of_a_rival_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    channel = Channel()
    channel.controllers.register(RIVAL, steady_ms())
    began_s = trio.current_time()
    async with living(channel) as stage:
        await stage.life.wait_registered()
    assert 9 <= trio.current_time() - began_s <= 11


async def test_removed_broker_registers_anew_in_another_epoch(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with living(Channel()) as stage:
        stage.life.ready()
        await stage.life.wait_unfenced()
        first = stage.life.epoch
        stage.channel.controllers.owner = None
        await trio.sleep(10)
        assert stage.life.epoch > first
        assert not stage.life.is_fenced
    assert Turn.FENCED in stage.effects


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        (ErrorCode.INCONSISTENT_CLUSTER_ID, "the controllers belong to another cluster"),
        (ErrorCode.DUPLICATE_BROKER_REGISTRATION, "node.id 1 is registered by another process"),
    ],
)
async def test_refused_broker_ends_with_the_reason(
    autojump_clock: trio.testing.MockClock, refusal: ErrorCode, why: str
) -> None:
    said = []

    async def wait(life: BrokerLife) -> None:
        with pytest.raises(StoreError) as raised:
            await life.wait_registered()
        said.append(str(raised.value))

    channel = Channel(refusal=refusal)
    life = BrokerLife(Lifecycle(IDENTITY), channel, lambda: 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, life)
        with pytest.raises(StoreError, match=why) as raised:
            await life.run()
    assert said == [str(raised.value)]
    assert not await life.leave()


async def test_broker_leaves_while_no_controller_answers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with living(Channel()) as stage:
        await stage.life.wait_registered()
        stage.channel.is_silent = True
        began_s = trio.current_time()
        assert not await stage.life.leave()
        assert trio.current_time() - began_s < 301
