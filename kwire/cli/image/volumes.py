"""The data folder of the container image: the volume that is mounted, and who may write there."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from kwire.settings.error import ConfigError

DATA_DIR: Final = "/var/lib/kafka/data"
"""The volume of the images apache/kafka and confluentinc/cp-kafka."""
MOUNT_TABLE: Final = Path("/proc/self/mountinfo")
_BITNAMI: Final = "/bitnami/kafka/data"
_VOLUMES: Final = {
    _BITNAMI: _BITNAMI,
    "/bitnami/kafka": _BITNAMI,
    "/bitnami": _BITNAMI,
    "/kafka": "/kafka/kafka-logs-{host}",
}
"""The data folder by the volume of another image that is mounted, in the order of search."""


def mount_points(table: Path = MOUNT_TABLE) -> frozenset[str]:
    """The folders at which something is mounted, also of the same file system."""
    try:
        lines = table.read_text("utf-8", errors="surrogateescape").splitlines()
    except OSError:  # no /proc: no volume of another image is found
        return frozenset()
    return frozenset(line.split(" ")[4].replace("\\040", " ") for line in lines)


def data_folder(mounted: Collection[str] | None = None) -> str:
    """The folder for data if `log.dirs` is not set: in the volume that is mounted."""
    points = mount_points() if mounted is None else mounted
    for volume, folder in _VOLUMES.items():
        if volume in points:
            return folder.format(host=socket.gethostname())
    return DATA_DIR


def check_writable(log_dirs: Iterable[str]) -> None:
    """Raise ConfigError if this user may not write into a log directory, with what to do."""
    for directory in log_dirs:
        path = Path(directory)
        while not path.exists() and path != path.parent:
            path = path.parent
        if os.access(path, os.W_OK | os.X_OK):
            continue
        user, owner = os.geteuid(), path.stat().st_uid
        raise ConfigError(
            f"cannot write to {path}: it belongs to user {owner}, and the broker runs as user "
            f"{user}. Run the container as that user (docker run --user {owner}, in a compose file "
            f'user: "{owner}"), or give the volume to this one, once: docker run --rm --user root '
            f"-v VOLUME:{path} IMAGE chown -R {user}:0 {path}"
        )
