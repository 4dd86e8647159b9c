"""`kwire pipeline compare`: compares two topics record by record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwire.cli.app import client_properties
from kwire.cli.grammar.other_cluster import CONFIG, KAFKA, SERVER, other_cluster_options
from kwire.cli.grammar.statuses import checks
from kwire.cli.pipeline.findings import finish, print_findings, report_options, stages
from kwire.cli.pipeline.job import SparkJob, job
from kwire.cli.text.output import print_table

if TYPE_CHECKING:
    from kwire.pipeline.audit import Comparison


@click.command("compare")
@click.argument("left", metavar="TOPIC")
@click.argument("right", metavar="[OTHER]", required=False)
@other_cluster_options(
    whose="the cluster of the other topic, if it is not the same",
    old={SERVER: ["--with"], KAFKA: ["--with-kafka"]},
)  # fmt: skip
@click.option(
    "--ignore", type=click.Choice(["key", "value", "headers", "timestamp"]), multiple=True,
    help="Ignore differences of this field; may be given several times.",
)  # fmt: skip
@click.option("--any-partition", is_flag=True, help="Ignore the partition and order of records.")
@report_options("error")
@checks
@job("compare", has_steps=False)
def command(
    job: SparkJob,
    left: str,
    right: str | None,
    other_server: str | None,
    other_config: Path | None,
    other_kafka: tuple[tuple[str, str], ...],
    ignore: tuple[str, ...],
    any_partition: bool,
    html: Path | None,
    fail_on: str,
    examples: int,
) -> None:
    """Compare two topics, or a topic of two clusters, record by record.

    For use after a mirror, or before and after an upgrade.  Reports records that are missing,
    extra, duplicated, changed or in another order.  Offsets may differ.  OTHER is by default TOPIC.

    \b
      kwire pipeline compare orders orders-copy
      kwire pipeline compare orders --other-bootstrap-server other:9092 --ignore timestamp

    Exits with 0 if all records are the same, 1 if they are not, and 2 if the command line is wrong
    or the comparison failed.
    """
    from kwire.pipeline import Kafka, PipelineError, Topics
    from kwire.pipeline.audit import Compare, Side, compare

    if other_server is None and (other_config is not None or other_kafka):
        raise click.UsageError(f"{CONFIG} and {KAFKA} need {SERVER}")
    properties = client_properties(other_config, other_kafka)
    other = job.kafka if other_server is None else Kafka(other_server, properties)
    try:
        sides = Side(job.kafka, left), Side(other, right or left)
        asked = Compare(*sides, ignore, not any_partition, examples)
    except PipelineError as error:
        raise click.UsageError(str(error)) from error
    needed = [(side.kafka, Topics((side.topic,))) for side in sides]
    with job.session(*needed) as spark, stages(job) as told:
        report = compare(spark, asked, told)
    if not job.as_json:
        _print(report)
    finish(job, report, html, fail_on)


def _print(report: Comparison) -> None:
    """Prints a table with a row for each partition, and the findings.  Partition -1 stands for
    records that are compared without regard to partitions."""
    rows = [
        (
            p.partition if p.partition >= 0 else None,
            p.left_records,
            p.right_records,
            p.missing,
            p.extra,
            p.doubled,
            p.changed,
            p.order,
        )
        for p in report.partitions
    ]
    columns = ["partition", "left", "right", "missing", "extra", "doubled", "changed", "order"]
    print_table(columns, rows)
    print_findings(report.findings)
