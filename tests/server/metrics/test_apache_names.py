"""Each metric of Apache Kafka 4.4 is declared, or listed as absent with a reason.

apache_4_4.txt has the names that Prometheus's JMX exporter gives, with the rules of its example for
KRaft, for one node and for three under a mixed load.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from kwire.server.metrics.declarations.absent import ABSENT
from kwire.server.metrics.declared import METRICS
from kwire.server.metrics.metric import Kind

NAMES = Path(__file__).with_name("apache_4_4.txt").read_text().split()


def is_declared(name: str) -> bool:
    summary = METRICS.get(name.removesuffix("_count"))
    return name in METRICS or (summary is not None and summary.kind is Kind.SUMMARY)


def test_each_name_is_declared_or_absent_with_a_reason() -> None:
    patterns = [pattern for each in ABSENT.values() for pattern in each]
    missing = [name for name in NAMES if not is_declared(name)]
    assert [each for each in missing if not any(fnmatchcase(each, p) for p in patterns)] == []
    assert len(NAMES) == 600


def test_each_pattern_matches_a_name_that_is_not_declared() -> None:
    missing = [name for name in NAMES if not is_declared(name)]
    for patterns in ABSENT.values():
        for pattern in patterns:
            assert any(fnmatchcase(name, pattern) for name in missing), pattern


def test_each_metric_of_a_kafka_mbean_has_a_name_of_apache_kafka() -> None:
    """Quotas are missing in the list: the load had none."""
    names = {*NAMES, *(name.removesuffix("_count") for name in NAMES)}
    of_kafka = {name for name, metric in METRICS.items() if metric.source.startswith("kafka.")}
    unknown = {name for name in of_kafka - names if not name.startswith("kafka_server_quota_")}
    assert unknown == set()
