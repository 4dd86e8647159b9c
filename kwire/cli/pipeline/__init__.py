"""`kwire pipeline`: jobs on Spark, one module each."""

from __future__ import annotations

import click

from kwire.cli.grammar.commands import Commands

JOBS: dict[str, str] = {
    "archive": "Copy topics into Parquet files.",
    "replay": "Write an archive's records into topics.",
    "mirror": "Keep topics of one cluster the same in another.",
    "audit": "Report what is in topics, and what is wrong with it.",
    "compare": "Compare two topics, or a topic of two clusters, record by record.",
    "query": "Run SQL over topics.",
}
"""Each job is `command` in the module of its name; none is imported to list them."""


@click.group(
    "pipeline", cls=Commands, summaries=JOBS,
    modules={name: f"kwire.cli.pipeline.{name}" for name in JOBS},
)  # fmt: skip
def command() -> None:
    """Archive, replay, mirror, audit and query topics with Spark.

    The jobs work with any Kafka cluster and on any Spark master (--master, all cores of this
    machine by default).  They need Java, and PySpark: in kwire's folder,
    pip install '.[spark]', or make env-dev.

    \b
      kwire pipeline archive orders payments --to /data/archive
      kwire pipeline query "SELECT topic, count(*) FROM orders GROUP BY topic"

    Each job shows what it does, ends cleanly on Ctrl-C, goes on where it stopped when it is started
    again, and prints a summary as JSON with --json.
    """
