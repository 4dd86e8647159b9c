"""Delegation tokens are written to and read from Apache Kafka's metadata log."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cluster.metadata.changes import SetToken
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.codecs.messages.delegation_token_record import DelegationTokenRecord
from kwire.codecs.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.conformance.apache_kafka import ApacheKafka
from kwire.storage.takeover.kraft_changes import lacking, records_of
from kwire.storage.takeover.tokens import SINCE, tokens_in
from kwire.testing.hosting.process import BrokerProcess
from tests.conftest import finish
from tests.security.test_apache_sasl import apache_settings
from tests.security.test_apache_tokens import settings
from tests.security.token_play import Play, create, describe, made, wait_until_open
from tests.storage.takeover.test_entities import ME, follow, image_at, kraft_at, write

TOKEN = DelegationToken("t", "User:a", "User:r", ("User:b,ü", "User:"), 1, 3, 2)
LATER = DelegationToken("t", "User:a", "User:r", ("User:b,ü", "User:"), 1, 3, 3)
OTHER = DelegationToken("o", "Role:x", "User:a", (), 10, 30, 20)


def image_of(*tokens: DelegationToken, level: int = SINCE) -> ClusterImage:
    image = image_at(level)
    for token in tokens:
        image = image.with_token(token.id, token)
    return image


def test_token_change_becomes_the_records_of_a_controller() -> None:
    kraft = kraft_at()
    kraft.features["metadata.version"] = SINCE
    ((record, version),) = records_of(SetToken("t", None, TOKEN), ME, kraft)
    assert version == 0
    assert record == DelegationTokenRecord("User:a", "User:r", [*TOKEN.renewers], 1, 3, 2, "t")
    ((gone, _),) = records_of(SetToken("t", TOKEN, None), ME, kraft)
    assert gone == RemoveDelegationTokenRecord("t")


def test_kraft_log_without_token_support_gets_none() -> None:
    kraft = kraft_at(SINCE - 1)
    assert list(records_of(SetToken("t", None, TOKEN), ME, kraft)) == []
    image = image_of(TOKEN, level=SINCE - 1)
    assert follow(image, kraft) == (image, [])


def test_token_changes_of_the_kraft_log_are_applied() -> None:
    kraft = kraft_at(SINCE)
    for change in (SetToken("t", None, TOKEN), SetToken("t", TOKEN, LATER)):
        write(kraft, change)
    image, says = follow(image_of(TOKEN, OTHER), kraft)
    assert says == ["delegation token o changed", "delegation token t changed"]
    assert dict(image.tokens.items()) == {"t": LATER}
    assert follow(image, kraft) == (image, [])


def test_missing_tokens_are_written_to_the_kraft_log() -> None:
    kraft = kraft_at(SINCE)
    write(kraft, SetToken("t", None, TOKEN))
    image = image_of(LATER, OTHER)
    for change in list(lacking(kraft, image, ME)):
        write(kraft, change)
    assert tokens_in(kraft) == {"t": LATER, "o": OTHER}
    for change in list(lacking(kraft, image_of(OTHER), ME)):
        write(kraft, change)
    assert tokens_in(kraft) == {"o": OTHER}
    assert list(lacking(kraft, image_of(OTHER), ME)) == []


@pytest.mark.long
@pytest.mark.java
@pytest.mark.slow
def test_delegation_tokens_survive_both_takeovers(tmp_path: Path, apache_kafka_libs: Path) -> None:
    """Clients log in to each broker with tokens that the other one created."""
    ports, given = settings()
    with ApacheKafka(tmp_path, port=ports["PLAINTEXT"], settings=apache_settings(given)):
        wait_until_open(ports["SASL"])
        play = Play(ports)
        theirs = made(play, "alice", create("bob"))
        play.close()
    broker = BrokerProcess(tmp_path, {"node.id": "1", **given}, port=ports["PLAINTEXT"])
    broker.start()
    try:
        play = Play(ports)
        play.by_token(theirs.token_id, bytes(theirs.hmac)).close()
        ours = made(play, "bob", create("alice"))
        play.close()
    finally:
        finish(broker)
    with ApacheKafka(tmp_path, port=ports["PLAINTEXT"], settings=apache_settings(given)):
        wait_until_open(ports["SASL"])
        play = Play(ports)
        play.by_token(ours.token_id, bytes(ours.hmac), "SCRAM-SHA-512").close()
        tokens = {each.token_id: each for each in play.ask("alice", describe(), 3).tokens}
        play.close()
    assert set(tokens) == {theirs.token_id, ours.token_id}
    assert tokens[theirs.token_id].expiry_timestamp == theirs.expiry_timestamp_ms
    assert [each.principal_name for each in tokens[ours.token_id].renewers] == ["alice"]
