"""The limit of open files of a broker: from its metrics, or from /proc if it runs on this machine.

A broker without free descriptors accepts no connections and opens no segments.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kwire.client.checkup.finding import CheckGrade, ClusterFinding

USED_SHARE_RISK: Final = 0.8
FILES_OF_REPLICA: Final = 3
"""A segment of a replica has a log and two indexes."""
SPARE: Final = 256
"""For connections, sockets and libraries."""
LISTEN_STATE: Final = "0A"
"""The state of listening sockets in /proc/net/tcp."""
PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The open files of a broker's process, and how many it may have."""

    opened: int
    limit: int


def descriptor_findings(
    broker_id: int, found: Descriptors | None, replicas: int
) -> Iterator[ClusterFinding]:
    """Yield findings about the limit of open files of one broker, which has `replicas`."""
    about = f"broker {broker_id}"
    if found is None:
        yield ClusterFinding(
            CheckGrade.UNCHECKED,
            "open-files",
            about,
            "the limit of open files is unknown: the broker is on another machine or of another"
            " user, and has no metrics",
            "on its machine: grep 'open files' /proc/PID/limits; or kwire serve --metrics PORT",
        )
        return
    wanted = replicas * FILES_OF_REPLICA + SPARE
    remedy = f"raise it to {max(4 * wanted, 100_000)}: ulimit -n, or LimitNOFILE= in systemd"
    if found.opened >= USED_SHARE_RISK * found.limit:
        yield ClusterFinding(
            CheckGrade.RISK,
            "open-files",
            about,
            f"{found.opened} of at most {found.limit} files are open; at the limit the broker"
            " accepts no connections",
            remedy,
        )
    elif found.limit < wanted:
        yield ClusterFinding(
            CheckGrade.NOTE,
            "open-files",
            about,
            f"at most {found.limit} files may be open, and {replicas} replicas have about {wanted}:"
            " Apache Kafka fails at the limit, and kwire closes and opens files all the time",
            remedy,
        )


def descriptors_of(port: int, proc: Path = PROC) -> Descriptors | None:
    """The descriptors of the process that listens on a port of this machine.

    None if there is none, if it belongs to another user, or without /proc.
    """
    inodes = set(_listening(port, proc))
    if not inodes:
        return None
    links = {f"socket:[{inode}]" for inode in inodes}
    for folder in proc.glob("[0-9]*"):
        try:
            opened = list(_targets(folder / "fd"))
            if links.isdisjoint(opened):
                continue
            limit = _limit((folder / "limits").read_text())
        except OSError:  # The process has ended, or belongs to another user.
            continue
        return None if limit is None else Descriptors(len(opened), limit)
    return None


def _listening(port: int, proc: Path) -> Iterator[str]:
    """Yield the inodes of the sockets that listen on a port."""
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            # sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
            fields = line.split()
            if fields[3] == LISTEN_STATE and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _targets(folder: Path) -> Iterator[str]:
    """Yield what the descriptors of a process are.  Those that are closed meanwhile are left
    out."""
    for each in folder.iterdir():
        try:
            yield os.readlink(each)
        except FileNotFoundError:
            continue


def _limit(limits: str) -> int | None:
    """The soft limit of open files in the text of /proc/PID/limits."""
    match = re.search(r"^Max open files\s+(\d+)", limits, re.MULTILINE)
    return None if match is None else int(match[1])
