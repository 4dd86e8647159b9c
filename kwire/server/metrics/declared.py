"""Every metric of a broker: the only statement of its name, type, unit, labels and meaning.

The names are those that Prometheus's JMX exporter gives for Apache Kafka, with the rules of its
example for KRaft: `kafka_<domain>_<type>_<name>`, in small letters.  Those that Apache Kafka lacks
begin with `kwire_`; lag and members of groups have the names of kafka_exporter.  `tools/derived.py`
writes docs/metrics.md from this list.
"""

from __future__ import annotations

from typing import Final

from kwire.server.metrics.declarations.cluster import CLUSTER
from kwire.server.metrics.declarations.coordinators import COORDINATORS
from kwire.server.metrics.declarations.network import NETWORK
from kwire.server.metrics.declarations.partitions import PARTITIONS
from kwire.server.metrics.declarations.process import PROCESS
from kwire.server.metrics.declarations.requests import REQUESTS
from kwire.server.metrics.metric import Metric

SECTIONS: Final[dict[str, tuple[Metric, ...]]] = {
    "Requests and records": REQUESTS,
    "Connections and quotas": NETWORK,
    "Partitions and replicas": PARTITIONS,
    "Cluster": CLUSTER,
    "Groups and transactions": COORDINATORS,
    "Process and disks": PROCESS,
}
"""The metrics by the sections of docs/metrics.md."""

METRICS: Final[dict[str, Metric]] = {
    each.name: each for section in SECTIONS.values() for each in section
}
"""The metrics by their names."""
