"""The folder of a stopped node or cluster, as `kwire cluster adopt` reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.log import LogDir
    from kwire.storage.data_folder.admission import ServingWay


class NotAdopted(Exception):
    """The folder cannot be adopted; the message says why."""


class StoppedMetadata(NamedTuple):
    """The metadata of a node that kept them itself.

    `offset` counts all commits, also those that ended with a process.
    """

    image: ClusterImage
    offset: int


@contextmanager
def locked(directories: Sequence[Path], way: ServingWay) -> Iterator[list[LogDir]]:
    """Lock folders of this way of adoption, so that no broker serves them meanwhile.

    The folder of a cluster is locked with those of its brokers, and comes first.  Raises
    NotAdopted.
    """
    from kwire.log import LogDir, LogDirError, LogDirLocked
    from kwire.log.directory.files import Files
    from kwire.storage.data_folder.admission import admit
    from kwire.storage.data_folder.growing import undo_interrupted

    found: list[LogDir] = []
    try:
        for path in directories:
            undo_interrupted(path)
            folder = admit(path, way)
            paths = dict.fromkeys((path, *folder.log_dirs()))
            found += [LogDir(each, Files()) for each in paths]
        for directory in found:
            directory.open()
        yield found
    except (LogDirError, LogDirLocked) as error:
        raise NotAdopted(str(error)) from error
    finally:
        for directory in found:
            directory.unlock()


def broker_id_of(directories: Sequence[LogDir]) -> int:
    """The broker id in meta.properties, the same in all directories.  Raises NotAdopted."""
    from kwire.log import LogDirError

    ids = set()
    for directory in directories:
        try:
            identity = directory.identity()
        except LogDirError as error:
            raise NotAdopted(str(error)) from error
        if identity is None:
            raise NotAdopted(f"{directory.path} has no meta.properties: no broker has served it")
        ids.add(identity.node_id)
    if len(ids) > 1:
        raise NotAdopted(f"the directories belong to several brokers: {sorted(ids)}")
    return ids.pop()


def metadata_in(directory: Path) -> StoppedMetadata:
    """Return the metadata in a folder: the first log directory of a single node, or that of a
    cluster.  Raises NotAdopted if there is none or it is damaged."""
    from kwire.cluster.stores.change_log import ChangeLog, DamagedLog
    from kwire.cluster.stores.local import FILE_NAME

    path = directory / FILE_NAME
    if not path.exists():
        raise NotAdopted(
            f"{path} does not exist: a single kwire broker has it in the first of its log.dirs, so"
            " name that directory first"
        )
    try:
        log, image = ChangeLog.open_at(path)
    except DamagedLog as error:
        raise NotAdopted(f"cannot read {path}: {error}") from error
    log.close()
    return StoppedMetadata(image, image.version + log.offset_base)


def kraft_metadata_in(directory: Path, node_id: int) -> StoppedMetadata:
    """Return the metadata in the KRaft log of a node that is its own and only controller.

    A kwire broker that served the directory has written its changes to that log, too.  Raises
    NotAdopted.
    """
    from kwire.cluster.metadata.image import NO_CONTROLLER
    from kwire.cluster.stores.kraft.first_folders import replayed
    from kwire.cluster.stores.kraft.metadata_log import FOLDER
    from kwire.cluster.stores.kraft.records import BadMetadata
    from kwire.log.directory import kraft_metadata, meta_properties
    from kwire.log.directory.files import Files

    try:
        voters = kraft_metadata.read(directory / FOLDER, Files()).voters
        if voters != {node_id}:
            raise NotAdopted(
                f"{directory} is of a cluster with the controllers {sorted(voters)}: serve it with"
                " process.roles=broker beside them"
            )
        identity = meta_properties.read(Files(), directory)
        assert identity is not None, directory  # its broker id is known
        replay = replayed(directory, identity.cluster_id or "")
    except (OSError, BadMetadata) as error:
        raise NotAdopted(f"cannot read the metadata log in {directory}: {error}") from error
    image = replay.image.with_controller(NO_CONTROLLER, replay.epoch)
    return StoppedMetadata(image, replay.end_offset)
