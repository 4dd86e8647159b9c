"""A report as one HTML file, which contains its style and plots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kwire.pipeline.audit.plots import plots
from kwire.pipeline.audit.report import SEVERITIES, Comparison, Finding, Report
from kwire.pipeline.audit.words import (
    duration_name,
    number_name,
    share_name,
    size_name,
    time_name,
)

TEMPLATES = Path(__file__).parent


def page(report: Report | Comparison) -> str:
    """The HTML of an audit or a comparison."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number_name,
        "size": size_name,
        "time": time_name,
        "duration": duration_name,
        "share": share_name,
    }
    name = "audit.html" if isinstance(report, Report) else "compare.html"
    return environment.get_template(name).render(
        report=report, plots=plots, counts=severity_counts(report.findings)
    )


def severity_counts(findings: Sequence[Finding]) -> list[tuple[str, int]]:
    """The number of findings of each severity, the worst first."""
    counts = Counter(finding.severity for finding in findings)
    return [(severity, counts[severity]) for severity in reversed(SEVERITIES) if counts[severity]]
