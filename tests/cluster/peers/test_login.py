"""SASL logins of a broker at other brokers."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, Endpoint
from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.peer import Peer
from kwire.cluster.peers.peers import Peers, Role
from kwire.codecs.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kwire.codecs.messages.metadata import MetadataRequest
from kwire.requests.context import Context
from kwire.requests.handlers.alter_user_scram_credentials import handle
from kwire.security.sasl.scram import salted_password
from kwire.settings import BrokerConfig, ConfigError, load
from kwire.settings.live import LiveSettings
from tests.inside import port_of, running_broker
from tests.security.sasl_client import PLAIN_LINE, SASL

MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-512": "scram.ScramLoginModule"}
SALT = b"0123456789abcdef"
SERVING = {
    **SASL,
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_LINE,
}


class Asker:
    """The part of a broker that peers use; it logs in by `mechanism`."""

    node_id = 1

    def __init__(self, port: int, mechanism: str, options: str) -> None:
        name = f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.jaas.config"
        module = f"org.apache.kafka.common.security.{MODULES[mechanism]}"
        self.config: BrokerConfig = load(
            None,
            {
                **SERVING,
                "sasl.mechanism.inter.broker.protocol": mechanism,
                name: f"{module} required {options};",
            },
        )
        there = Endpoint("SASL_PLAINTEXT", "127.0.0.1", port, "SASL_PLAINTEXT")
        self.image = ClusterImage("c").with_broker(BrokerImage(7, (there,)))

    @property
    def peer(self) -> Peer:
        return Peers(LiveSettings(self.config), lambda: self.image).peer(7, Role.FETCHER)


async def add_user(broker: Broker, user: str, password: str) -> None:
    salted = salted_password("SCRAM-SHA-512", password, SALT, 4096)
    upsertion = ScramCredentialUpsertion(user, 2, 4096, SALT, salted)
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
    response = await handle(broker, request, Context("", "", ""))
    assert [each.error_code for each in response.results] == [0]


@pytest.mark.parametrize("mechanism", MODULES)
async def test_peer_logs_in_by_each_mechanism(tmp_path: Path, mechanism: str) -> None:
    async with running_broker(tmp_path, SERVING) as broker:
        await add_user(broker, "alice", "alice-secret")
        options = 'username="alice" password="alice-secret"'
        with closing(Asker(port_of(broker), mechanism, options).peer) as peer:
            assert (await peer.call(MetadataRequest(topics=[]))).brokers


@pytest.mark.parametrize(
    ("mechanism", "reason"),
    [
        ("PLAIN", "it refuses the login: Authentication failed: Invalid username or password"),
        ("SCRAM-SHA-512", "it refuses the login: Authentication failed during authentication"),
    ],
)
async def test_peer_with_a_wrong_password_gets_the_reason(
    tmp_path: Path, mechanism: str, reason: str
) -> None:
    async with running_broker(tmp_path, SERVING) as broker:
        await add_user(broker, "alice", "alice-secret")
        options = 'username="alice" password="hidden"'
        peer = Asker(port_of(broker), mechanism, options).peer
        with closing(peer), pytest.raises(PeerError, match=reason) as failure:
            await peer.call(MetadataRequest(topics=[]))
        assert "hidden" not in str(failure.value)


async def test_peer_reconnects_before_its_login_ends(tmp_path: Path) -> None:
    """The peer reconnects after 85 % of the session's lifetime."""
    for session_ms in (300, 1_000, 10_000):
        with suppress(PeerError):
            return await ask_for_three_sessions(tmp_path / str(session_ms), session_ms)
    pytest.fail("logins end, however long they are")


async def ask_for_three_sessions(directory: Path, session_ms: int) -> None:
    """Raise PeerError if the broker closed the connection, as it does when the login has ended."""
    settings = {**SERVING, "connections.max.reauth.ms": str(session_ms)}
    async with running_broker(directory, settings) as broker:
        options = 'username="bob" password="bob-secret"'
        end = trio.current_time() + 3 * session_ms / 1000
        with closing(Asker(port_of(broker), "PLAIN", options).peer) as peer:
            while trio.current_time() < end:
                assert (await peer.call(MetadataRequest(topics=[]))).brokers
                await trio.sleep(0.005)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, "must be included in"),
        ({}, "the login module of PLAIN has no username and no password"),
    ],
)
def test_unusable_login_settings_raise_config_error(changed: dict[str, str], sentence: str) -> None:
    asker = Asker(1, "PLAIN", 'user_a="b"')
    asker.config = load(None, {**asker.config.explicit, **changed})
    with pytest.raises(ConfigError, match=sentence):
        Peers(LiveSettings(asker.config), lambda: asker.image)
