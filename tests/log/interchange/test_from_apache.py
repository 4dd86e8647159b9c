"""kwire takes over a data directory of Apache Kafka without loss or change.

KWIRE_INTERCHANGE_ROUNDS sets the amount of data.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.client.connection import BrokerConnection
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.conformance.apache_kafka import ApacheKafka
from kwire.testing import BrokerProcess
from tests.conftest import finish
from tests.log.interchange.filling import SETTINGS, Filling, wait_until_cleaned
from tests.log.interchange.observed import differences, observe, observe_settled, without
from tests.log.interchange.soundness import complaints, verified

if TYPE_CHECKING:
    from tests.log.interchange.conftest import Written
    from tests.log.interchange.observed import Seen


def taken_over(written: Path, tmp_path: Path) -> BrokerProcess:
    broker = BrokerProcess(tmp_path / "kwire", {"node.id": "1", **SETTINGS})
    shutil.copytree(written / "data", broker.data_dir)
    return broker


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_clients_see_the_same_data_after_the_takeover(
    how: str, by_apache: Written, tmp_path: Path
) -> None:
    broker = taken_over(getattr(by_apache, how), tmp_path)
    broker.start()
    try:
        assert differences(by_apache.seen, observe(broker.bootstrap)) == []
    finally:
        finish(broker)
    broker.start()  # now with kwire's own metadata, after a clean stop of kwire
    try:
        assert differences(by_apache.seen, observe(broker.bootstrap)) == []
    finally:
        finish(broker)
    assert "recover" not in broker.log or how == "killed"


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_verify_finds_no_fault_in_apache_kafkas_directory(how: str, by_apache: Written) -> None:
    assert verified(getattr(by_apache, how) / "data") == []


def test_node_continues_its_directory_after_kwire(
    by_apache: Written, apache_kafka_libs: Path, tmp_path: Path
) -> None:
    """kwire takes over a node's directory and writes to it; then the node starts with it again."""
    root = Path(shutil.copytree(by_apache.stopped, tmp_path / "apache"))
    broker = BrokerProcess(tmp_path / "kwire", {"node.id": "1", **SETTINGS})
    broker.settings["log.dirs"] = str(root / "data")
    broker.start()
    try:
        Filling(broker.bootstrap, 1).write(0)
        wait_until_cleaned(root / "data")
        seen = observe_settled(broker.bootstrap)
    finally:
        finish(broker)
    node = ApacheKafka(root, settings=SETTINGS, log_level="INFO", version=by_apache.version)
    before = node.log_file.stat().st_size
    with node:
        found = observe(node.bootstrap)
    output = node.log_file.read_bytes()[before:].decode()
    assert complaints(output) == []
    assert verified(root / "data") == []
    assert differences(without(seen, " epochs"), without(found, " epochs")) == []


def test_new_producers_get_unused_producer_ids(by_apache: Written, tmp_path: Path) -> None:
    broker = taken_over(by_apache.stopped, tmp_path)
    with broker:
        assert new_producer_id(broker) > max(producer_ids(by_apache.seen))


def test_directory_without_metadata_log_loses_nothing_to_retention(
    by_apache: Written, tmp_path: Path
) -> None:
    """In ZooKeeper mode, configs and producer ids are not in the directory."""
    broker = taken_over(by_apache.stopped, tmp_path)
    shutil.rmtree(broker.data_dir / "__cluster_metadata-0")
    with broker:
        seen = observe(broker.bootstrap)
        assert new_producer_id(broker) > max(producer_ids(by_apache.seen))
    assert seen["compacted configs"] == {"cleanup.policy": "compact"}
    for topic in ("__consumer_offsets", "__transaction_state"):
        assert seen[f"{topic} configs"]["cleanup.policy"] == "compact"
    left_out = (" configs", " epochs")  # of partitions that nobody wrote to
    assert differences(without(by_apache.seen, *left_out), without(seen, *left_out)) == []


def producer_ids(seen: Seen) -> set[int]:
    """The producer ids in the logs, and those of transactional ids."""
    in_logs = (entries for name, entries in seen.items() if name.endswith(" producers"))
    given = {entry[0] for entries in in_logs for entry in entries}
    return given | {
        answer[4] for name, answer in seen.items() if name.startswith("transactional id")
    }


def new_producer_id(broker: BrokerProcess) -> int:
    with closing(
        BrokerConnection("127.0.0.1", broker.port, client_id="t", timeout_s=120)
    ) as connection:
        answer = connection.call(InitProducerIdRequest(None, transaction_timeout_ms=60_000))
    producer_id: int = answer.producer_id
    return producer_id
