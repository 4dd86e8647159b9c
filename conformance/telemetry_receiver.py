"""A plug-in that makes Apache Kafka serve client telemetry (KIP-714).

Its brokers list GetTelemetrySubscriptions and PushTelemetry only if a class of `metric.reporters`
receives the clients' metrics. This one accepts and discards them, so that clients see only Apache
Kafka's own behaviour.
"""

from __future__ import annotations

from pathlib import Path

from kwire.conformance.java_plugin import jar_of

CLASS = "TelemetryReceiver"
SETTINGS = {"metric.reporters": CLASS}
"""Settings of a node that has `jar()` among its plug-ins."""

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
    """Return the plug-in, compiled once.  Raises JavaMissing, ApacheKafkaError."""
    return jar_of(CLASS, SOURCE)
