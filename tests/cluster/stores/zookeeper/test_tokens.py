"""Delegation tokens in ZooKeeper: their znodes, and brokers of both kinds that share them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kwire.cluster.metadata.changes import SetToken
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.cluster.stores.zookeeper import token_znodes
from kwire.cluster.stores.zookeeper.config import ZooKeeperConfig
from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.testing import ZooKeeperProcess
from kwire.testing.hosting.process import BrokerProcess
from tests.cluster.stores.zookeeper.stores import running
from tests.conftest import finish
from tests.inside import until
from tests.security.test_apache_tokens import settings
from tests.security.token_play import Play, create, made, until_told, wait_until_open
from tests.waiting import zookeeper_client

TOKEN = DelegationToken("t", "User:a ü", "User:r", ("User:b", "User:c=,"), 1, 3, 2)
LATER = replace(TOKEN, expiry_ms=3)
CONTENT = (
    '{"owner":"User%3Aa%20%C3%BC","tokenRequester":"User%3Ar","renewers":["User%3Ab",'
    '"User%3Ac%3D%2C"],"issueTimestamp":1,"maxTimestamp":3,"expiryTimestamp":2,"tokenId":"t",'
    '"version":3}'
)


def test_token_znode_equals_that_of_apache_kafka() -> None:
    assert token_znodes.encode_token(TOKEN).decode() == CONTENT
    assert token_znodes.decode_token(CONTENT.encode()) == TOKEN
    older = CONTENT.replace('"tokenRequester":"User%3Ar",', "").replace(":3}", ":1}")
    assert token_znodes.decode_token(older.encode()) == replace(TOKEN, requester=TOKEN.owner)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", CONTENT.replace(":3}", ":9}").encode()])
def test_invalid_token_znode_is_refused(content: bytes) -> None:
    with pytest.raises((ValueError, TypeError, LookupError)):
        token_znodes.decode_token(content)


@pytest.mark.slow
async def test_token_changes_reach_every_broker(zookeeper: ZooKeeperProcess, unique: str) -> None:
    config = ZooKeeperConfig(zookeeper.connect(f"/{unique}"), 30_000, 120_000, has_tokens=True)
    async with running(config, 1) as one, running(config, 2) as other:
        await one.commit([SetToken("t", None, TOKEN)])
        await until(lambda: other.image.tokens.get("t") == TOKEN)
        await other.commit([SetToken("t", TOKEN, LATER)])
        await until(lambda: one.image.tokens.get("t") == LATER)
        async with running(config, 3) as third:
            assert dict(third.image.tokens.items()) == {"t": LATER}
        await one.commit([SetToken("t", LATER, None)])
        await until(lambda: not other.image.tokens)


@pytest.mark.java
@pytest.mark.slow
def test_token_of_kwire_or_apache_kafka_is_accepted_by_the_other(
    zookeeper: ZooKeeperProcess, tmp_path: Path, unique: str
) -> None:
    """A broker of Apache Kafka 3.9.2 and one of kwire are members of one cluster."""
    (one, first), (two, second) = settings(), settings()
    for given in (first, second):
        for name in ("authorizer.class.name", "super.users"):
            del given[name]
    theirs = ZooKeeperBroker(
        tmp_path / "apache",
        zookeeper.connect(f"/{unique}"),
        1,
        port=one["PLAINTEXT"],
        settings=first,
    )
    member = {"broker.id": "2", "zookeeper.connect": zookeeper.connect(f"/{unique}"), **second}
    ours = BrokerProcess(tmp_path / "kwire", member, port=two["PLAINTEXT"])
    with theirs:
        ours.start()
        try:
            _cross(one, two)
            with zookeeper_client(zookeeper.connect(f"/{unique}")) as client:
                kept = client.get_children("/delegation_token/tokens")
            assert len(kept) == 2
        finally:
            finish(ours)


def _cross(one: dict[str, int], two: dict[str, int]) -> None:
    for port in (*one.values(), *two.values()):
        wait_until_open(port)
    for here, there in ((Play(one), Play(two)), (Play(two), Play(one))):
        token = made(here, "alice", create("bob"))
        until_told(there, token.token_id, token.expiry_timestamp_ms)
        there.by_token(token.token_id, bytes(token.hmac), "SCRAM-SHA-512").close()
        here.close()
        there.close()
