"""Calls of a peer over TLS, with certificates on both sides."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kwire.cluster.metadata.image import Endpoint
from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.peer import Peer
from kwire.cluster.peers.tls import PeerTls
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.settings import ConfigError, load
from tests.inside import PATIENCE_S, port_of, running_broker, until
from tests.security.tls.authority import Authority


def settings(directory: Path, authority: Authority, trusted: Authority) -> dict[str, str]:
    """TLS of one broker: `authority` signed its certificate; it trusts those of `trusted`."""
    name = f"own-{id(trusted)}.pem"
    return {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue().write_pem(directory / name)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": trusted.pem,
    }


def peer_at(port: int, own: dict[str, str]) -> Peer:
    endpoint = Endpoint("SSL", "127.0.0.1", port, "SSL")
    config = load(None, own)
    return Peer(7, lambda: endpoint, client_id="broker-1", tls=PeerTls(lambda: config))


async def test_tls_call_larger_than_a_tls_record_succeeds(tmp_path: Path) -> None:
    authority = Authority()
    own = settings(tmp_path, authority, authority)
    with trio.fail_after(PATIENCE_S):
        async with running_broker(tmp_path / "data", own) as broker, trio.open_nursery() as nursery:
            peer = peer_at(port_of(broker), own)
            sizes: list[int] = []

            async def ask() -> None:
                names = [f"{number:0100d}" for number in range(3_000)]
                topics = [MetadataRequestTopic(name=name) for name in names]
                request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
                sizes.append(len((await peer.call(request)).topics))

            for _ in range(5):
                nursery.start_soon(ask)
            nursery.start_soon(ask)
            await until(lambda: len(sizes) == 6)
            peer.close()
    assert sizes == [3_000] * 6


@pytest.mark.parametrize("who", ["broker", "peer"])
async def test_tls_call_fails_when_one_side_does_not_trust_the_other(
    tmp_path: Path, who: str
) -> None:
    authority, other = Authority(), Authority()
    of_broker = settings(tmp_path, authority, other if who == "broker" else authority)
    of_peer = settings(tmp_path, authority, other if who == "peer" else authority)
    with trio.fail_after(PATIENCE_S):
        async with running_broker(tmp_path / "data", of_broker) as broker:
            peer = peer_at(port_of(broker), of_peer)
            with pytest.raises(PeerError) as raised:
                await peer.call(MetadataRequest(topics=[]))
    words = {"peer": "the broker's certificate is not trusted", "broker": "alert"}
    assert words[who] in str(raised.value)


def test_unusable_tls_settings_raise_config_error_at_start(tmp_path: Path) -> None:
    authority = Authority()
    config = load(None, settings(tmp_path, authority, authority))
    (tmp_path / f"own-{id(authority)}.pem").unlink()
    with pytest.raises(ConfigError, match=r"listener SSL: ssl\.keystore\.location=.*No such file"):
        PeerTls(lambda: config)
