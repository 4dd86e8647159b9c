"""A plug-in that makes Apache Kafka serve client telemetry (KIP-714).

Its brokers list GetTelemetrySubscriptions and PushTelemetry only if a class of `metric.reporters`
receives the clients' metrics. This one accepts and discards them, so that clients see only Apache
Kafka's own behaviour.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import zipfile
import zlib
from pathlib import Path

from kwire.conformance import java
from kwire.conformance.apache_kafka import ApacheKafkaError, cache_dir, libs

CLASS = "TelemetryReceiver"
SETTINGS = {"metric.reporters": CLASS}
"""Settings of a node that has `jar()` among its plug-ins."""

COMPILE_TIMEOUT_S = 120
SOURCE = """
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

public class TelemetryReceiver implements MetricsReporter, ClientTelemetry {
    public ClientTelemetryReceiver clientReceiver() { return (context, payload) -> payload.data(); }
    public void configure(Map<String, ?> configs) {}
    public void init(List<KafkaMetric> metrics) {}
    public void metricChange(KafkaMetric metric) {}
    public void metricRemoval(KafkaMetric metric) {}
    public void close() {}
}
"""


def jar() -> Path:
    """Return the plug-in, compiled once beside Apache Kafka's jars.

    Raises JavaMissing, ApacheKafkaError.
    """
    target = cache_dir() / f"telemetry-receiver-{zlib.crc32(SOURCE.encode()):08x}.jar"
    if not target.is_file():
        with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="receiver.new-") as folder:
            _compile(Path(folder))
            written = Path(folder, "plugin.jar")
            with zipfile.ZipFile(written, "w") as archive:
                for class_file in Path(folder).glob("*.class"):
                    archive.write(class_file, class_file.name)
            os.replace(written, target)
    return target


def _compile(folder: Path) -> None:
    """Compile the plug-in into `folder`; raise ApacheKafkaError if that fails.

    The compiler runs as a module of the Java runtime, so that no JDK command is needed.
    """
    source = folder / f"{CLASS}.java"
    source.write_text(SOURCE)
    compiler = "jdk.compiler/com.sun.tools.javac.Main"
    jars = os.pathsep.join(str(jar) for jar in sorted(libs().glob("kafka-clients-*.jar")))
    command = [str(java.executable()), "-m", compiler, "-cp", jars, "-d", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S)
    if done.returncode:
        raise ApacheKafkaError(f"the telemetry plug-in cannot be compiled:\n{done.stderr}")
