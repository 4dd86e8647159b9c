"""Keeps a Java class data archive of Spark's classes, with which a session starts sooner.

Java maps the classes of the archive into memory, instead of reading and checking thousands of them
from the jars.  The Java process of the first session that finds all jars resolved writes the
archive when it ends, beside the end of `kwire` itself.  That of a job that was interrupted or
failed lacks classes, so it is removed.  Java ignores an archive that does not fit its own version
or the jars.

The archives are in the user's cache directory.  Without one that can be written, there are none.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from pathlib import Path

from kwire.pipeline.cache import cache_dir
from kwire.pipeline.java import Java

OLDEST_JAVA = 13
"""The first release that writes an archive when a process ends (JEP 350)."""
SETTLED_S = 1.0
"""The time after the last write to an archive with a header.  Java writes the header last, in two
pieces, and a process that maps an incomplete archive crashes."""
ABANDONED_S = 3600.0
"""The age of an archive without a header whose process does not live any more."""
HEADER_SIZE_BYTES = 4
"""Of the magic number that an archive begins with."""
LACKING = ".lacking"
"""The end of the name of a file that stands beside an archive until the job has ended well."""
PLACES = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_DIST_CLASSPATH", "CLASSPATH")
"""Variables that change the class path.  An archive fits one class path only."""
QUIETLY = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Options against warnings: Java prints them on stdout, where a job's result is read."""


def java_options(java: Java, spark_home: Path, class_path: str = "") -> tuple[str, ...]:
    """Options that use the archive for this Java and Spark, or write it if there is none.

    `class_path` has the jars that are on the class path beside Spark's own.
    """
    if java.release < OLDEST_JAVA:
        return ()
    archive = _archive_of(java, spark_home, class_path)
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        _adopt_written(archive)
        if archive.exists():
            return (f"-XX:SharedArchiveFile={archive}", *QUIETLY)
        if not os.access(archive.parent, os.W_OK):
            return ()
        written = archive.with_name(f"{archive.name}.{os.getpid()}")
        _mark_of(written).touch()
    except OSError:
        return ()
    return (f"-XX:ArchiveClassesAtExit={written}", *QUIETLY)


def job_ended_well() -> None:
    """Let later sessions use the archive that this process's Java writes, if it writes one."""
    for mark in cache_dir().glob(f"spark-classes-*.jsa.{os.getpid()}{LACKING}"):
        mark.unlink(missing_ok=True)


def _mark_of(written: Path) -> Path:
    """The path of the file that says that an archive lacks classes."""
    return written.with_name(written.name + LACKING)


def _archive_of(java: Java, spark_home: Path, class_path: str) -> Path:
    """The path of the archive, which may not exist."""
    places = [class_path, *(os.environ.get(name, "") for name in PLACES)]
    kind = zlib.crc32("\n".join([str(java.path), java.version, str(spark_home), *places]).encode())
    return cache_dir() / f"spark-classes-{kind:08x}.jsa"


def _adopt_written(archive: Path) -> None:
    """Give an archive that an earlier process wrote its name, and remove what is left of others."""
    for written in archive.parent.glob(f"{archive.name}.*"):
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            age_s = time.time() - written.stat().st_mtime
            if written.name.endswith(LACKING):
                if age_s > ABANDONED_S:
                    written.unlink()
            elif archive.exists() or (age_s > ABANDONED_S and not _has_header(written)):
                written.unlink()
            elif age_s > SETTLED_S and _has_header(written):
                if _mark_of(written).exists():
                    written.unlink()
                else:
                    written.rename(archive)


def _has_header(archive: Path) -> bool:
    """Whether Java has written all of an archive, and the disk has it."""
    with archive.open("rb") as file:
        if not file.read(HEADER_SIZE_BYTES).strip(b"\0"):
            return False
        os.fsync(file.fileno())
        return True
