"""Audit: what is in topics, and what is wrong with it; and two topics record by record.

    report = audit.audit(spark, Kafka("localhost:9092"), audit.Audit(Topics(("orders",))))
    print(report.findings)
    Path("orders.html").write_text(audit.page(report))

The topics are read once, in parallel, and Spark computes the figures; what reaches the driver does
not grow with the topics.  `examine` and `differences` give the records behind the figures, as
DataFrames.  The parts, bottom up: `audit_settings`, `cluster`, `columns`, `scan` (a row for each
record), `figures` and `repeats` (what Spark computes), `batches` (the log itself), `report`,
`judging` (findings), `auditing`; `differences`, `comparing`; `plots` and `page` (HTML).
"""

from __future__ import annotations

from kwire.pipeline.audit.audit_settings import Audit, Compare, Field, Side, Thresholds
from kwire.pipeline.audit.auditing import audit, examine
from kwire.pipeline.audit.comparing import compare, differences
from kwire.pipeline.audit.page import page
from kwire.pipeline.audit.report import (
    SEVERITIES,
    Batches,
    Codec,
    Comparison,
    Difference,
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
    "Batches",
    "Codec",
    "Compare",
    "Comparison",
    "Difference",
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
