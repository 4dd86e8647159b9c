"""`kwire pipeline`: jobs on Spark, one module for each."""

from __future__ import annotations

import click

from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.listing import Listing

LISTING = Listing(
    240,
    "Archive, replay, mirror, audit and query topics with Spark.",
    "archive, replay, mirror, audit and query topics with [Spark](pipelines.md)",
)

JOBS: dict[str, str] = {
    "archive": "Copy topics into Parquet files.",
    "replay": "Write the records of an archive to topics.",
    "mirror": "Copy topics of one cluster to another continuously.",
    "audit": "Report the contents of topics, and problems in them.",
    "compare": "Compare two topics, or a topic of two clusters, record by record.",
    "query": "Run SQL over topics.",
}
"""The summary of each job.  The job is `command` in the module of its name."""


@click.group(
    "pipeline", cls=Commands, summaries=JOBS,
    modules={name: f"kwire.cli.pipeline.{name}" for name in JOBS},
)  # fmt: skip
def command() -> None:
    """Archive, replay, mirror, audit and query topics with Spark.

    The jobs work with any Kafka cluster, and on any Spark master (--master; by default all cores of
    this machine).  They need Java and PySpark: in kwire's folder run
    pip install '.[spark]', or make env-dev.

    \b
      kwire pipeline archive orders payments --to /data/archive
      kwire pipeline query "SELECT topic, count(*) FROM orders GROUP BY topic"

    Each job shows its progress, ends cleanly on Ctrl-C, and continues where it stopped when it is
    started again.  With --json it prints a summary as JSON.
    """
