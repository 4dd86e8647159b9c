"""Tests Apache Kafka's jars, node and tools, which other tests use."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from kwire.conformance import apache_kafka as apache
from kwire.conformance import class_archive, java
from kwire.conformance.pytest_apache import ApacheKafkaNode
from kwire.testing import ZooKeeperProcess
from tests.polling import until

JavaClass = Callable[..., CompletedProcess[str]]


def test_session_node_answers_its_own_tools(
    apache_kafka: ApacheKafkaNode, java_class: JavaClass
) -> None:
    topics = "org.apache.kafka.tools.TopicCommand"
    server = ["--bootstrap-server", apache_kafka.bootstrap]
    created = java_class(topics, [*server, "--create", "--topic", "fixture-topic"])
    assert created.returncode == 0, created.stderr

    def is_listed() -> bool:
        """A busy broker learns of the topic a moment after its controller has created it."""
        listed = java_class(topics, [*server, "--list"])
        assert listed.stderr == ""
        return "fixture-topic" in listed.stdout.split()

    until(is_listed, "fixture-topic is not listed")


@pytest.mark.parametrize(
    ("version", "fixture"),
    [(apache.TOOLS_VERSION, "apache_kafka_tools"), (apache.ZOOKEEPER_VERSION, "zookeeper_libs")],
)
@pytest.mark.java
@pytest.mark.slow
def test_tool_maps_archived_classes_and_prints_only_its_result(
    version: str, fixture: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    archive = class_archive.path(request.getfixturevalue(fixture))
    with open(archive.with_suffix(".lock"), "w") as lock:
        apache.lock_exclusively(lock)  # another worker may be writing it
    assert archive.is_file()
    class_log = tmp_path / "classes"
    tool = "org.apache.kafka.tools.TopicCommand"
    java_command = apache.command(tool, ["--version"], version=version)
    java_command.insert(java_command.index("-cp"), f"-Xlog:class+load:file={class_log}")
    done = subprocess.run(java_command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.startswith(version)
    assert done.stderr == ""
    assert re.search(r"org\.apache\.kafka\.\S+ source: shared objects file", class_log.read_text())


@pytest.mark.parametrize("content", [b"", bytes(100_000)], ids=["empty", "zeros"])
def test_class_archive_that_does_not_fit_is_ignored(
    content: bytes, apache_kafka_tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.jsa"
    other.write_bytes(content)
    monkeypatch.setattr(class_archive, "path", lambda libs: other)
    command = apache.command("org.apache.kafka.tools.TopicCommand", ["--version"])
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(apache.TOOLS_VERSION)


@pytest.mark.parametrize(
    ("version", "release"), [("17.0.15", 17), ("1.8.0_392", 8), ("21", 21), ("25-ea", 25)]
)
def test_release_is_read_from_a_java_version(version: str, release: int) -> None:
    assert java.release_of(version) == release


@pytest.mark.parametrize(
    ("modules", "error"),
    [("java.base@17", java.JavaMissing), (f"{java.COMPILER}@17", java.CompilationFailed)],
)
def test_program_that_is_not_compiled_is_wrong_unless_java_has_no_compiler(
    modules: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "java"
    listing = f'[ "$1" = --list-modules ] && exec echo {modules}'
    program.write_text(f"#!/bin/sh\n{listing}\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(java, "executable", lambda: program)
    with pytest.raises(error):
        java.compiled(tmp_path / "Program.java", tmp_path, tmp_path)


def test_missing_maven_is_reported_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(apache.LIBS_VARIABLE, raising=False)
    monkeypatch.setattr(java, "executable", lambda: Path("java"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(java.JavaMissing, match=r"no mvn on PATH.*KWIRE_APACHE_KAFKA_LIBS"):
        apache.libs()


def test_failed_download_leaves_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho no such artifact\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(apache.LIBS_VARIABLE, raising=False)
    monkeypatch.setattr(java, "executable", lambda: Path("java"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(apache.ApacheKafkaError, match="no such artifact"):
        apache.libs()
    left = [path.name for path in (tmp_path / "cache/kwire/apache-kafka").iterdir()]
    assert left == [f"{apache.VERSION}.lock"]


@pytest.mark.long  # can only change with the jars
def test_brokers_on_zookeeper_form_a_cluster(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path: Path, unique: str
) -> None:
    connect = zookeeper.connect(f"/{unique}")
    with (
        apache.ZooKeeperBroker(tmp_path / "1", connect, 1) as first,
        apache.ZooKeeperBroker(tmp_path / "2", connect, 2) as second,
    ):
        server = ["--bootstrap-server", f"{first.bootstrap},{second.bootstrap}"]
        arguments = ["--create", "--topic", "t", "--replica-assignment", "1:2,2:1"]
        topics = "org.apache.kafka.tools.TopicCommand"
        version = apache.ZOOKEEPER_VERSION
        created = apache.run(topics, [*server, *arguments], version=version)
        assert created.returncode == 0, created.stdout + created.stderr
        second.stop()
        second.start()
        described = apache.run(topics, [*server, "--describe"], version=version)
        assert described.stdout.count("Replicas:") == 2, described.stdout + described.stderr
