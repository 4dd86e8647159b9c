"""`kwire pipeline audit`: what is in topics, and what is wrong with it."""

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
from kwire.cli.pipeline.job import Job, job, topics_options
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
@click.option("--since", "since_ms", type=instant, metavar="TIME", help="Only from this time on.")
@click.option("--until", "until_ms", type=instant, metavar="TIME", help="Only before this time.")
@click.option("--identity", type=field, metavar="FIELD", help="It is to be other in each record.")
@click.option("--sequence", type=field, metavar="FIELD", help="It is to rise by one ...")
@click.option("--sequence-by-key", is_flag=True, help="... in each key, not in each partition.")
@click.option("--unique-keys", is_flag=True, help="A key that occurs twice is a finding.")
@click.option(
    "--batches", type=click.Choice(["sample", "all", "none"]), default="sample", show_default=True,
    help="How much of the log to fetch for codecs, CRCs, and what is in gaps of offsets.",
)  # fmt: skip
@click.option(
    "--samples", type=SAMPLE_COUNT, default=64, show_default=True, metavar="N",
    help="Of a sample: fetches of 256 kB, and gaps looked into, of each topic.",
)  # fmt: skip
@click.option(
    "--back", "back_ms", type=duration_ms, default="2m", show_default=True, metavar="TIME",
    help="A record may be so much earlier than the one before: delivery.timeout.ms.",
)  # fmt: skip
@click.option(
    "--future", "future_ms", type=duration_ms, default="1h", show_default=True, metavar="TIME",
    help="A record may be so far in the future: message.timestamp.after.max.ms of Kafka 4.",
)  # fmt: skip
@click.option(
    "--apart", "apart_ms", type=duration_ms, default="1d", show_default=True, metavar="TIME",
    help="A record may be so far from both neighbours: clocks and retries differ by less.",
)  # fmt: skip
@click.option(
    "--skew", "partition_share", type=Finite(1, RATIO_MAX), default=2.0, show_default=True,
    metavar="FACTOR", help="The largest partition may have so many times the mean of them.",
)  # fmt: skip
@click.option(
    "--key-share", type=SHARE, default=0.25, show_default=True, metavar="SHARE",
    help="One key may have this share of the records beyond an even share of all keys: more"
    " consumers do not help with it.",
)  # fmt: skip
@click.option(
    "--few", type=COUNT, default=1000, show_default=True, metavar="N",
    help="Shares of fewer records say nothing.",
)  # fmt: skip
@click.option(
    "--size-share", type=Finite(0, RATIO_MAX), default=0.9, show_default=True, metavar="SHARE",
    help="A record may have this share of max.message.bytes: a bit more, and it is refused.",
)  # fmt: skip
@report_options("warning")
@checks
@job("audit", has_steps=False)
def command(
    job: Job,
    topics: Topics,
    html: Path | None,
    fail_on: str,
    **asked: Any,  # noqa: ANN401 - options
) -> None:
    """Report what is in topics, and what is wrong with it.

    Counts, gaps, duplicates, disorder, odd timestamps, keys and skew, sizes, codecs, tombstones.
    Topics are read once, in parallel.  FIELD is header:NAME or json:$.path of the value.

    \b
      kwire pipeline audit orders payments --html audit.html
      kwire pipeline audit orders --identity json:$.id --json > audit.json

    A finding is an error (records are lost or double), a warning (hardly meant) or an info.  The
    exit status is 0 where nothing is found that --fail-on names, 1 where something is, 2 when the
    command line is wrong or the audit could not be made.  What is in gaps is looked up in the log
    itself; gaps that markers of transactions or compaction explain are no findings.
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
