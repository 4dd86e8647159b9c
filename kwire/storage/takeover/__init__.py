"""Data directories that go back and forth between Apache Kafka and kwire.

At every start kwire compares its own metadata with what the directories say beside it
(`reconciling`, pure): with the KRaft metadata log where there is one and somebody has appended to
it, and with the logs.  What was done there since is taken over and named in the log.

Where the node is the only voter of its metadata quorum, kwire leaves that log so that Apache Kafka
finds everything that was made and set here (`kraft_changes`, pure; `mirror`).  Otherwise, and with
ZooKeeper, it says at its start that it cannot.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kwire.log.directory import log_dir

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.log import LogManager


def is_needed(logs: LogManager, image: ClusterImage) -> bool:
    """Whether the directories may hold what somebody else has made."""
    if metadata_folder(logs) is not None or is_zookeepers(logs):
        return True
    return is_fresh(image) and any(each.folders() for each in logs.online_dirs)


def is_new(logs: LogManager) -> bool:
    """Whether nobody has made anything in the directories, whatever kwire's metadata says."""
    return (
        metadata_folder(logs) is None
        and not is_zookeepers(logs)
        and not any(each.folders() for each in logs.online_dirs)
    )


def is_fresh(image: ClusterImage) -> bool:
    """Whether nothing was ever committed to the metadata."""
    return not image.version and not image.topics


def is_zookeepers(logs: LogManager) -> bool:
    """Whether Apache Kafka with ZooKeeper has had the directories: its identity stays."""
    known = [each.identity() for each in logs.online_dirs]
    return any(each is not None and each.version == 0 for each in known)


def metadata_folder(logs: LogManager) -> Path | None:
    """The KRaft metadata log, if one of the directories has it."""
    folders = (each.path / log_dir.KRAFT_METADATA for each in logs.online_dirs)
    return next((folder for folder in folders if folder.is_dir()), None)
