"""Changes the number of brokers of a data folder: from one broker to a cluster, and from N to M.

A broker's folder becomes that of a cluster by renames only.  Its metadata stays, as a cluster's has
the same form.  Its logs become those of the broker with the same id:

    D/kwire-metadata.log                          D/kwire-metadata.log
    D/meta.properties, D/orders-0, ...      ->    D/broker-1/meta.properties, D/broker-1/orders-0

The logs are moved to `D/.broker-1-moving`, which gets its final name last.  If the process is
killed before that, the next start moves everything back (`undo_interrupted`).

Nothing is moved when a cluster gets more or fewer brokers.  But every partition must have an
in-sync replica on a remaining broker, or its records could not be read any more.

The caller holds the folder's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kwire.cluster.metadata.changes import SetConfigs, apply_all
from kwire.cluster.metadata.image import TOPIC_RESOURCE, ClusterImage
from kwire.cluster.metadata.topic_names import SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from kwire.cluster.stores.change_log import ChangeLog, DamagedLog
from kwire.cluster.stores.local import FILE_NAME as METADATA
from kwire.log import LogDirError
from kwire.log.directory import log_dir, meta_properties
from kwire.log.directory.files import Files
from kwire.log.directory.locking import FolderLock
from kwire.storage.data_folder.kinds import DataFolder, FolderKind, member_path, moving_in

log = logging.getLogger("kwire.serve")

_SUFFIXES: Final = (log_dir.DELETE_SUFFIX, log_dir.FUTURE_SUFFIX, log_dir.STRAY_SUFFIX)
MIN_IN_SYNC: Final = "min.insync.replicas"
OWN_TOPICS: Final = (TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC)
"""Topics that get `min.insync.replicas` from the number of brokers when they are created."""
NAMED_MAX: Final = 3
"""The most partitions that a refusal names; the others are only counted."""


def undo_interrupted(folder: Path) -> None:
    """Undo a move that was interrupted.  Raises LogDirError, LogDirLocked, OSError."""
    if not moving_in(folder):
        return
    lock = FolderLock(folder, Files())
    lock.acquire()
    try:
        put_back(folder)
    finally:
        lock.release()


def put_back(folder: Path) -> None:
    """Like `undo_interrupted`, for a caller that holds the folder's lock."""
    files = Files()
    for moving in moving_in(folder):
        log.warning("%s is left of a move that was interrupted: it is put back", moving)
        for path in sorted(moving.iterdir()):
            target = folder / path.name
            if target.exists():
                raise LogDirError(f"{path} cannot be put back: {target} exists")
            files.rename(path, target)
        moving.rmdir()
        files.fsync_dir(folder)


def prepare(folder: DataFolder, count: int) -> None:
    """Make the folder that of a cluster of brokers 1 to `count`.

    Raises LogDirError, which says what to do, if that is impossible; then nothing has changed.
    Raises OSError.
    """
    if folder.kind is FolderKind.SINGLE:
        broker_id = _broker_of(folder.path)
        if broker_id > count:
            raise LogDirError(
                f"{folder.path} is the folder of broker {broker_id}, and the brokers of a cluster "
                f"are 1 to {count}: give --brokers {broker_id} or more"
            )
        _fit(folder, count)
        _check_complete(folder.path, broker_id)
        _move(folder.path, broker_id)
    elif folder.kind is FolderKind.CLUSTER:
        _fit(folder, count)


def _broker_of(path: Path) -> int:
    """Return the broker id of a log directory; raises LogDirError if it has none."""
    known = meta_properties.read(Files(), path)
    if known is None:
        raise LogDirError(
            f"{path} has no meta.properties, so nothing says which broker its logs are of: start "
            f"kwire serve --data {path} once, which writes it"
        )
    return known.node_id


# -- one broker's folder


def _check_complete(folder: Path, broker_id: int) -> None:
    """Raise LogDirError if the broker had other log.dirs too: their logs would be missing.

    After a clean stop each partition has its folder; a kill may come before it is made.
    """
    if not (folder / log_dir.CLEAN_SHUTDOWN).exists():
        return
    missing = [
        f"{topic.name}-{index}"
        for topic in _image(folder).topics.values()
        for index, partition in enumerate(topic.partitions)
        if broker_id in partition.replicas
        and not (folder / log_dir.partition_folder(topic.name, index)).is_dir()
    ]
    if missing:
        raise LogDirError(
            f"{folder} lacks the logs of {_named(missing)}, so it is one of several log.dirs, and "
            "a broker of --brokers has only one: copy the topics to the cluster with kwire "
            "pipeline mirror, from this broker while it runs"
        )


def _move(folder: Path, broker_id: int) -> None:
    """Move the logs to the broker's folder within the cluster's folder."""
    target = member_path(folder, broker_id)
    if target.exists() and not _belongs_to_broker(target):
        raise LogDirError(f"{target} is in the way: the broker's logs are to be there")
    files = Files()
    moving = folder / f".{target.name}-moving"
    moving.mkdir()
    files.fsync_dir(folder)
    for path in sorted(folder.iterdir()):
        if _belongs_to_broker(path):
            files.rename(path, moving / path.name)
    files.fsync_dir(moving)
    files.fsync_dir(folder)
    files.rename(moving, target)
    files.fsync_dir(folder)
    log.info(
        "%s was the folder of one broker: its logs are those of broker %d of the cluster from now "
        "on, in %s",
        folder, broker_id, target,
    )  # fmt: skip


def _belongs_to_broker(path: Path) -> bool:
    """Return whether a file belongs to a log directory; metadata, lock and unknown files are not
    moved.
    """
    if path.is_dir():
        is_partition = log_dir.parse_partition_folder(path.name) is not None
        return is_partition or path.name.endswith(_SUFFIXES)
    return path.name.endswith("-checkpoint") or path.name in (
        meta_properties.FILE_NAME,
        log_dir.CLEAN_SHUTDOWN,
    )


# -- what the metadata says


def _fit(folder: DataFolder, count: int) -> None:
    """Check that brokers 1 to `count` have all partitions, and can write them."""
    path = folder.path / METADATA
    if not path.exists():
        return  # the form of an earlier version, which one broker had alone, or nothing
    with _opened(path) as (change_log, image):
        check(folder, image, count)
        changes = list(lowered(image, count))
        if changes:
            after = apply_all(image, changes).with_version(image.version + 1)
            change_log.write(changes, after)
    for change in changes:
        log.warning(
            "%s of topic %s is %d from now on: there are no more brokers. With more of them again, "
            "raise it: kwire configs alter topic %s --set %s=2",
            MIN_IN_SYNC, change.name, count, change.name, MIN_IN_SYNC,
        )  # fmt: skip


def _image(folder: Path) -> ClusterImage:
    path = folder / METADATA
    if not path.exists():
        return ClusterImage("")
    with _opened(path) as (_, image):
        return image


@contextmanager
def _opened(path: Path) -> Iterator[tuple[ChangeLog, ClusterImage]]:
    """Open the metadata log in `path`, and close it at the end. Raises LogDirError if damaged."""
    try:
        change_log, image = ChangeLog.open_at(path)
    except DamagedLog as error:
        raise LogDirError(f"the metadata in {path} cannot be read: {error}") from error
    try:
        yield change_log, image
    finally:
        change_log.close()


def check(folder: DataFolder, image: ClusterImage, count: int) -> None:
    """Raise LogDirError if brokers 1 to `count` alone could not serve all partitions."""
    remaining = set(range(1, count + 1))
    elsewhere, behind = [], []
    ids = {*folder.member_ids()} if folder.kind is FolderKind.CLUSTER else set()
    copies = 1
    for topic in image.topics.values():
        if topic.name in image.deleting:
            continue
        for index, partition in enumerate(topic.partitions):
            ids.update(partition.replicas)
            copies = max(copies, len(partition.replicas))
            if not remaining.intersection(partition.replicas):
                elsewhere.append(f"{topic.name}-{index}")
            elif not remaining.intersection(partition.isr):
                behind.append(f"{topic.name}-{index}")
    before = max(ids, default=count)
    again = f"kwire serve --brokers {before} --data {folder.path}"
    if elsewhere:
        off = ",".join(str(each) for each in sorted(ids - remaining))
        factor = f" --replication-factor {count}" if copies > count else ""
        raise LogDirError(
            f"{folder.path} has partitions that are on none of the brokers 1 to {count}: "
            f"{_named(elsewhere)}. Start it with {again}, and move them first: "
            f"kwire cluster reassign --off {off}{factor}"
        )
    if behind:
        raise LogDirError(
            f"{folder.path} has partitions of which none of the brokers 1 to {count} is in sync: "
            f"{_named(behind)}. Start it with {again}, and wait until kwire cluster status says "
            "that all is well"
        )


def _named(partitions: list[str]) -> str:
    named = ", ".join(sorted(partitions)[:NAMED_MAX])
    left = len(partitions) - NAMED_MAX
    return f"{named} and {left} more" if left > 0 else named


def lowered(image: ClusterImage, count: int) -> Iterator[SetConfigs]:
    """Changes that lower min.insync.replicas of internal topics to `count`, where it is more."""
    for name in OWN_TOPICS:
        configs = image.configs_of(TOPIC_RESOURCE, name)
        if int(configs.get(MIN_IN_SYNC, "1")) > count:
            wanted = {**configs, MIN_IN_SYNC: str(count)}
            yield SetConfigs(TOPIC_RESOURCE, name, configs, wanted)
