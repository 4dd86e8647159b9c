"""How often the controller looks for expired delegation tokens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from kwire.cluster.membership import token_expiry
from kwire.cluster.membership.contract import ClusterMembership
from kwire.settings import BrokerConfig
from kwire.settings.live import LiveSettings


async def test_only_the_controller_removes_expired_tokens_once_per_interval(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    given = {"node.id": "1", "delegation.token.expiry.check.interval.ms": "1500"}
    settings = LiveSettings(BrokerConfig(given))
    membership = SimpleNamespace(is_controller=True)
    removals: list[tuple[float, int]] = []
    start = trio.current_time()

    async def remove_expired(of: object, now_ms: int) -> None:
        assert of is membership
        removals.append((round(trio.current_time() - start, 6), now_ms))

    monkeypatch.setattr(token_expiry, "remove_expired", remove_expired)
    with trio.move_on_after(7):
        async with trio.open_nursery() as nursery:
            member = cast(ClusterMembership, membership)
            nursery.start_soon(token_expiry.run, settings, member, lambda: 42)
            await trio.sleep(3.1)
            membership.is_controller = False
            await trio.sleep(2)
            membership.is_controller = True
            await trio.sleep_forever()
    assert removals == [(1.5, 42), (3.0, 42), (6.0, 42)]
