"""Connections to controllers by the settings of the controller listener."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import trio

from kwire.cluster.peers.error import PeerError
from kwire.cluster.stores.kraft.controllers import (
    ControllerChannel,
    ControllerPeers,
    LeaderNews,
)
from kwire.cluster.stores.kraft.observing import Address, Leader
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.metadata import MetadataRequest
from kwire.settings import ConfigError, load
from tests.cluster.peers.test_peer_tls import settings
from tests.inside import PATIENCE_S, port_of, running_broker
from tests.security.sasl_client import PLAIN_LINE, SASL
from tests.security.tls.authority import Authority

TIMEOUT_MS = 60_000


def peers(protocol: str, **given: str) -> ControllerPeers:
    """Connections to a controller listener of this protocol, with settings of that listener."""
    own = {
        "process.roles": "broker",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "localhost:9",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:{protocol}",
        **given,
    }
    config = load(None, own)
    return ControllerPeers(lambda: config)


async def brokers_seen(found: ControllerPeers, port: int) -> int:
    """Ask by a connection of `found`, as if the broker on that port were a controller."""
    peer = found.peer(Address("127.0.0.1", port), "raft-client-1", TIMEOUT_MS)
    return len((await peer.call(MetadataRequest(topics=[]))).brokers)


async def test_connection_uses_the_tls_of_the_controller_listener(tmp_path: Path) -> None:
    authority = Authority()
    serving = settings(tmp_path, authority, authority)
    own = {
        f"listener.name.controller.{name}": value
        for name, value in serving.items()
        if name.startswith("ssl.")
    }
    with trio.fail_after(PATIENCE_S):
        async with running_broker(tmp_path / "data", serving) as broker:
            with closing(peers("SSL", **own)) as found:
                assert await brokers_seen(found, port_of(broker)) == 1
            with closing(peers("PLAINTEXT")) as found, pytest.raises(PeerError):
                await brokers_seen(found, port_of(broker))


async def test_connection_logs_in_by_the_mechanism_of_controllers(tmp_path: Path) -> None:
    serving = {
        **SASL,
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_LINE,
    }
    own = {
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="alice" password="alice-secret";'
        ),
    }
    with trio.fail_after(PATIENCE_S):
        async with running_broker(tmp_path, serving) as broker:
            with closing(peers("SASL_PLAINTEXT", **own)) as found:
                assert await brokers_seen(found, port_of(broker)) == 1


def test_login_without_its_settings_is_refused_at_start() -> None:
    with pytest.raises(ConfigError, match=r"listener\.name\.controller\..*jaas\.config is not set"):
        peers("SASL_PLAINTEXT", **{"sasl.mechanism.controller.protocol": "PLAIN"})


def test_each_kind_of_work_has_a_connection_of_its_own() -> None:
    address = Address("127.0.0.1", 9)
    with closing(peers("PLAINTEXT")) as found:
        fetching = found.peer(address, "raft-client-1", TIMEOUT_MS)
        assert found.peer(address, "raft-client-1", TIMEOUT_MS) is fetching
        assert found.peer(address, "1", TIMEOUT_MS) is not fetching
        heartbeats = found.peer(address, "1", TIMEOUT_MS, "heartbeats")
        assert found.peer(address, "1", TIMEOUT_MS, "forwarding") is not heartbeats


async def test_versions_of_the_leader_are_known_while_there_is_a_connection(
    tmp_path: Path,
) -> None:
    with trio.fail_after(PATIENCE_S):
        async with running_broker(tmp_path) as broker:
            with closing(peers("PLAINTEXT")) as found:
                news = LeaderNews()
                channel = ControllerChannel(found, news, "1", TIMEOUT_MS)
                assert channel.versions == {}
                news.set(Leader(100, 1, Address("127.0.0.1", port_of(broker))))
                assert channel.versions == {}
                await channel.call(MetadataRequest(topics=[]), TIMEOUT_MS)
                assert channel.versions[ApiKey.CREATE_TOPICS] == (2, 7)
                found.close()
                assert channel.versions == {}
