"""The identity of log directories: checks, writes or recovers their `meta.properties`.

    the file        the directory      the cluster id        what is done
    missing         without logs       any                   the file is written
    missing         with logs          known from elsewhere  the file is written, with a warning
    missing         with logs          unknown               written for a new cluster; a warning
    invalid         any                known from elsewhere  the file is written, with a warning
    invalid         any                unknown               refused

"Elsewhere" is kwire's own metadata or another directory.  An existing file keeps its version:
Apache Kafka with ZooKeeper takes version 0 only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.log.directory.meta_properties import FILE_NAME, MetaProperties
from kwire.log.directory.partition_metadata import new_directory_id
from kwire.log.error import LogDirError

if TYPE_CHECKING:
    from kwire.log.directory.log_dir import LogDir

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Found:
    """A directory and its identity; `trouble` is the error if the file cannot be parsed."""

    directory: LogDir
    known: MetaProperties | None
    trouble: LogDirError | None = None

    @property
    def cluster_id(self) -> str | None:
        return None if self.known is None else self.known.cluster_id


def settle(
    directories: Iterable[LogDir],
    node_id: int,
    new_cluster_id: str,
    *,
    remembered: str | None,
    zookeeper: bool,
) -> str:
    """Check or write `meta.properties` in all directories; returns the cluster id.

    `remembered` is the cluster id in kwire's own metadata, `new_cluster_id` is for a first start.
    Raises LogDirError if a directory belongs to another node or to another cluster than the others,
    or if its file is invalid and the cluster id is not known from elsewhere.
    """
    found = [_look(directory) for directory in directories]
    _check_node(found, node_id)
    clusters = {each.cluster_id for each in found} - {None}
    if len(clusters) > 1:
        raise LogDirError(f"the log.dirs belong to several clusters: {sorted(map(str, clusters))}")
    cluster_id = clusters.pop() if clusters else remembered
    for each in found:
        _log_recovery(each, cluster_id, new_cluster_id)
    cluster_id = cluster_id or new_cluster_id
    for each in found:
        wanted = _wanted(each.known, node_id, cluster_id, zookeeper=zookeeper)
        if each.known != wanted:
            each.directory.set_identity(wanted)
    return cluster_id


def _look(directory: LogDir) -> _Found:
    """Return the identity of a directory, or the error if its file is invalid."""
    try:
        return _Found(directory, directory.identity())
    except LogDirError as trouble:
        return _Found(directory, None, trouble)


def _check_node(found: Iterable[_Found], node_id: int) -> None:
    """Raise LogDirError if a directory belongs to another node than `node_id`."""
    for each in found:
        if each.known is not None and each.known.node_id != node_id:
            raise LogDirError(
                f"{each.directory.path} belongs to broker {each.known.node_id}, this one is "
                f"{node_id}: set node.id to match, or use another directory"
            )


def _log_recovery(each: _Found, cluster_id: str | None, new_cluster_id: str) -> None:
    """Log a missing or invalid file and its recovery.  Raises LogDirError if that is impossible."""
    path, trouble = each.directory.path / FILE_NAME, each.trouble
    if trouble is not None and cluster_id is None:
        raise LogDirError(
            f"{trouble}, and nothing else tells which cluster the directory belongs to: put the "
            "file back, or remove it to use the logs in a new cluster"
        )
    if trouble is not None:
        _logger.warning("%s; written again for cluster %s", trouble, cluster_id)
    elif each.known is None and each.directory.folders():
        if cluster_id is not None:
            _logger.warning("%s is missing; written again for cluster %s", path, cluster_id)
        else:
            _logger.warning(
                "%s is missing, and nothing else tells which cluster the logs beside it belong to:"
                " they are used in a new cluster, %s",
                path,
                new_cluster_id,
            )


def _wanted(
    known: MetaProperties | None, node_id: int, cluster_id: str, *, zookeeper: bool
) -> MetaProperties:
    """Return the properties that the directory should have, given those that it has.

    A directory keeps its version and its id. A new one has version 0 with ZooKeeper, else 1; an id
    is made only from version 1 on.
    """
    version = known.version if known is not None else 0 if zookeeper else 1
    directory_id = known.directory_id if known is not None else None
    if directory_id is None and version > 0:
        directory_id = new_directory_id()
    return MetaProperties(version, node_id, cluster_id, directory_id)
