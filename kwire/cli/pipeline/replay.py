"""`kwire pipeline replay`: writes the records of an archive to topics, each exactly once."""

from __future__ import annotations

import re
from pathlib import Path

import click

from kwire.cli.grammar.bounds import RATIO_MAX
from kwire.cli.pipeline.job import SparkJob, job
from kwire.cli.text.output import counted
from kwire.cli.values import (
    instant,
    partitions,
    position,
    setting,
    settings_option,
    shortened,
)

SPEED_MIN = 1e-6
"""The lowest speed, at which one second of records takes twelve days."""
RANGE = re.compile(r"(?P<topic>[\w.-]+):(?P<partition>\d+)=(?P<first>\d*)-(?P<end>\d*)")


def offset_range(text: str) -> tuple[str, int, int | None, int | None]:
    """(topic, partition, first, end) of `orders:0=100-200`; `orders:0=100-` has no end."""
    match = RANGE.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not like orders:0=100-200 or orders:0=100-")
    first, end = (_offset(match[name]) if match[name] else None for name in ("first", "end"))
    (partition,) = partitions(match["partition"])
    return match["topic"], partition, first, end


def _offset(digits: str) -> int:
    number = position(digits)
    assert isinstance(number, int)  # RANGE allows only digits.
    return number


def speed(text: str) -> float:
    """The factor in `10x` or `0.5`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)x?", text.strip())
    if match is None or not SPEED_MIN <= float(match[1]) <= RATIO_MAX:
        raise click.BadParameter(f"{shortened(text)} is not a speed like 10x or 0.5")
    return float(match[1])


@click.command("replay", context_settings={"show_default": True})
@click.argument("names", metavar="[TOPIC]...", nargs=-1)
@click.option("--pattern", metavar="REGEX", help="All topics whose whole name matches.")
@click.option(
    "--from", "directory", metavar="DIRECTORY", required=True,
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Directory of the archive; all machines that Spark uses must see it under this path.",
)  # fmt: skip
@click.option(
    "--rename", type=setting, metavar="TOPIC=TARGET", multiple=True,
    help="Write a topic's records to another one; may be given several times.",
)  # fmt: skip
@click.option(
    "--since", "since_ms", type=instant, metavar="TIME",
    help="Only records at or after TIME: 2026-03-01T12:00 (UTC), milliseconds, or -2h.",
)  # fmt: skip
@click.option(
    "--until", "until_ms", type=instant, metavar="TIME", help="Only records before TIME."
)  # fmt: skip
@click.option(
    "--offsets", "ranges", type=offset_range, metavar="TOPIC:P=FIRST-END", multiple=True,
    help="Only offsets from FIRST to before END of a partition; may be given several times.",
)  # fmt: skip
@click.option(
    "--speed", type=speed, metavar="N", help="N times the pace of the records' timestamps."
    " [default: as fast as possible]",
)  # fmt: skip
@settings_option(
    "-s", "--set", "configs", old=["--config"],
    help="Set a config of topics that are created.",
)  # fmt: skip
@click.option(
    "--name", metavar="NAME",
    help="Name of the replay, under which the cluster stores its progress; another name writes all"
    " records again. [default: one for the archive and the options]",
)  # fmt: skip
@job("replay")
def command(
    asked: SparkJob, names: tuple[str, ...], pattern: str | None, directory: Path,
    rename: tuple[tuple[str, str], ...], since_ms: int | None, until_ms: int | None,
    ranges: tuple[tuple[str, int, int | None, int | None], ...], speed: float | None,
    configs: tuple[tuple[str, str], ...], name: str | None,
) -> None:  # fmt: skip
    """Write the records of an archive to topics, each exactly once.

    \b
      kwire pipeline replay orders --from /data/archive --rename orders=orders-again
      kwire pipeline replay --from /data/archive --since 2026-03-01 --until 2026-03-02
      kwire pipeline replay orders --from /data/archive --speed 10x

    Each record goes to the partition that it came from, in the same order, with its key, headers
    and timestamp.  Missing topics are created with as many partitions as the archive has, and keep
    their records for ever (retention.ms=-1) unless --set says otherwise; with a usual retention the
    broker would soon delete old records.

    Records and progress are written in the same Kafka transactions, so a run that was killed
    continues when it is started again.  After the end, another run writes the records archived
    since.  With --speed, records of all partitions are written in the order of their timestamps.
    """
    from kwire import pipeline

    if names and pattern:
        raise click.UsageError("name topics or give --pattern, not both")
    what = pipeline.Replay(
        asked.kafka,
        directory,
        pipeline.Topics(names, pattern) if names or pattern else None,
        rename=dict(rename),
        since_ms=since_ms,
        until_ms=until_ms,
        ranges=tuple(pipeline.Range(*each) for each in ranges),
        speed=speed,
        configs=dict(configs),
        name=name,
    )
    with asked.session() as spark, asked.display(f"replaying {directory}") as told:
        done = pipeline.replay(spark, what, told)
    there = f", {done.there:,} were there" if done.there else ""
    asked.summary(
        done,
        f"{counted(done.records, 'record')} written in {done.duration_s:.1f} s{there}"
        + (", and stopped: the next run goes on" if done.stopped else "")
        + f" (--name {done.name})",
    )
