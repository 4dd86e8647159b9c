"""Delegation tokens in the shared store."""

from __future__ import annotations

from pathlib import Path

from kwire.cluster.metadata.changes import SetToken
from kwire.cluster.metadata.tokens import DelegationToken
from tests.cluster.sharing import holding
from tests.inside import until

TOKEN = DelegationToken("t", "User:a", "User:r", ("User:b",), 1, 3, 2)


async def test_token_made_at_any_broker_reaches_all_brokers(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder:
        one, other = await holder.broker(1), await holder.broker(2)
        await other.commit([SetToken("t", None, TOKEN)])
        await until(lambda: one.image.tokens.get("t") == TOKEN)
        assert (await (await holder.connect()).load()).tokens.get("t") == TOKEN
        await one.commit([SetToken("t", TOKEN, None)])
        await until(lambda: not other.image.tokens)
