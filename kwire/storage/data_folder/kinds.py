"""Recognizes the kind of a data folder by the files in it and above it; it only reads.

    SINGLE       D/meta.properties, D/kwire-metadata.log, D/TOPIC-N      kwire serve
    CLUSTER      D/kwire-metadata.log, D/broker-N/meta.properties        kwire serve --brokers N
    MEMBER       D/broker-N of such a D
    CLUSTER_UP   D/zookeeper, D/broker-N/data/meta.properties            kwire cluster up
    UP_MEMBER    D/broker-N or D/broker-N/data of such a D
    ADOPTED      D/kwire-metadata.log.adopted, D/broker-N                kwire cluster adopt
    KRAFT_UP     D/quorum.json, D/controller-N, D/broker-N           kwire cluster up --kraft
    KRAFT_UP_MEMBER  D/broker-N, D/controller-N or data in one of them, of such a D
    KRAFT        D/meta.properties, D/__cluster_metadata-0               Apache Kafka
    ZOOKEEPER    D/meta.properties of version 0                          Apache Kafka 3.9, adopted
    PARTITION    D/partition.metadata or D/00000000000000000000.log
    MIXED        D and D/broker-N both have logs: earlier versions of kwire served such a D as one
                 broker and as a cluster
    NEW          nothing of these, or D/kwire-metadata.log alone: a first start that was interrupted

Folders D/broker-N of brokers that have metadata of their own are no MEMBERs where D has none.
A topic may be called `broker`, so a SINGLE may have folders `broker-N`, of partitions: a member's
folder is one that has a meta.properties.
"""

from __future__ import annotations

import os
import re
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple

from kwire.cluster.stores import first_format
from kwire.cluster.stores.local import FILE_NAME as METADATA
from kwire.log import LogDirError
from kwire.log.directory import meta_properties, partition_metadata
from kwire.log.directory.files import Files
from kwire.log.directory.log_dir import KRAFT_METADATA, parse_partition_folder

MEMBER_NAME: Final = re.compile(r"broker-([1-9]\d*)")
UP_NODE_NAME: Final = re.compile(r"(?:broker|controller)-([1-9]\d*)")
MOVING_NAME: Final = re.compile(r"\.broker-([1-9]\d*)-moving")
SEGMENT_NAME: Final = re.compile(r"\d{20}\.log")
UP_DATA: Final = "data"
"""In the folder of each broker of `kwire cluster up`."""
UP_ZOOKEEPER: Final = "zookeeper"
ADOPTED: Final = f"{METADATA}.adopted"
"""The metadata that `kwire cluster adopt` has given to KRaft controllers.  The folder of one broker
has it, too, and is a KRAFT then."""
UP_QUORUM: Final = "quorum.json"
"""The file of `kwire cluster up --kraft` about the controllers."""
META_PROPERTIES: Final = meta_properties.FILE_NAME


class FolderKind(Enum):
    """The kinds of folders; the head of the module says how each is recognized."""

    NEW = auto()
    SINGLE = auto()
    CLUSTER = auto()
    MEMBER = auto()
    CLUSTER_UP = auto()
    UP_MEMBER = auto()
    ADOPTED = auto()
    KRAFT_UP = auto()
    KRAFT_UP_MEMBER = auto()
    KRAFT = auto()
    ZOOKEEPER = auto()
    PARTITION = auto()
    MIXED = auto()


class DataFolder(NamedTuple):
    """A folder and its kind."""

    path: Path
    kind: FolderKind
    cluster: Path | None = None
    """The folder of the cluster, of a MEMBER, UP_MEMBER or KRAFT_UP_MEMBER."""

    def member_ids(self) -> list[int]:
        """The ids of brokers with a folder in the cluster's folder."""
        return sorted(_members(self.cluster or self.path))

    def log_dirs(self) -> list[Path]:
        """Return the log directories in the folder, by broker id; none for PARTITION and NEW."""
        match self.kind:
            case FolderKind.NEW | FolderKind.PARTITION:
                return []
            case FolderKind.CLUSTER | FolderKind.CLUSTER_UP | FolderKind.KRAFT_UP:
                return [path for _, path in sorted(_members(self.path).items())]
            case FolderKind.ADOPTED:
                folders = sorted(_numbered(self.path, MEMBER_NAME).items())
                return [path for _, path in folders if _is_log_dir(path)]
            case FolderKind.MIXED:
                return [self.path, *(path for _, path in sorted(_members(self.path).items()))]
            case FolderKind.UP_MEMBER | FolderKind.KRAFT_UP_MEMBER if self.path.name != UP_DATA:
                return [self.path / UP_DATA]
            case _:
                return [self.path]


def look(path: Path) -> DataFolder:
    """The kind of the folder `path`, which need not exist.  Raises OSError."""
    above = _above(path.absolute())
    if above is not None:
        return DataFolder(path, *above)
    return DataFolder(path, _kind_of(path) if path.is_dir() else FolderKind.NEW)


def member_path(cluster: Path, broker_id: int) -> Path:
    """The log directory of a broker of `kwire serve --brokers`."""
    return cluster / f"broker-{broker_id}"


def moving_in(folder: Path) -> list[Path]:
    """The folder that an interrupted move of one broker's logs has left (`growing`), or None."""
    return [*_numbered(folder, MOVING_NAME).values()]


def _above(path: Path) -> tuple[FolderKind, Path] | None:
    """Return the kind of member and the cluster's folder, if the folder belongs to a cluster's
    broker.
    """
    broker = path.parent if path.name == UP_DATA else path
    if UP_NODE_NAME.fullmatch(broker.name) and (broker.parent / UP_QUORUM).is_file():
        return FolderKind.KRAFT_UP_MEMBER, broker.parent
    if not MEMBER_NAME.fullmatch(broker.name) or not broker.parent.is_dir():
        return None
    kind = _kind_of(broker.parent)
    if kind is FolderKind.CLUSTER_UP:
        return FolderKind.UP_MEMBER, broker.parent
    if broker == path and (
        kind is FolderKind.CLUSTER
        or (kind is FolderKind.MIXED and (path / META_PROPERTIES).exists())
    ):
        return FolderKind.MEMBER, broker.parent
    return None


def _kind_of(path: Path) -> FolderKind:
    """Return the kind of the folder by the files in it; folders above are not examined.

    Logs of one broker beside folders of cluster members are MIXED.
    """
    if (path / UP_QUORUM).is_file():
        return FolderKind.KRAFT_UP
    members = _members(path)
    has_logs = _is_log_dir(path) or bool(moving_in(path)) or _has_partitions(path)
    if any(member.name == UP_DATA for member in members.values()):
        return FolderKind.MIXED if has_logs or has_metadata(path) else FolderKind.CLUSTER_UP
    if has_logs:
        return FolderKind.MIXED if members else _of_one_broker(path)
    if members:
        return FolderKind.CLUSTER
    if (path / UP_ZOOKEEPER / UP_DATA).is_dir():
        return FolderKind.CLUSTER_UP
    if (path / ADOPTED).exists() and not has_metadata(path):
        return FolderKind.ADOPTED
    return FolderKind.PARTITION if _is_partition(path) else FolderKind.NEW


def _of_one_broker(path: Path) -> FolderKind:
    """Return whether kwire, a KRaft node or a broker on ZooKeeper wrote the log directory."""
    if (path / KRAFT_METADATA).is_dir():
        return FolderKind.KRAFT
    return FolderKind.ZOOKEEPER if is_zookeepers(path) else FolderKind.SINGLE


def is_zookeepers(path: Path) -> bool:
    """Whether the log directory has the `meta.properties` of a broker on ZooKeeper."""
    try:
        known = meta_properties.read(Files(), path)
    except LogDirError:
        return False  # whoever serves it says what is damaged
    return known is not None and known.version == 0


def has_metadata(path: Path) -> bool:
    """Whether the folder has metadata of kwire: that of one broker, or of its cluster."""
    return (path / METADATA).exists() or (path / first_format.FILE_NAME).exists()


def _members(path: Path) -> dict[int, Path]:
    """Log directories of brokers in a cluster's folder, by the brokers' ids.

    Brokers that have nothing to do with each other may have folders of such names side by side,
    each with metadata of its own or in a ZooKeeper: where `path` has no metadata they are no
    members.
    """
    has_own = has_metadata(path)
    members = {}
    for broker_id, folder in _numbered(path, MEMBER_NAME).items():
        log_dirs = [each for each in (folder / UP_DATA, folder) if _is_log_dir(each)]
        if log_dirs and (has_own or log_dirs[0].name == UP_DATA or not _is_on_its_own(folder)):
            members[broker_id] = log_dirs[0]
    return members


def _numbered(path: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    """Return what is in a folder under names of this pattern, by the number in each name.

    The names alone are listed: a log directory may have 10,000 partitions, at each start.
    """
    try:
        names = os.listdir(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}  # whoever opens the folder says why it cannot be read
    matches = filter(None, map(pattern.fullmatch, names))
    return {int(match[1]): path / match[0] for match in matches}


def _is_on_its_own(path: Path) -> bool:
    """Whether a log directory has its metadata in it, or its broker has them in a ZooKeeper."""
    return has_metadata(path) or _of_one_broker(path) in (FolderKind.ZOOKEEPER, FolderKind.KRAFT)


def _is_log_dir(path: Path) -> bool:
    return (path / META_PROPERTIES).is_file()


def _has_partitions(path: Path) -> bool:
    """Return whether the folder has a partition's folder with files of a log.

    A log directory may have such a name, too, and does not count.
    """
    return any(
        parse_partition_folder(folder.name) is not None
        and not _is_log_dir(folder)
        and _is_partition(folder)
        for folder in path.glob("*-*")
    )


def _is_partition(path: Path) -> bool:
    return (path / partition_metadata.FILE_NAME).is_file() or any(
        SEGMENT_NAME.fullmatch(file.name) for file in path.glob("*.log")
    )
