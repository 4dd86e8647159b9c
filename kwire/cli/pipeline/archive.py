"""`kwire pipeline archive`: copies topics into Parquet files, each record exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwire.cli.pipeline.job import SparkJob, batches_options, job
from kwire.cli.text.output import counted, say
from kwire.cli.values import duration_s, size_bytes

if TYPE_CHECKING:
    from kwire.pipeline import Archive, Ended, Lost


@dataclass(frozen=True)
class ArchiveSummary:
    """The result of a run: records read, files published, and records lost unread."""

    directory: str
    read: Ended
    files: int
    size_bytes: int
    lost: list[Lost]


@click.command("archive", context_settings={"show_default": True})
@click.argument("names", metavar="[TOPIC]...", nargs=-1)
@click.option("--pattern", metavar="REGEX", help="All topics whose whole name matches.")
@click.option(
    "--to", "directory", metavar="DIRECTORY", required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the archive; all machines that Spark uses must see it under this path.",
)  # fmt: skip
@batches_options(
    every="10s",
    lost="retention has removed records before they were read, and report them",
)
@click.option(
    "--publish-after", "publish_after_s", type=duration_s, metavar="TIME", default="10m",
    help="With --continuous: publish a file after this time even if it is not full.",
)  # fmt: skip
@click.option(
    "--file-size", "file_size_bytes", type=size_bytes, metavar="SIZE", default="128MB",
    help="Approximate size of a file; the last file of a date is smaller.",
)  # fmt: skip
@click.option(
    "--isolation", type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed", help="read_committed leaves out records of aborted transactions.",
)  # fmt: skip
@click.option(
    "--compact", is_flag=True,
    help="Read no topics; join the small files that many runs have published.",
)  # fmt: skip
@job("archive")
def command(
    asked: SparkJob, names: tuple[str, ...], pattern: str | None, compact: bool,
    directory: Path, file_size_bytes: int, every_s: float | None,
    publish_after_s: float, batch_records: int, isolation: str, skip_lost: bool,
) -> None:  # fmt: skip
    """Copy topics into Parquet files, each record exactly once.

    \b
      kwire pipeline archive orders payments --to /data/archive
      kwire pipeline archive --pattern 'orders.*' --to /data/archive --continuous
      kwire pipeline archive --to /data/archive --compact

    The files are DIRECTORY/topic=orders/date=2026-03-01/*.parquet, by the day (UTC) of the
    record's timestamp, with the columns key, value, headers, timestamp, timestampType, partition
    and offset.  A run archives the records that arrived since the last run, also of new topics and
    partitions.  Files are complete when they appear and never change, so they can be read at any
    time:

    \b
      pyarrow   pyarrow.dataset.dataset("/data/archive", partitioning="hive")
      DuckDB    SELECT * FROM '/data/archive/topic=*/date=*/*.parquet'
      Spark     spark.read.parquet("/data/archive")

    --compact joins the small files of many short runs.  A program that reads a date while its files
    are being joined may find a file missing, and has to read again.
    """
    from kwire.pipeline import Archive, Topics

    if compact:
        if names or pattern or every_s is not None:
            raise click.UsageError("--compact does not go with topics or --continuous")
        _compact(asked, directory, file_size_bytes)
        return
    if bool(names) == bool(pattern):
        raise click.UsageError("name topics or give --pattern, not both")
    what = Archive(
        asked.kafka,
        Topics(names, pattern),
        directory,
        every_s=every_s,
        file_size_bytes=file_size_bytes,
        publish_after_s=publish_after_s,
        batch_records=batch_records,
        isolation=isolation,
        skip_lost=skip_lost,
    )
    _archive(asked, what)


def _archive(asked: SparkJob, what: Archive) -> None:
    """Archives the topics, publishes the new files, and prints the summary, with offsets that were
    lost in this run."""
    from kwire import pipeline

    known_lost = set(pipeline.lost(what.directory))
    known_files = set(pipeline.archive_files(what.directory))
    with asked.session((asked.kafka, what.topics)) as spark:
        try:
            ended = asked.follow(pipeline.archive(spark, what), f"archiving {what.topics}")
        except pipeline.RecordsLost as error:
            raise pipeline.RecordsLost(f"{error}; --skip-lost goes on without them") from error
        pipeline.publish(spark, what.directory, what.file_size_bytes)
    files = set(pipeline.archive_files(what.directory)) - known_files
    size_bytes = sum(path.stat().st_size for path in files)
    lost = [each for each in pipeline.lost(what.directory) if each not in known_lost]
    for each in lost:
        say(f"lost: offsets {each.first} to {each.end - 1} of {each.topic}-{each.partition}")
    asked.summary(
        ArchiveSummary(str(what.directory), ended, len(files), size_bytes, lost),
        f"{counted(ended.records, 'record')} archived in {ended.duration_s:.1f} s,"
        f" {counted(len(files), 'file')} of {size_bytes:,} bytes published"
        + (", and stopped: the next run goes on" if ended.stopped else ""),
    )


def _compact(asked: SparkJob, directory: Path, file_size_bytes: int) -> None:
    """Joins small files of an archive to larger ones, and prints the summary."""
    from kwire import pipeline

    with pipeline.session(asked.name, asked.spark) as spark:  # without a cluster
        done = pipeline.compact(spark, directory, file_size_bytes)
    asked.summary(
        done, f"{counted(done.joined, 'file')} joined to {done.files} of {done.size_bytes:,} bytes"
    )
