"""Logins of a broker at other brokers by OAUTHBEARER."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kwire.cluster.metadata.image import BrokerImage, ClusterImage, Endpoint
from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.peer import Peer
from kwire.cluster.peers.peers import Peers, Role
from kwire.codecs.messages.metadata import MetadataRequest
from kwire.security.sasl.oauthbearer import expires_ms_of, unsecured_token
from kwire.settings import BrokerConfig, ConfigError, load
from kwire.settings.listener_security import SIGNED_HANDLER
from kwire.settings.live import LiveSettings
from tests.inside import port_of, running_broker
from tests.security.jwt_dialogues import AUDIENCE, ISSUER, changed, signed, write_keys
from tests.security.sasl_client import SASL

TOKENS = "org.apache.kafka.common.security.oauthbearer"
PREFIX = "listener.name.sasl_plaintext.oauthbearer"
JAAS, URL = f"{PREFIX}.sasl.jaas.config", f"{PREFIX}.sasl.oauthbearer.token.endpoint.url"
MODULE = f"{TOKENS}.OAuthBearerLoginModule required"
ALICE = 'unsecuredLoginStringClaim_sub="alice"'
UNSECURED = {
    **SASL,
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    JAAS: f"{MODULE} {ALICE};",
}


def of_signed_tokens(directory: Path) -> dict[str, str]:
    return {
        **UNSECURED,
        JAAS: f"{MODULE};",
        f"{PREFIX}.sasl.server.callback.handler.class": SIGNED_HANDLER,
        f"{PREFIX}.sasl.oauthbearer.jwks.endpoint.url": write_keys(directory / "keys").as_uri(),
        f"{PREFIX}.sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{PREFIX}.sasl.oauthbearer.expected.issuer": ISSUER,
    }


class Asker:
    """The part of a broker that peers use."""

    node_id = 1

    def __init__(self, port: int, settings: dict[str, str]) -> None:
        self.config: BrokerConfig = load(None, settings)
        there = Endpoint("SASL_PLAINTEXT", "127.0.0.1", port, "SASL_PLAINTEXT")
        self.image = ClusterImage("c").with_broker(BrokerImage(7, (there,)))
        self._peers = Peers(LiveSettings(self.config), lambda: self.image)

    def peer(self, role: Role = Role.FETCHER) -> Peer:
        return self._peers.peer(7, role)


async def test_broker_logs_in_with_an_unsigned_token(tmp_path: Path) -> None:
    async with running_broker(tmp_path, UNSECURED) as broker:
        with closing(Asker(port_of(broker), UNSECURED).peer()) as peer:
            assert (await peer.call(MetadataRequest(topics=[]))).brokers


async def test_broker_logs_in_with_the_current_token_of_a_file(tmp_path: Path) -> None:
    settings, token = of_signed_tokens(tmp_path), tmp_path / "token"
    async with running_broker(tmp_path / "data", settings) as broker:
        asker = Asker(port_of(broker), {**settings, URL: token.as_uri()})
        with closing(asker.peer()) as peer:
            with pytest.raises(PeerError, match="no token to log in with: No such file"):
                await peer.call(MetadataRequest(topics=[]))
            token.write_text(signed(changed(aud="others")))
            with pytest.raises(PeerError, match="it refuses the login"):
                await peer.call(MetadataRequest(topics=[]))
            token.write_text(signed() + "\n")
            assert (await peer.call(MetadataRequest(topics=[]))).brokers


class TokenServer:
    """Gives `token` to clients with the right credentials; `requests` has the requests."""

    def __init__(self) -> None:
        self.requests: list[tuple[str | None, bytes]] = []
        self.status = 200
        self.token = ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests.append((self.headers["Authorization"], body))
                answer = json.dumps({"access_token": outer.token}).encode()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"


@pytest.fixture
def server() -> Iterator[TokenServer]:
    found = TokenServer()
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


async def test_broker_keeps_the_token_of_a_server(tmp_path: Path, server: TokenServer) -> None:
    settings = of_signed_tokens(tmp_path)
    with_url = {
        **settings,
        URL: server.url,
        JAAS: f'{MODULE} clientId="broker" clientSecret="hidden" scope="kafka";',
    }
    async with running_broker(tmp_path / "data", settings) as broker:
        asker = Asker(port_of(broker), with_url)
        with closing(asker.peer()) as peer:
            server.status = 503
            with pytest.raises(PeerError, match="no token to log in with: it answers 503") as why:
                await peer.call(MetadataRequest(topics=[]))
            assert "hidden" not in str(why.value)
            server.status, server.token = 200, signed()
            assert (await peer.call(MetadataRequest(topics=[]))).brokers
        with closing(asker.peer(Role.CONTROLLER)) as another:
            assert (await another.call(MetadataRequest(topics=[]))).brokers
    basic = "Basic YnJva2VyOmhpZGRlbg=="  # broker:hidden
    assert server.requests == [(basic, b"grant_type=client_credentials&scope=kafka")] * 2


async def test_broker_does_not_keep_a_token_about_to_expire(
    tmp_path: Path, server: TokenServer
) -> None:
    settings = of_signed_tokens(tmp_path)
    credentials = "sasl.oauthbearer.client.credentials.client"
    with_url = {
        **settings,
        URL: server.url,
        f"{PREFIX}.{credentials}.id": "broker",
        f"{PREFIX}.{credentials}.secret": "hidden",
        f"{PREFIX}.sasl.login.refresh.window.factor": "0",
    }
    server.token = signed()
    async with running_broker(tmp_path / "data", settings) as broker:
        asker = Asker(port_of(broker), with_url)
        for role in (Role.FETCHER, Role.CONTROLLER):
            with closing(asker.peer(role)) as peer:
                assert (await peer.call(MetadataRequest(topics=[]))).brokers
    assert len(server.requests) == 2


def test_expiry_of_a_token_is_read_from_its_claims() -> None:
    now_ms = time.time_ns() // 1_000_000
    assert expires_ms_of(unsecured_token("alice", now_ms, now_ms + 5000)) == now_ms + 5000
    for token in ("", "a.b", "a.b.c", "e30.e30.", "e30.W10.", "e30.eyJleHAiOiJ4In0."):
        assert expires_ms_of(token) is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({JAAS: f"{MODULE};"}, "neither .*token.endpoint.url nor the option unsecuredLogin"),
        ({URL: "http://h/token"}, "neither .*client.id nor the option clientId"),
        ({URL: "token", JAAS: f'{MODULE} clientId="a" clientSecret="b";'}, "unknown url type"),
        ({f"{PREFIX}.sasl.login.callback.handler.class": "com.example.Mine"}, "is a Java class"),
        ({JAAS: f'{MODULE} {ALICE} unsecuredLoginLifetimeSeconds="x";'}, "is not a number"),
    ],
)
def test_unusable_token_settings_raise_config_error(changes: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Asker(1, {**UNSECURED, **changes})
