"""Audits: reports the content of topics and its faults; compares two topics record by record.

    report = audit.audit(spark, Kafka("localhost:9092"), audit.Audit(Topics(("orders",))))
    print(report.findings)
    Path("orders.html").write_text(audit.page(report))

The topics are read once, in parallel, and Spark computes the figures.  The amount of data that
reaches the driver does not grow with the topics.  `examine` and `differences` return the records
behind the figures as DataFrames.

Modules, from the bottom up: `audit_settings`, `cluster`, `columns`, `scan` (one row per record),
`figures` and `repeats` (figures that Spark computes), `batches` (figures of the log's batches),
`report`, `judging` (findings), `auditing`; `differences`, `comparing`; `plots` and `page` (HTML).
"""

from __future__ import annotations

from kwire.pipeline.audit.audit_settings import Audit, Compare, Field, Side, Thresholds
from kwire.pipeline.audit.auditing import audit, examine
from kwire.pipeline.audit.comparing import compare, differences
from kwire.pipeline.audit.page import page
from kwire.pipeline.audit.report import (
    SEVERITIES,
    AuditDifference,
    Batches,
    Codec,
    Comparison,
    Duplicates,
    Example,
    Finding,
    Gap,
    Keys,
    PartitionDifferences,
    PartitionFigures,
    Report,
    TopicReport,
)

__all__ = [
    "SEVERITIES",
    "Audit",
    "AuditDifference",
    "Batches",
    "Codec",
    "Compare",
    "Comparison",
    "Duplicates",
    "Example",
    "Field",
    "Finding",
    "Gap",
    "Keys",
    "PartitionDifferences",
    "PartitionFigures",
    "Report",
    "Side",
    "Thresholds",
    "TopicReport",
    "audit",
    "compare",
    "differences",
    "examine",
    "page",
]
