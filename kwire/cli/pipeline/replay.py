"""`kwire pipeline replay`: an archive's records back into topics, each exactly once."""

from __future__ import annotations

import re
from pathlib import Path

import click

from kwire.cli.grammar.bounds import RATIO_MAX
from kwire.cli.pipeline.job import Job, job
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
"""A second of the records takes twelve days then: by less no replay ends."""
RANGE = re.compile(r"(?P<topic>[\w.-]+):(?P<partition>\d+)=(?P<first>\d*)-(?P<end>\d*)")


def offset_range(text: str) -> tuple[str, int, int | None, int | None]:
    """`orders:0=100-200`, `orders:0=100-`, `orders:0=-200`: the second offset is left out."""
    found = RANGE.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not like orders:0=100-200 or orders:0=100-")
    first, end = (_offset(found[name]) if found[name] else None for name in ("first", "end"))
    (partition,) = partitions(found["partition"])
    return found["topic"], partition, first, end


def _offset(digits: str) -> int:
    number = position(digits)
    assert isinstance(number, int)  # as digits alone are
    return number


def speed(text: str) -> float:
    """`10x`, `0.5`: how many times faster than the records were made."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)x?", text.strip())
    if found is None or not SPEED_MIN <= float(found[1]) <= RATIO_MAX:
        raise click.BadParameter(f"{shortened(text)} is not a speed like 10x or 0.5")
    return float(found[1])


@click.command("replay", context_settings={"show_default": True})
@click.argument("names", metavar="[TOPIC]...", nargs=-1)
@click.option("--pattern", metavar="REGEX", help="All topics whose whole name matches.")
@click.option(
    "--from", "directory", metavar="DIRECTORY", required=True,
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Of the archive; where Spark runs on more machines, all see it under this path.",
)  # fmt: skip
@click.option(
    "--rename", type=setting, metavar="TOPIC=TARGET", multiple=True,
    help="Write a topic's records to another one; may be given several times.",
)  # fmt: skip
@click.option(
    "--since", "since_ms", type=instant, metavar="TIME",
    help="Only records of this time and later: 2026-03-01T12:00 (UTC), milliseconds, or -2h.",
)  # fmt: skip
@click.option(
    "--until", "until_ms", type=instant, metavar="TIME", help="Only records before this time."
)  # fmt: skip
@click.option(
    "--offsets", "ranges", type=offset_range, metavar="TOPIC:P=FIRST-END", multiple=True,
    help="Only these offsets of a partition, END left out; may be given several times.",
)  # fmt: skip
@click.option(
    "--speed", type=speed, metavar="N", help="N times the pace at which the records were made."
    " [default: as fast as can be]",
)  # fmt: skip
@settings_option(
    "-s", "--set", "configs", old=["--config"],
    help="A setting of topics that have to be created.",
)  # fmt: skip
@click.option(
    "--name", metavar="NAME",
    help="What is written already is known by it: another name writes all once more."
    " [default: one for the archive and what is asked of it]",
)  # fmt: skip
@job("replay")
def command(
    asked: Job, names: tuple[str, ...], pattern: str | None, directory: Path,
    rename: tuple[tuple[str, str], ...], since_ms: int | None, until_ms: int | None,
    ranges: tuple[tuple[str, int, int | None, int | None], ...], speed: float | None,
    configs: tuple[tuple[str, str], ...], name: str | None,
) -> None:  # fmt: skip
    """Write an archive's records into topics, each exactly once.

    \b
      kwire pipeline replay orders --from /data/archive --rename orders=orders-again
      kwire pipeline replay --from /data/archive --since 2026-03-01 --until 2026-03-02
      kwire pipeline replay orders --from /data/archive --speed 10x

    A record goes to the partition that it came from, with its key, headers and timestamp, in the
    order of its partition.  Topics that are missing are created with as many partitions as the
    archive knows of, and keep their records for ever (retention.ms=-1) unless --set says
    otherwise: with a usual retention, old records would be removed again at once.

    The records and how far the replay has come are written in Kafka transactions.  A run that was
    killed goes on when it is started again; after the end, a run writes what was archived since.
    With --speed, records of all partitions are written in the order of their time.
    """
    from kwire import pipeline

    if names and pattern:
        raise click.UsageError("name topics, or give --pattern, and not both")
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
