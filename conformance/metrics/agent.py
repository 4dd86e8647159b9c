"""Prometheus's JMX exporter, with which Apache Kafka gives its metrics over HTTP.

It is a Java agent from Maven Central.  `jmx-exporter.yaml` has its rules, which turn the names of
MBeans into names of metrics.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from kwire.conformance import java
from kwire.conformance.apache_kafka import (
    DEPENDENCY_PLUGIN,
    MAVEN_TIMEOUT_S,
    ApacheKafkaError,
    cache_dir,
)

VERSION: Final = "1.0.1"
NAME: Final = "jmx_prometheus_javaagent"
RULES: Final = Path(__file__).with_name("jmx-exporter.yaml")


def jar() -> Path:
    """Return the agent's jar, downloaded once.  Raises JavaMissing, ApacheKafkaError."""
    target = cache_dir() / f"{NAME}-{VERSION}.jar"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # only one process downloads
            if not target.is_file():
                _download(target)
    return target


def _download(target: Path) -> None:
    """Download the jar to a folder beside `target`, and rename it to `target`."""
    maven = shutil.which("mvn")
    if maven is None:
        raise java.JavaMissing(f"no mvn on PATH: Maven downloads {NAME} {VERSION}")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="agent.new-") as folder:
        command = [
            maven,
            "-q",
            "-B",
            f"{DEPENDENCY_PLUGIN}:copy",
            f"-Dartifact=io.prometheus.jmx:{NAME}:{VERSION}",
            f"-DoutputDirectory={folder}",
        ]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S
        )
        if done.returncode:
            output = (done.stdout + done.stderr)[-2000:]
            raise ApacheKafkaError(f"mvn could not download {NAME} {VERSION}:\n{output}")
        Path(folder, f"{NAME}-{VERSION}.jar").rename(target)


def option(port: int) -> str:
    """Return the option with which a Java machine gives its metrics on that port."""
    return f"-javaagent:{jar()}={port}:{RULES}"
