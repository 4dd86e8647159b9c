"""Takes over data directories from Apache Kafka, and leaves them so that it can take them back.

At every start kwire compares its metadata with the directories (`reconciling`, pure): with the
KRaft metadata log, if it has new records, and with the partitions' logs.  It applies what has
changed since, and logs each change.

If the node is the only voter of its metadata quorum, kwire writes its own changes to the KRaft
metadata log, so that Apache Kafka finds them (`kraft_changes`, pure; `mirror`).  Otherwise, and
with ZooKeeper, it logs at its start that it cannot.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kwire.log.directory import log_dir

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.log import LogManager


def is_needed(logs: LogManager, image: ClusterImage) -> bool:
    """Whether Apache Kafka has used the directories, or may have."""
    if metadata_folder(logs) is not None or is_zookeepers(logs):
        return True
    return is_fresh(image) and any(directory.folders() for directory in logs.online_dirs)


def is_new(logs: LogManager) -> bool:
    """Return whether the directories have neither partitions nor metadata of Apache Kafka."""
    return (
        metadata_folder(logs) is None
        and not is_zookeepers(logs)
        and not any(directory.folders() for directory in logs.online_dirs)
    )


def is_fresh(image: ClusterImage) -> bool:
    """Whether no change was ever committed to kwire's metadata."""
    return not image.version and not image.topics


def is_zookeepers(logs: LogManager) -> bool:
    """Whether `meta.properties` has version 0, that of Apache Kafka with ZooKeeper."""
    identities = [directory.identity() for directory in logs.online_dirs]
    return any(identity is not None and identity.version == 0 for identity in identities)


def metadata_folder(logs: LogManager) -> Path | None:
    """The folder of the KRaft metadata log, None if no directory has it."""
    folders = (directory.path / log_dir.KRAFT_METADATA for directory in logs.online_dirs)
    return next((folder for folder in folders if folder.is_dir()), None)
