"""A Java class data archive of Apache Kafka's classes, which halves the start time of its programs.

A node writes the classes that it has loaded to the archive when it ends.  Programs that start later
with the same jars map the file (`command` adds the options if the file exists).  Java checks that
the archive fits, and ignores it otherwise.  It is stored beside the jars in the user's cache
directory.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path

from kwire.conformance import java

QUIETLY = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Options against warnings: Java prints them on stdout, where a tool's output is read."""


def path(libs: Path) -> Path:
    """Return the path of the archive for a folder of jars and the current Java; it may not
    exist."""
    return libs.parent / f"{libs.name}-{_kind(libs.resolve()):08x}.jsa"


@cache
def _kind(libs: Path) -> int:
    """Return a checksum that differs for each Java and each folder of jars."""
    return zlib.crc32(f"{java.executable().resolve()} {_version()} {libs}".encode())


@cache
def _version() -> str:
    return java.version(java.executable())


def options(libs: Path) -> tuple[str, ...]:
    """Java's options that use the archive, if there is one."""
    archive = path(libs)
    return (f"-XX:SharedArchiveFile={archive}", *QUIETLY) if archive.is_file() else ()


def writing(archive: Path) -> tuple[str, ...]:
    """Java's options that write the archive when the process ends."""
    return (f"-XX:ArchiveClassesAtExit={archive}", *QUIETLY)


def keep(written: Path, libs: Path) -> None:
    """Move a written archive to its place; do nothing if the process has written none."""
    with suppress(FileNotFoundError):
        os.replace(written, path(libs))
