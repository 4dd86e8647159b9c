"""Compiles a plug-in of Apache Kafka, which is one class of Java."""

from __future__ import annotations

import os
import subprocess
import tempfile
import zipfile
import zlib
from pathlib import Path

from kwire.conformance import java
from kwire.conformance.apache_kafka import ApacheKafkaError, cache_dir, libs

COMPILE_TIMEOUT_S = 120


def jar_of(class_name: str, source: str) -> Path:
    """Return the jar of a class, compiled once beside Apache Kafka's jars.

    Raises JavaMissing, ApacheKafkaError.
    """
    target = cache_dir() / f"{class_name}-{zlib.crc32(source.encode()):08x}.jar"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="plugin.new-") as folder:
            _compile(Path(folder), class_name, source)
            written = Path(folder, "plugin.jar")
            with zipfile.ZipFile(written, "w") as archive:
                for class_file in Path(folder).glob("*.class"):
                    archive.write(class_file, class_file.name)
            os.replace(written, target)
    return target


def _compile(folder: Path, class_name: str, source: str) -> None:
    """Compile the plug-in into `folder`; raise ApacheKafkaError if that fails.

    The compiler runs as a module of the Java runtime, so that no JDK command is needed.
    """
    path = folder / f"{class_name}.java"
    path.write_text(source)
    compiler = "jdk.compiler/com.sun.tools.javac.Main"
    jars = os.pathsep.join(str(jar) for jar in sorted(libs().glob("kafka-*.jar")))
    command = [
        str(java.executable()),
        *java.QUICK,
        "-m",
        compiler,
        "-cp",
        jars,
        "-d",
        str(folder),
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S)
    if done.returncode:
        raise ApacheKafkaError(f"the plug-in {class_name} cannot be compiled:\n{done.stderr}")
