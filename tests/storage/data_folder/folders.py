"""Data folders as brokers leave them, written without a broker."""

from __future__ import annotations

from pathlib import Path

from kwire.cluster.metadata.image import ClusterImage, PartitionImage, TopicImage
from kwire.cluster.stores.change_log import write_copy
from kwire.cluster.stores.local import FILE_NAME as METADATA
from kwire.storage.data_folder.kinds import ADOPTED, UP_QUORUM

TOPIC_ID = b"t" * 16


def partition(replicas: tuple[int, ...], isr: tuple[int, ...] | None = None) -> PartitionImage:
    """A partition led by its first in-sync replica; all replicas are in sync by default."""
    in_sync = replicas if isr is None else isr
    return PartitionImage(in_sync[0], 0, 0, replicas, in_sync)


def image_of(name: str, *partitions: PartitionImage) -> ClusterImage:
    """A cluster with one topic."""
    return ClusterImage("cluster").with_topics([TopicImage(name, TOPIC_ID, partitions)])


def log_dir(path: Path, node_id: int, *partitions: str, version: int = 1) -> Path:
    """A log directory with empty logs of these partitions, of a broker that stopped cleanly."""
    path.mkdir(parents=True, exist_ok=True)
    key = "node.id" if version else "broker.id"
    lines = f"version={version}\n{key}={node_id}\ncluster.id=cluster\n"
    (path / "meta.properties").write_text(lines)
    (path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    (path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    for name in partitions:
        (path / name).mkdir()
        (path / name / f"{0:020}.log").touch()
    return path


def single(
    path: Path, *partitions: str, image: ClusterImage | None = None, node_id: int = 1
) -> Path:
    """A folder of `kwire serve`."""
    log_dir(path, node_id, *partitions)
    write_copy(path / METADATA, image or ClusterImage("cluster"))
    return path


def cluster(path: Path, count: int = 3, image: ClusterImage | None = None) -> Path:
    """A folder of `kwire serve --brokers`."""
    for broker_id in range(1, count + 1):
        log_dir(path / f"broker-{broker_id}", broker_id, "t-0")
    write_copy(path / METADATA, image or ClusterImage("cluster"))
    return path


def adopted(path: Path) -> Path:
    """A folder of `kwire serve --brokers` that `kwire cluster adopt` gave to KRaft controllers."""
    (cluster(path) / METADATA).rename(path / ADOPTED)
    for broker_id in (1, 2, 3):
        (path / f"broker-{broker_id}" / "__cluster_metadata-0").mkdir()
    return path


def cluster_up(path: Path, count: int = 3) -> Path:
    """A folder of `kwire cluster up`, which started a ZooKeeper."""
    (path / "zookeeper" / "data").mkdir(parents=True)
    for broker_id in range(1, count + 1):
        log_dir(path / f"broker-{broker_id}" / "data", broker_id, "t-0", version=0)
    return path


def kraft_up(path: Path, count: int = 3) -> Path:
    """A folder of `kwire cluster up --kraft`, with one controller."""
    log_dir(path / "controller-101" / "data", 101, "__cluster_metadata-0")
    for broker_id in range(1, count + 1):
        log_dir(path / f"broker-{broker_id}" / "data", broker_id, "t-0", "__cluster_metadata-0")
    (path / UP_QUORUM).write_text("{}")
    return path


def mixed(path: Path) -> Path:
    """A folder that an earlier version served by one broker and by three."""
    single(path, "t-0")
    return cluster(path)
