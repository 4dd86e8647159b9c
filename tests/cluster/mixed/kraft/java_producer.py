"""Apache Kafka's producer program, which writes numbers until it is stopped."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kwire.conformance import apache_kafka
from tests.cluster.mixed.watched import WatchedCluster

PROGRAM = "org.apache.kafka.tools.VerifiableProducer"
THROUGHPUT = 200
"""Records per second."""
TIMEOUT_S = 600
RETRYING = "retries=2147483647\ndelivery.timeout.ms=600000\n"
"""The program by itself never sends again."""
LOG = logging.getLogger(__name__)


@contextmanager
def java_loaded(cluster: WatchedCluster, topic: str, folder: Path) -> Iterator[list[str]]:
    """Run Apache Kafka's VerifiableProducer with acks=all during the block.

    `folder` gets its settings.  The yielded list has all acknowledged values after the block.  Its
    producer is idempotent, and each record must be acknowledged.
    """
    acknowledged: list[str] = []
    arguments = ["--bootstrap-server", cluster.bootstrap, "--topic", topic, "--acks", "-1"]
    settings = folder / "java-producer.properties"
    settings.write_text(RETRYING)
    arguments += ["--throughput", str(THROUGHPUT), "--command-config", str(settings)]
    process = subprocess.Popen(
        apache_kafka.command(PROGRAM, arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield acknowledged
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.communicate()
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    failed = [event for event in events if event["name"] == "producer_send_error"]
    assert failed == [], failed[:3]
    acknowledged += [event["value"] for event in events if event["name"] == "producer_send_success"]
    LOG.info("%s: %d acknowledged by Java", topic, len(acknowledged))
