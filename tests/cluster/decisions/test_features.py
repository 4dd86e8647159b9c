"""Changed feature levels, and what clients see of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from kwire.cluster.metadata.changes import SetFeatures
from kwire.cluster.metadata.features import (
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    UNNAMED_LEVELS,
    FinalizedFeatures,
)
from kwire.cluster.stores.local import FILE_NAME, LocalStore
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.codecs.messages.end_txn import EndTxnRequest
from kwire.codecs.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.codecs.primitives import Message
from kwire.conformance.wire.broker import address_of
from kwire.conformance.wire.peer import ClientConnection, Closed, Outcome, Reply
from kwire.testing import BrokerProcess
from tests.conftest import finish

FEATURES_TOOL = "org.apache.kafka.tools.FeatureCommand"
UPGRADE, SAFE_DOWNGRADE = 1, 2


class Client:
    """One connection."""

    def __init__(self, bootstrap: str) -> None:
        self._peer = ClientConnection(address_of(bootstrap))

    def outcome(self, request: Message, version: int) -> Outcome:
        assert request.API_KEY is not None
        self._peer.send(ApiKey(request.API_KEY), version, request.encode(version))
        return self._peer.receive()

    def call(self, request: Message, version: int) -> Any:  # noqa: ANN401 - by request
        outcome = self.outcome(request, version)
        assert isinstance(outcome, Reply), outcome
        return outcome.message

    def finalized_features(self) -> tuple[int, dict[str, int]]:
        """The epoch and the levels of the finalized features."""
        reply: ApiVersionsResponse = self.call(ApiVersionsRequest("test", "1"), 4)
        levels = {each.name: each.max_version_level for each in reply.finalized_features}
        return reply.finalized_features_epoch, levels

    def set(self, level: int, kind: int) -> None:
        """Set the level of transaction.version."""
        wanted = FeatureUpdateKey(
            feature="transaction.version", max_version_level=level, upgrade_type=kind
        )
        reply = self.call(UpdateFeaturesRequest(feature_updates=[wanted]), 2)
        assert (reply.error_code, reply.error_message) == (ErrorCode.NONE, None)

    def end_txn(self, version: int) -> Outcome:
        """End a transaction that was not begun."""
        return self.outcome(EndTxnRequest("nobody's", 1, 0, True), version)

    def close(self) -> None:
        self._peer.close()


@pytest.fixture
def connect(broker: BrokerProcess) -> Iterator[Callable[[], Client]]:
    made: list[Client] = []

    def client() -> Client:
        made.append(Client(broker.bootstrap))
        return made[-1]

    yield client
    for each in made:
        each.close()


def test_feature_level_is_reported_and_survives_a_restart(
    broker: BrokerProcess, connect: Callable[[], Client]
) -> None:
    epoch, levels = connect().finalized_features()
    assert levels == {
        "metadata.version": 33,
        "transaction.version": 2,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
        "eligible.leader.replicas.version": 1,
    }
    connect().set(0, SAFE_DOWNGRADE)
    later, levels = connect().finalized_features()
    assert levels == {
        "metadata.version": 33,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
        "eligible.leader.replicas.version": 1,
    }
    assert later > epoch
    broker.kill()
    broker.start()
    assert connect().finalized_features() == (later, levels)
    connect().set(1, UPGRADE)
    latest, levels = connect().finalized_features()
    assert levels == {
        "metadata.version": 33,
        "transaction.version": 1,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
        "eligible.leader.replicas.version": 1,
    }
    assert latest > later


def test_connection_with_a_lowered_transaction_version_is_closed(
    connect: Callable[[], Client],
) -> None:
    """A client learns of features only by a new connection."""
    never_asked, old, new = connect(), connect(), connect()
    old.finalized_features()
    assert isinstance(old.end_txn(5), Reply)
    new.set(1, SAFE_DOWNGRADE)
    assert isinstance(old.end_txn(4), Reply), "who does not go by it is answered"
    assert isinstance(old.end_txn(5), Closed)
    again = connect()
    again.finalized_features()
    assert isinstance(again.end_txn(5), Reply), "it was told, and ends what it began before"
    assert isinstance(never_asked.end_txn(5), Reply)
    new.set(2, UPGRADE)
    assert isinstance(again.end_txn(5), Reply), "what comes breaks nothing"


@pytest.mark.java
@pytest.mark.slow
def test_kafka_features_tool_describes_and_changes_levels(
    broker: BrokerProcess, java_class: Callable[..., CompletedProcess[str]]
) -> None:
    def tool(*words: str) -> CompletedProcess[str]:
        return java_class(FEATURES_TOOL, ["--bootstrap-server", broker.bootstrap, *words])

    def shown() -> list[str]:
        """The lowest, highest and finalized level of transaction.version."""
        done = tool("describe")
        assert done.returncode == 0, done.stdout + done.stderr
        (line,) = (each for each in done.stdout.splitlines() if "transaction.version" in each)
        return [word for word in line.split() if word.isdecimal()][:3]

    assert shown() == ["0", "2", "2"]
    feature = ("--feature", "transaction.version")
    done = tool("downgrade", "--feature", "transaction.version=1")
    assert "transaction.version was downgraded to 1" in done.stdout, done.stdout + done.stderr
    assert shown() == ["0", "2", "1"]
    refused = tool("upgrade", "--feature", "transaction.version=3")
    assert refused.returncode == 1
    assert "only supports versions 0-2" in refused.stdout + refused.stderr
    done = tool("upgrade", "--feature", "transaction.version=2")
    assert "transaction.version was upgraded to 2" in done.stdout, done.stdout + done.stderr
    done = tool("disable", *feature)
    assert "transaction.version was disabled" in done.stdout, done.stdout + done.stderr
    assert shown() == ["0", "2", "0"]


@pytest.mark.java
@pytest.mark.slow
def test_kafka_features_tool_raises_a_cluster_of_4_3_to_the_levels_of_a_release(
    tmp_path: Path, java_class: Callable[..., CompletedProcess[str]]
) -> None:
    """The tool names each feature of the release, kraft.version too."""
    broker = BrokerProcess(tmp_path, {"node.id": "1"})
    first = SetFeatures(0, FinalizedFeatures({METADATA_VERSION: 29, SHARE_VERSION: 0}, epoch=1))
    LocalStore(broker.data_dir / FILE_NAME, first=(first,)).close()
    broker.start()
    try:
        words = ["upgrade", "--release-version", "4.3"]
        done = java_class(FEATURES_TOOL, ["--bootstrap-server", broker.bootstrap, *words])
        assert done.returncode == 0, done.stdout + done.stderr
        client = Client(broker.bootstrap)
        _, levels = client.finalized_features()
        client.close()
        assert levels == {**UNNAMED_LEVELS, ELR_VERSION: 1, KRAFT_VERSION: 1}
    finally:
        finish(broker)
