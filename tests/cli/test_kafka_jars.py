"""Where `kwire cluster up --kraft` looks for Apache Kafka, and what it says if there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.cli.cluster.kafka_jars import KafkaMissing, find_kafka
from kwire.conformance import apache_kafka, class_archive, java


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Java 17 and nothing else: no installed Kafka, no cache, no Maven."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.15\"' >&2\n")
    program.chmod(0o755)
    java.executable.cache_clear()
    monkeypatch.setattr(class_archive, "options", lambda libs: ())
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("JAVA_HOME", "KAFKA_HOME", apache_kafka.LIBS_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    yield
    java.executable.cache_clear()


def libs(folder: Path, version: str = "4.4.0") -> Path:
    """A folder of jars as a Kafka of that version has it."""
    folder.mkdir(parents=True)
    for name in ("kafka-clients", "kafka_2.13"):
        (folder / f"{name}-{version}.jar").touch()
    return folder


def test_folder_that_the_user_names_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(libs(tmp_path / "home" / "libs").parent))
    named = libs(tmp_path / "named", "4.0.1")
    program = find_kafka(str(named))
    assert (program.libs, program.java) == (named, tmp_path / "bin" / "java")


def test_kafka_of_the_home_variable_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = libs(tmp_path / "home" / "libs")
    monkeypatch.setenv("KAFKA_HOME", str(found.parent))
    assert find_kafka(None).libs == found


def test_kafka_whose_scripts_are_on_path_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = libs(tmp_path / "kafka" / "libs")
    script = tmp_path / "kafka" / "bin" / "kafka-server-start.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    (tmp_path / "bin" / script.name).symlink_to(script)
    assert find_kafka(None).libs == found


def test_downloaded_jars_are_used_if_no_kafka_is_installed(tmp_path: Path) -> None:
    found = libs(tmp_path / "cache" / "kwire" / "apache-kafka" / apache_kafka.VERSION)
    assert find_kafka(None).libs == found


def test_without_kafka_and_maven_the_error_names_both_ways(tmp_path: Path) -> None:
    with pytest.raises(KafkaMissing, match=r"no mvn on PATH: .* or name `libs` .* --kafka-jars"):
        find_kafka(None)


def test_folder_without_the_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KafkaMissing, match=r"there is no kafka_2\.13-\*\.jar in"):
        find_kafka(str(tmp_path))


def test_kafka_with_zookeeper_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KafkaMissing, match=r"has Apache Kafka 3\.9: 4\.0 or newer is needed"):
        find_kafka(str(libs(tmp_path / "old", "3.9.2")))


def test_machine_without_java_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KafkaMissing, match="controllers need Java: no java in PATH: Java 17 or"):
        find_kafka(str(libs(tmp_path / "named")))
