"""`meta.properties` names the broker and the cluster of a log directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.log import LogDirError
from tests.log.directory.conftest import TOPIC_ID, MakeManager, kill

CLUSTER = "AAAAAAAAQACEAgAAAAAAAA"


def lose(path: Path, content: str | None) -> None:
    """Remove a file, or replace its content."""
    if content is None:
        path.unlink()
    else:
        path.write_text(content)


def test_meta_properties_are_written_once_and_then_checked(manager_of: MakeManager) -> None:
    manager = manager_of("a", "b")
    assert manager.identify(1, CLUSTER) == CLUSTER
    first = [directory.identity() for directory in manager.online_dirs]
    assert len({known.directory_id for known in first if known}) == 2
    assert manager.identify(1, "another") == CLUSTER
    assert [directory.identity() for directory in manager.online_dirs] == first


def test_directory_of_another_broker_is_refused(manager_of: MakeManager) -> None:
    manager_of().identify(1, CLUSTER)
    manager = manager_of("b")
    manager.identify(1, CLUSTER)
    with pytest.raises(LogDirError, match="belongs to broker 1, this one is 2"):
        manager.identify(2, CLUSTER)


def test_directories_of_two_clusters_are_refused(manager_of: MakeManager) -> None:
    one, other = manager_of("a"), manager_of("b")
    one.identify(1, CLUSTER)
    other.identify(1, "another")
    kill(one)
    kill(other)
    with pytest.raises(LogDirError, match="several clusters"):
        manager_of("a", "b").identify(1, "x")


def test_meta_properties_of_zookeeper_keep_their_version(
    manager_of: MakeManager, tmp_path: Path
) -> None:
    """Apache Kafka 3.9 with ZooKeeper refuses any other version."""
    manager = manager_of()
    text = f"version=0\nbroker.id=1\ncluster.id={CLUSTER}\n"
    (tmp_path / "a" / "meta.properties").write_text(text)
    assert manager.identify(1, "another") == CLUSTER
    assert (tmp_path / "a" / "meta.properties").read_text() == text


@pytest.mark.parametrize("content", [None, "garbage", ""])
def test_lost_meta_properties_are_recovered_with_a_warning(
    manager_of: MakeManager,
    tmp_path: Path,
    content: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager = manager_of("a", "b")
    manager.identify(1, CLUSTER)
    manager.create("t", TOPIC_ID, 0)
    lost = tmp_path / "a" / "meta.properties"
    for known_by in ("another directory", "kwire's metadata"):
        lose(lost, content)
        if known_by != "another directory":
            lose(tmp_path / "b" / "meta.properties", content)
        caplog.clear()
        assert manager.identify(1, "new", remembered=CLUSTER) == CLUSTER
        assert f"cluster.id={CLUSTER}\n" in lost.read_text()
        (warning, *_) = caplog.messages
        assert str(lost) in warning
        assert f"written again for cluster {CLUSTER}" in warning


def test_unknown_cluster_of_a_used_directory_is_refused_or_new(
    manager_of: MakeManager,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager = manager_of()
    manager.identify(1, CLUSTER)
    manager.create("t", TOPIC_ID, 0)
    lost = tmp_path / "a" / "meta.properties"
    lose(lost, "garbage")
    with pytest.raises(LogDirError, match=r"has no broker\.id, and nothing else tells"):
        manager.identify(1, "new")
    assert lost.read_text() == "garbage"
    lose(lost, None)
    assert manager.identify(1, "new") == "new"
    assert "they are used in a new cluster, new" in caplog.text


def test_first_start_logs_no_warning(
    manager_of: MakeManager,
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager_of().identify(1, CLUSTER)
    assert caplog.messages == []


def test_meta_properties_of_a_zookeeper_cluster_have_version_0(
    manager_of: MakeManager, tmp_path: Path
) -> None:
    manager_of().identify(4, CLUSTER, zookeeper=True)
    text = (tmp_path / "a" / "meta.properties").read_text()
    assert text == f"version=0\nbroker.id=4\ncluster.id={CLUSTER}\n"
