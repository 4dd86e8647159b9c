"""Decides whether a command may serve a data folder; a refusal names the command that can.

              alone    several   on ZooKeeper   beside KRaft controllers   cluster up
    NEW       yes      yes       yes            yes                        yes
    SINGLE    yes      converted yes (*)        only without metadata (*)  no
    CLUSTER   no (**)  yes       no             no                         no
    CLUSTER_UP no      no        no             no                         yes
    UP_MEMBER no       no        yes            not of version 0 (*)       no
    KRAFT     yes      no        yes (*)        yes (*)                    no
    KRAFT_UP_MEMBER no no        no             yes                        no
    ZOOKEEPER yes      no        yes            no                         no
    MEMBER    no       no        no             only without metadata (*)  no
    others    no       no        no             no                         no

`kwire cluster up --kraft` serves NEW and KRAFT_UP, and nothing else serves KRAFT_UP.

(*) where meta.properties names the cluster that ZooKeeper or the controllers have.  (**) `kwire
serve` without --brokers serves it as --brokers 1 does.

A SINGLE with metadata of its own, and a CLUSTER, go to KRaft controllers by `kwire cluster adopt`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from pathlib import Path
from typing import Final

from kwire.log import LogDirError
from kwire.storage.data_folder.kinds import (
    DataFolder,
    FolderKind,
    has_metadata,
    is_zookeepers,
    look,
)


class ServingWay(Enum):
    """The ways to serve a folder, or to convert it."""

    ALONE = auto()
    """By a broker that keeps its own metadata: it is one of the log.dirs."""
    SEVERAL = auto()
    """By `kwire serve --brokers N`: it holds the metadata and each broker's folder."""
    ZOOKEEPER = auto()
    """By a broker with zookeeper.connect: it is one of the log.dirs."""
    KRAFT = auto()
    """By a broker with process.roles=broker: it is one of the log.dirs."""
    CLUSTER_UP = auto()
    """By `kwire cluster up`."""
    KRAFT_UP = auto()
    """By `kwire cluster up --kraft`."""
    ADOPT = auto()
    """`kwire cluster adopt` gives the metadata in it to ZooKeeper."""
    ADOPT_KRAFT = auto()
    """`kwire cluster adopt` gives the metadata in it to KRaft controllers."""


_OF_ONE: Final = {FolderKind.NEW, FolderKind.SINGLE, FolderKind.KRAFT, FolderKind.ZOOKEEPER}
_ALLOWED: Final = {
    ServingWay.ALONE: _OF_ONE,
    ServingWay.SEVERAL: {FolderKind.NEW, FolderKind.SINGLE, FolderKind.CLUSTER},
    ServingWay.ZOOKEEPER: {*_OF_ONE, FolderKind.UP_MEMBER},
    ServingWay.KRAFT: {
        FolderKind.NEW, FolderKind.SINGLE, FolderKind.MEMBER, FolderKind.UP_MEMBER,
        FolderKind.KRAFT, FolderKind.KRAFT_UP_MEMBER,
    },
    ServingWay.CLUSTER_UP: {FolderKind.NEW, FolderKind.CLUSTER_UP},
    ServingWay.KRAFT_UP: {FolderKind.NEW, FolderKind.KRAFT_UP},
    ServingWay.ADOPT: _OF_ONE,
    ServingWay.ADOPT_KRAFT: {*_OF_ONE, FolderKind.CLUSTER},
}  # fmt: skip


def admit(path: Path, way: ServingWay) -> DataFolder:
    """The folder, if it can be served in this way.  Raises LogDirError, which says what to do."""
    folder = look(path)
    if folder.kind not in _ALLOWED[way]:
        raise LogDirError(_refusal(folder))
    if way is ServingWay.KRAFT:
        _check_for_kraft(folder)
    return folder


def admit_all(paths: Iterable[str], way: ServingWay) -> None:
    """Like `admit`, for all log.dirs; a directory that cannot be read fails when it is opened."""
    for path in map(Path, paths):
        try:
            admit(path, way)
        except PermissionError:
            continue


def holds_cluster(path: Path) -> bool:
    """Whether `kwire serve` without --brokers serves the folder as --brokers 1 does."""
    try:
        return look(path).kind is FolderKind.CLUSTER
    except OSError:
        return False  # whoever opens it says why it cannot be read


def _check_for_kraft(folder: DataFolder) -> None:
    """Raise LogDirError for log directories whose metadata KRaft controllers do not have."""
    if folder.kind is FolderKind.SINGLE and has_metadata(folder.path):
        raise LogDirError(
            f"{folder.path} is the folder of one broker, and KRaft controllers do not have its "
            f"metadata: give it to new controllers by kwire cluster adopt --kraft "
            f"ID@HOST:PORT=DIR {folder.path}, or serve it with kwire serve --data {folder.path}"
        )
    of_others = folder.cluster is not None and has_metadata(folder.cluster)
    if of_others or (folder.kind is FolderKind.UP_MEMBER and is_zookeepers(folder.log_dirs()[0])):
        raise LogDirError(_refusal(folder))


def _refusal(folder: DataFolder) -> str:
    """Return the text that refuses the folder: what it is, and which command serves it."""
    path, kind = folder.path, folder.kind
    cluster = folder.cluster or path
    several = f"kwire serve --brokers {max(folder.member_ids(), default=1)} --data {cluster}"
    up = f"kwire cluster up --data {cluster}"
    match kind:
        case FolderKind.SINGLE:
            return (
                f"{path} is the folder of one broker: serve it with kwire serve --data {path}, or "
                f"by a cluster of several with kwire serve --brokers 3 --data {path}"
            )
        case FolderKind.CLUSTER:
            return (
                f"{path} is the folder of a cluster of kwire serve --brokers: serve it with "
                f"{several}, which takes settings by --set only"
            )
        case FolderKind.MEMBER:
            return (
                f"{path} is the folder of one broker of the cluster in {cluster}, whose metadata "
                f"is not in it: serve the cluster with {several}"
            )
        case FolderKind.CLUSTER_UP:
            return f"{path} is the folder of a cluster of kwire cluster up: serve it with {up}"
        case FolderKind.UP_MEMBER:
            return (
                f"{path} is the folder of one broker of the cluster in {cluster}, whose metadata "
                f"is not in it: serve the cluster with {up}"
            )
        case FolderKind.ADOPTED:
            return (
                f"{path} is the folder of a cluster that kwire cluster adopt has given to KRaft "
                f"controllers: serve {path}/broker-N, each by a broker of its own, with kwire "
                "serve --set process.roles=broker"
            )
        case FolderKind.KRAFT_UP | FolderKind.KRAFT_UP_MEMBER:
            whose = "of a cluster" if kind is FolderKind.KRAFT_UP else "of a node in a cluster"
            return (
                f"{path} is the folder {whose} of kwire cluster up --kraft: serve the cluster with "
                f"kwire cluster up --kraft --data {cluster}"
            )
        case FolderKind.KRAFT | FolderKind.ZOOKEEPER:
            return (
                f"{path} is the log directory of an Apache Kafka broker, or of one on ZooKeeper: "
                f"kwire serve --data {path} takes it over as one broker. To have its topics in a "
                "cluster, copy them there: kwire pipeline mirror. A whole cluster on ZooKeeper "
                "goes to KRaft by the migration of Apache Kafka 3.9"
            )
        case FolderKind.PARTITION:
            return (
                f"{path} is the folder of one partition, and no log directory: --data and "
                f"log.dirs name the folder above, {path.absolute().parent}"
            )
        case _:
            return _refusal_of_mixed(folder)


def _refusal_of_mixed(folder: DataFolder) -> str:
    """Return the text that refuses a folder with logs of one broker and of a cluster."""
    members = ", ".join(f"broker-{each}" for each in folder.member_ids())
    return (
        f"{folder.path} holds the logs of one broker, and in {members} those of a cluster: an "
        "earlier version served it in both ways, and the records of one are not in the other. "
        f"Move {members} elsewhere to serve the one broker's records (kwire log dump --records "
        "prints what those folders hold); or move everything else elsewhere but for "
        "kwire-metadata.log, to serve the cluster's"
    )
