"""Apache Kafka takes over a data directory of kwire without loss or change.

After a clean stop Apache Kafka scans no log and logs no warning.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.conformance.apache_kafka import ApacheKafka
from kwire.conformance.pytest_apache import libs_or_skip
from kwire.log.directory import partition_metadata
from kwire.log.directory.files import Files
from kwire.log.inspection.inspection import partition_folders
from tests.log.interchange import zookeeper_mode
from tests.log.interchange.conftest import VERSIONS, Ours
from tests.log.interchange.filling import INTERNAL_TOPICS, SETTINGS, Filling
from tests.log.interchange.observed import differences, observe, without
from tests.log.interchange.soundness import complaints, verified


@pytest.fixture
def ours(by_kwire: Ours, tmp_path: Path) -> Iterator[Path]:
    """A copy of the directory for Apache Kafka, checked for soundness afterwards."""
    data_dir = Path(shutil.copytree(by_kwire.data_dir, tmp_path / "data"))
    assert verified(data_dir) == []
    yield data_dir
    assert verified(data_dir) == []


@pytest.mark.long
@pytest.mark.java
@pytest.mark.slow
def test_zookeeper_mode_serves_kwires_directory_unchanged(
    by_kwire: Ours, ours: Path, tmp_path: Path
) -> None:
    libs_or_skip(zookeeper_mode.VERSION)
    nodes = zookeeper_mode.take_metadata(ours)
    with zookeeper_mode.running(ours, nodes, tmp_path / "apache") as bootstrap:
        found = observe(bootstrap)
    output = (tmp_path / "apache" / "kafka.log").read_text()
    assert complaints(output) == []
    assert "since clean shutdown file was found" in output
    assert differences(by_kwire.seen, found) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_kraft_mode_serves_kwires_partitions(
    version: str, by_kwire: Ours, ours: Path, apache_kafka_libs: Path, tmp_path: Path
) -> None:
    """Apache Kafka creates the topics in its metadata log first, so they have its ids."""
    libs_or_skip(version)
    node = ApacheKafka(tmp_path / "apache", settings=SETTINGS, log_level="INFO", version=version)
    with node:
        Filling(node.bootstrap, 0).create_topics(INTERNAL_TOPICS)
    put_in_place(ours, node.directory / "data")
    before = node.log_file.stat().st_size
    with node:
        found = observe(node.bootstrap)
    output = node.log_file.read_bytes()[before:].decode()
    assert complaints(output) == []
    assert "since clean shutdown file was found" in output
    assert verified(node.directory / "data") == []
    other = (" id", " epochs", " configs")  # the stop and the start of the node are two epochs
    assert differences(without(by_kwire.seen, *other), without(found, *other)) == []


def put_in_place(source: Path, target: Path) -> None:
    """Copy all partitions of `source` and their checkpoint lines, with the ids of `target`."""
    for folder in partition_folders(source):
        theirs = target / folder.name
        topic_id = partition_metadata.read(Files(), theirs)
        assert topic_id is not None
        shutil.rmtree(theirs)
        shutil.copytree(folder, theirs)
        partition_metadata.write(Files(), theirs, topic_id)
    for checkpoint in source.glob("*-checkpoint"):
        shutil.copy(checkpoint, target)
