"""`kwire pipeline audit`: reports the contents of topics, and problems in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kwire.cli.grammar.bounds import COUNT, RATIO_MAX, SAMPLE_COUNT, SHARE, Finite
from kwire.cli.grammar.statuses import checks
from kwire.cli.pipeline.findings import (
    duration_ms,
    finish,
    print_findings,
    report_options,
    stages,
)
from kwire.cli.pipeline.job import SparkJob, job, topics_options
from kwire.cli.text.output import print_table
from kwire.cli.values import instant

if TYPE_CHECKING:
    from kwire.pipeline import Topics
    from kwire.pipeline.audit import Field, Report


def field(text: str) -> Field:
    """The type of an option: `header:NAME` or `json:$.path`."""
    from kwire.pipeline import PipelineError
    from kwire.pipeline.audit import Field

    try:
        return Field.parse(text)
    except PipelineError as error:
        raise click.BadParameter(str(error)) from error


@click.command("audit")
@topics_options
@click.option(
    "--since", "since_ms", type=instant, metavar="TIME", help="Only records at or after TIME."
)
@click.option("--until", "until_ms", type=instant, metavar="TIME", help="Only records before TIME.")
@click.option(
    "--identity", type=field, metavar="FIELD", help="Report records with the same value of FIELD."
)
@click.option(
    "--sequence", type=field, metavar="FIELD",
    help="Report where FIELD does not rise by one within a partition.",
)  # fmt: skip
@click.option(
    "--sequence-by-key", is_flag=True, help="With --sequence: within a key, not a partition."
)
@click.option("--unique-keys", is_flag=True, help="Report keys that occur twice.")
@click.option(
    "--batches", type=click.Choice(["sample", "all", "none"]), default="sample", show_default=True,
    help="How much of the log to fetch to check codecs, CRCs, and gaps of offsets.",
)  # fmt: skip
@click.option(
    "--samples", type=SAMPLE_COUNT, default=64, show_default=True, metavar="N",
    help="With --batches sample: number of fetches of 256 kB, and of gaps, for each topic.",
)  # fmt: skip
@click.option(
    "--back", "back_ms", type=duration_ms, default="2m", show_default=True, metavar="TIME",
    help="Report a timestamp so much earlier than the one before (delivery.timeout.ms).",
)  # fmt: skip
@click.option(
    "--future", "future_ms", type=duration_ms, default="1h", show_default=True, metavar="TIME",
    help="Report a timestamp so far in the future (message.timestamp.after.max.ms).",
)  # fmt: skip
@click.option(
    "--apart", "apart_ms", type=duration_ms, default="1d", show_default=True, metavar="TIME",
    help="Report a timestamp so far from both neighbours.",
)  # fmt: skip
@click.option(
    "--skew", "partition_share", type=Finite(1, RATIO_MAX), default=2.0, show_default=True,
    metavar="FACTOR", help="Report a partition with more than FACTOR times the mean records.",
)  # fmt: skip
@click.option(
    "--key-share", type=SHARE, default=0.25, show_default=True, metavar="SHARE",
    help="Report a key with this share of the records beyond an even share of all keys, which"
    " limits the number of useful consumers.",
)  # fmt: skip
@click.option(
    "--few", type=COUNT, default=1000, show_default=True, metavar="N",
    help="Do not report skew of fewer records.",
)  # fmt: skip
@click.option(
    "--size-share", type=Finite(0, RATIO_MAX), default=0.9, show_default=True, metavar="SHARE",
    help="Report a record larger than this share of max.message.bytes.",
)  # fmt: skip
@report_options("warning")
@checks
@job("audit", has_steps=False)
def command(
    job: SparkJob,
    topics: Topics,
    html: Path | None,
    fail_on: str,
    **asked: Any,  # noqa: ANN401 - options
) -> None:
    """Report the contents of topics, and problems in them.

    The report has counts, gaps, duplicates, disorder, odd timestamps, keys and skew, sizes, codecs
    and tombstones.  Topics are read once, in parallel.  FIELD is header:NAME, or json:$.path of the
    value.

    \b
      kwire pipeline audit orders payments --html audit.html
      kwire pipeline audit orders --identity json:$.id --json > audit.json

    A finding is an error (records are lost or duplicated), a warning (probably not intended) or an
    info.  Exits with 0 without a finding that --fail-on names, 1 with one, and 2 if the command
    line is wrong or the audit failed.  Gaps are looked up in the log itself; gaps due to
    transaction markers or compaction are no findings.
    """
    from kwire.pipeline.audit import Audit, Thresholds, audit

    limits = {name: asked.pop(name) for name in Thresholds.__dataclass_fields__}
    wanted = Audit(topics, thresholds=Thresholds(**limits), **asked)
    with job.session((job.kafka, topics)) as spark, stages(job) as told:
        report = audit(spark, job.kafka, wanted, told)
    if not job.as_json:
        _print(report)
    finish(job, report, html, fail_on)


def _print(report: Report) -> None:
    """Prints a table with a row for each topic, and the findings."""
    from kwire.pipeline.audit.words import size_name

    rows = [
        (
            topic.name,
            len(topic.partitions),
            topic.records,
            size_name(topic.sum("size_bytes")),
            topic.keys.distinct,
            topic.sum("missing"),
            topic.duplicates.extra,
            topic.sum("back"),
            topic.sum("tombstones"),
            ", ".join(codec.name for codec in topic.batches.codecs) or None,
        )
        for topic in report.topics
    ]
    columns = "topic partitions records bytes keys missing double earlier tombstones codecs"
    print_table(columns.split(), rows)
    print_findings(report.findings)
