"""The plug-in without which Apache Kafka serves no client telemetry (KIP-714).

Its brokers only list GetTelemetrySubscriptions and PushTelemetry where one of `metric.reporters`
receives what clients push. This one takes everything and keeps nothing, so that what a client can
see is Apache Kafka's own.
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
"""Of a node that has `jar()` among its plug-ins."""

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
    """Compiled once, beside Apache Kafka's own jars. Raises JavaMissing, ApacheKafkaError."""
    target = cache_dir() / f"telemetry-receiver-{zlib.crc32(SOURCE.encode()):08x}.jar"
    if not target.is_file():
        with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="receiver.new-") as folder:
            _compile(Path(folder))
            written = Path(folder, "plugin.jar")
            with zipfile.ZipFile(written, "w") as archive:
                for found in Path(folder).glob("*.class"):
                    archive.write(found, found.name)
            os.replace(written, target)
    return target


def _compile(folder: Path) -> None:
    source = folder / f"{CLASS}.java"
    source.write_text(SOURCE)
    compiler = "jdk.compiler/com.sun.tools.javac.Main"
    jars = os.pathsep.join(str(each) for each in sorted(libs().glob("kafka-clients-*.jar")))
    command = [str(java.executable()), "-m", compiler, "-cp", jars, "-d", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S)
    if done.returncode:
        raise ApacheKafkaError(f"the telemetry plug-in cannot be compiled:\n{done.stderr}")
