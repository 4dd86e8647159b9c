"""The Java class data archive of Spark's classes: who writes it, and who uses it."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from kwire.pipeline import class_data, java
from kwire.pipeline.class_data import java_options
from kwire.pipeline.java import Java

SPARK_HOME = Path("/opt/spark")
JAVA = Java(Path("/usr/bin/java"), 17, 'openjdk version "17.0.1"')


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kwire"


def options_of_a_job() -> tuple[str, ...]:
    """The options of a job that ends well; each would be a process of its own."""
    options = java_options(JAVA, SPARK_HOME)
    class_data.job_ended_well()
    return options


def written_by(options: tuple[str, ...]) -> Path:
    """The file that the options let Java write."""
    (option,) = (each for each in options if each.startswith("-XX:ArchiveClassesAtExit="))
    return Path(option.partition("=")[2])


def used_by(options: tuple[str, ...]) -> Path | None:
    """The archive that the options let Java use."""
    found = [each for each in options if each.startswith("-XX:SharedArchiveFile=")]
    return Path(found[0].partition("=")[2]) if found else None


def write(path: Path, data: bytes, age_s: float) -> None:
    path.write_bytes(data)
    then = time.time() - age_s
    os.utime(path, (then, then))


def test_archive_of_an_earlier_process_is_used_once_it_is_complete(cache: Path) -> None:
    first = options_of_a_job()
    written = written_by(first)
    assert written.parent == cache
    write(written, b"\0" * 4096, age_s=60)
    assert used_by(options_of_a_job()) is None, "Java writes the header last"
    write(written, b"\xa8\xab\x0b\xf0" + b"\0" * 4092, age_s=0)
    assert used_by(options_of_a_job()) is None, "Java may still write"
    write(written, b"\xa8\xab\x0b\xf0" + b"\0" * 4092, age_s=2)
    archive = used_by(options_of_a_job())
    assert archive is not None
    assert list(cache.iterdir()) == [archive]


def test_archive_of_a_job_that_did_not_end_well_is_removed(cache: Path) -> None:
    """It lacks the classes that the job did not come to."""
    written = written_by(java_options(JAVA, SPARK_HOME))
    (mark,) = cache.iterdir()
    write(written, b"archive", age_s=2)
    assert used_by(java_options(JAVA, SPARK_HOME)) is None
    assert list(cache.iterdir()) == [mark]
    write(mark, b"", age_s=2 * class_data.ABANDONED_S)
    assert used_by(options_of_a_job()) is None
    assert list(cache.iterdir()) == []


def test_what_other_processes_left_is_removed(cache: Path) -> None:
    written = written_by(options_of_a_job())
    killed = written.with_name(f"{written.stem}.jsa.1")
    write(killed, b"\0" * 4096, age_s=2 * class_data.ABANDONED_S)
    options_of_a_job()
    assert not killed.exists()
    write(written, b"archive", age_s=2)
    archive = used_by(options_of_a_job())
    write(killed, b"archive", age_s=2)
    assert used_by(options_of_a_job()) == archive
    assert list(cache.iterdir()) == [archive]


@pytest.mark.parametrize(
    ("other", "home", "place"),
    [
        (JAVA._replace(version='openjdk version "17.0.2"'), SPARK_HOME, ""),
        (JAVA._replace(path=Path("/opt/java")), SPARK_HOME, ""),
        (JAVA, Path("/opt/spark-4"), ""),
        (JAVA, SPARK_HOME, "/etc/hadoop"),
    ],
)
def test_each_java_and_each_class_path_has_its_own_archive(
    monkeypatch: pytest.MonkeyPatch, other: Java, home: Path, place: str
) -> None:
    mine = written_by(java_options(JAVA, SPARK_HOME))
    assert written_by(java_options(JAVA, SPARK_HOME, "/opt/kafka.jar")) != mine
    monkeypatch.setenv("HADOOP_CONF_DIR", place)
    assert written_by(java_options(other, home)) != mine


def test_no_archive_where_java_or_the_folder_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert java_options(JAVA._replace(release=11), SPARK_HOME) == ()
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert java_options(JAVA, SPARK_HOME) == ()


@pytest.mark.java
def test_java_writes_an_archive_that_its_next_process_uses(cache: Path) -> None:
    found = java.require("4.2.0")
    assert found.options == java.LATE_OPTIMIZING
    for _ in range(2):
        options = (*found.options, *java_options(found, SPARK_HOME))
        command = [str(found.path), *options, "-Xshare:auto", "-version"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        class_data.job_ended_well()
        assert done.stdout == "", "a job's result is read there"
        for each in cache.iterdir():
            write(each, each.read_bytes(), age_s=2)
    archive = used_by(java_options(found, SPARK_HOME))
    assert archive is not None
    assert archive.stat().st_size > 4096


def test_java_that_refuses_the_options_starts_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\ncase "$*" in *Tier4*) echo "Unrecognized VM option" >&2; exit 1;; esac\n'
        "echo 'openjdk version \"21.0.1\"' >&2\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.require("4.2.0") == Java(program, 21, 'openjdk version "21.0.1"\n')
