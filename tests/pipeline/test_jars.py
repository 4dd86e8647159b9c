"""Resolved jars are used again as long as they are unchanged."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from pyspark import SparkContext

from kwire.pipeline import jars
from kwire.pipeline.java import LATE_OPTIMIZING, Java
from kwire.pipeline.session import (
    CLASS_PATH,
    FEW_RECORDS,
    JARS,
    JAVA_OPTIONS,
    JAVA_VARIABLES,
    ONE_COMPILER,
    OWN_JAVA_OPTIONS,
    PACKAGES,
    _found_again,
    _starting_sooner,
)

COORDINATES = ["org.apache.spark:a_2.13:4.2.0", "org.example:b:1"]


@pytest.fixture
def resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The two jars of COORDINATES."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = [tmp_path / "a.jar", tmp_path / "b.jar"]
    for path in found:
        path.write_bytes(b"a jar")
    assert jars.known(COORDINATES) is None
    jars.note(COORDINATES, ",".join(f"file://{path}" for path in found))
    return found


def test_noted_jars_are_found_by_packages_in_any_order(resolved: list[Path]) -> None:
    assert jars.known(reversed(COORDINATES)) == [str(path) for path in resolved]
    assert jars.known(COORDINATES[:1]) is None


def test_missing_or_cut_jar_is_resolved_again(resolved: list[Path]) -> None:
    resolved[0].write_bytes(b"a j")
    assert jars.known(COORDINATES) is None
    resolved[0].unlink()
    assert jars.known(COORDINATES) is None


def test_empty_resolution_is_not_noted(resolved: list[Path]) -> None:
    jars.note(COORDINATES[:1], "")
    assert jars.known(COORDINATES[:1]) is None


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark without jars, for a process that has not started Java."""
    home = tmp_path / "spark"
    (home / "conf").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(home))
    for name in ("SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT", *JAVA_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    return home


def test_local_session_has_noted_jars_on_its_class_path(
    resolved: list[Path], spark_home: Path
) -> None:
    wanted = {PACKAGES: ",".join(COORDINATES), "spark.x": "1"}
    found = {CLASS_PATH: os.pathsep.join(map(str, resolved)), "spark.x": "1"}
    assert _found_again(wanted, "local") == found
    assert _found_again(wanted, "local[2]") == found


def test_session_resolves_again_with_other_jar_settings(
    resolved: list[Path], spark_home: Path
) -> None:
    for setting in ("spark.jars.ivy", "spark.jars.excludes", JARS):
        wanted = {PACKAGES: ",".join(COORDINATES), setting: "y"}
        assert _found_again(wanted, "local[2]") == wanted


def test_spark_passes_noted_jars_on_if_executors_are_other_processes(
    resolved: list[Path], spark_home: Path
) -> None:
    wanted = {PACKAGES: ",".join(COORDINATES)}
    assert _found_again(wanted, "local-cluster[2,1,1024]") == {JARS: ",".join(map(str, resolved))}


def test_spark_passes_noted_jars_on_if_the_user_has_a_class_path(
    resolved: list[Path], spark_home: Path
) -> None:
    wanted, noted = {PACKAGES: ",".join(COORDINATES)}, {JARS: ",".join(map(str, resolved))}
    own = {CLASS_PATH: "/opt/mine.jar"}
    assert _found_again(wanted | own, "local[2]") == noted | own
    (spark_home / "conf" / "spark-defaults.conf").write_text(f"{CLASS_PATH} /opt/mine.jar\n")
    assert _found_again(wanted, "local[2]") == noted


def test_spark_passes_noted_jars_on_if_java_runs_already(
    resolved: list[Path], spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    noted = {JARS: ",".join(map(str, resolved))}
    assert _found_again({PACKAGES: ",".join(COORDINATES)}, "local[2]") == noted


@pytest.mark.parametrize(
    ("settings", "writes"),
    [
        ({PACKAGES: "a:b:1"}, False),  # the next session has another class path
        ({PACKAGES: "a:b:1", "spark.jars.ivy": "/ivy"}, True),
        ({CLASS_PATH: "a.jar"}, True),
        ({JARS: "a.jar"}, True),
    ],
)
def test_session_writes_an_archive_of_classes_if_later_ones_have_its_class_path(
    spark_home: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], writes: bool
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(spark_home / "cache"))
    options = _starting_sooner(settings, Java(Path("/usr/bin/java"), 17, "17"))[JAVA_OPTIONS]
    assert ("ArchiveClassesAtExit" in options) is writes


@pytest.mark.parametrize(
    ("records", "settings", "one"),
    [
        (FEW_RECORDS, {}, True),
        (FEW_RECORDS + 1, {}, False),
        (None, {}, False),
        (1, {OWN_JAVA_OPTIONS: "-Xmx2g"}, False),
    ],
)
def test_java_has_one_compiler_for_few_records_unless_the_user_has_java_options(
    spark_home: Path, records: int | None, settings: dict[str, str], one: bool
) -> None:
    found = Java(Path("/usr/bin/java"), 8, "8", LATE_OPTIMIZING)
    options = _starting_sooner(settings, found, records)[JAVA_OPTIONS]
    assert (ONE_COMPILER in options) is one
    assert (LATE_OPTIMIZING[0] in options) is not one


def test_java_options_in_the_environment_or_in_sparks_defaults_are_the_users(
    spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Java(Path("/usr/bin/java"), 8, "8")
    assert ONE_COMPILER in _starting_sooner({}, found, 1)[JAVA_OPTIONS]
    with monkeypatch.context() as patched:
        patched.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=4")
        assert ONE_COMPILER not in _starting_sooner({}, found, 1)[JAVA_OPTIONS]
    (spark_home / "conf" / "spark-defaults.conf").write_text(f"{OWN_JAVA_OPTIONS} -Xint\n")
    assert ONE_COMPILER not in _starting_sooner({}, found, 1)[JAVA_OPTIONS]


def test_jars_that_spark_has_itself_are_left_out_in_any_version(tmp_path: Path) -> None:
    for name in ("scala-library-2.13.16.jar", "guava-33.4.0-jre.jar", "kafka-api-1.jar"):
        (tmp_path / name).touch()
    ours = [
        "/ivy/org.apache.spark_spark-sql-kafka-0-10_2.13-4.2.0.jar",
        "/ivy/org.apache.kafka_kafka-clients-3.9.2.jar",
    ]
    theirs = [
        "/ivy/org.scala-lang_scala-library-2.13.17.jar",
        "/ivy/com.google.guava_guava-32.0.0-jre.jar",
    ]
    assert jars.beside([*ours, *theirs], tmp_path) == ours


def test_one_process_at_a_time_resolves_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with jars.resolving():
        [lock] = tmp_path.glob("cache/kwire/*.lock")
        with lock.open("w") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with lock.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_resolution_does_not_wait_without_a_cache_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with jars.resolving(), jars.resolving():
        pass
