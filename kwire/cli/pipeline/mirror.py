"""`kwire pipeline mirror`: copies topics of one cluster to another, each record exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwire.cli.app import client_properties
from kwire.cli.grammar.bounds import REPLICA_COUNT
from kwire.cli.grammar.other_cluster import CONFIG, KAFKA, SERVER, other_cluster_options
from kwire.cli.pipeline.job import SparkJob, batches_options, job, topics_options
from kwire.cli.text.output import counted, say
from kwire.cli.values import duration_s

if TYPE_CHECKING:
    from kwire.pipeline import Ended, Mirrored, Topics


@dataclass(frozen=True)
class MirrorSummary:
    """The result of a run: the clusters, the records read, and what was mirrored."""

    source: str
    target: str
    name: str
    read: Ended
    mirrored: Mirrored


@click.command("mirror", context_settings={"show_default": True})
@topics_options
@other_cluster_options(
    whose="the target cluster", required=True,
    old={SERVER: ["--to"], CONFIG: ["--target-config"], KAFKA: ["--target"]},
)  # fmt: skip
@click.option(
    "--name", metavar="NAME", default="mirror",
    help="Name of the mirror, under which the target stores its progress.",
)  # fmt: skip
@click.option(
    "--rename", metavar="TEMPLATE", default="{topic}",
    help="Names of topics in the target, as in '{source}.{topic}'.",
)  # fmt: skip
@click.option(
    "--source-name", metavar="NAME", default="", help="The text for {source} in --rename."
)
@click.option(
    "--groups", metavar="REGEX", default=".*",
    help="Consumer groups whose offsets are translated; '' for none.",
)  # fmt: skip
@click.option(
    "--backwards", is_flag=True, help="Also move offsets of groups backwards in the target."
)  # fmt: skip
@click.option(
    "--follow-configs", is_flag=True,
    help="Copy later changes of topic configs, too, not only those at the creation of a topic.",
)  # fmt: skip
@batches_options(every="1s", lost="the source has removed records before they were mirrored")
@click.option(
    "--sync", "sync_s", type=duration_s, metavar="TIME", default="10s",
    help="With --continuous: how often topics and groups are compared.",
)  # fmt: skip
@click.option(
    "--replication-factor", type=REPLICA_COUNT, metavar="NUMBER",
    help="Replicas of topics that are created. [default: the target's]", show_default=False,
)  # fmt: skip
@click.option(
    "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="lz4",
    help="Compression of the records in the target.",
)  # fmt: skip
@click.option(
    "--checkpoint", metavar="DIRECTORY",
    help="Directory for the run; all machines that Spark uses must see it under this path."
    " [default: a temporary one]", show_default=False,
)  # fmt: skip
@job("mirror")
def command(
    asked: SparkJob, topics: Topics, other_server: str, other_config: Path | None,
    other_kafka: tuple[tuple[str, str], ...],
    name: str, rename: str, source_name: str, groups: str, backwards: bool, follow_configs: bool,
    every_s: float | None, sync_s: float, batch_records: int,
    replication_factor: int | None, compression: str, skip_lost: bool, checkpoint: str | None,
) -> None:  # fmt: skip
    """Copy topics of one cluster to another, each record exactly once.

    \b
      kwire pipeline mirror orders payments --other-bootstrap-server localhost:9192
      kwire pipeline mirror --pattern 'orders.*' --other-bootstrap-server localhost:9192 \\
          --continuous
      kwire pipeline mirror orders -b localhost:9092 --other-bootstrap-server localhost:9192 \\
          --rename '{source}.{topic}' --source-name berlin

    Topics are created with the partitions and configs that they have in the source, and get new
    partitions later.  Records keep partition, order, key, headers and timestamp; records of open
    and aborted transactions are left out.  The offsets of consumer groups are translated and
    committed in the target, as long as a group has no members there.

    The target stores the progress of the mirror, in the same transactions as the records.  So a run
    may be killed, and the next one continues from there, on any machine.  Two runs with the same
    name at the same time fence each other.  A topic that comes from the target is not mirrored
    back.

    The properties that --kafka and --other-kafka set have the names of Kafka's Java clients.  For
    the target, OAUTHBEARER tokens from a file and delegation tokens do not work.
    """
    from kwire.pipeline import Kafka, Mirror, Rename, mirror

    what = Mirror(
        asked.kafka,
        Kafka(other_server, client_properties(other_config, other_kafka)),
        topics,
        name=name,
        rename=Rename(rename, source_name),
        groups=groups,
        backwards=backwards,
        follow_configs=follow_configs,
        every_s=every_s,
        sync_s=sync_s,
        batch_records=batch_records,
        replication_factor=replication_factor,
        compression=compression,
        skip_lost=skip_lost,
        checkpoint=checkpoint,
    )
    with asked.session((asked.kafka, topics)) as spark:
        mirroring = mirror(spark, what)
        ended = asked.follow(mirroring.query, f"mirroring {topics}")
        done = mirroring.finish()
    _tell(asked, done)
    asked.summary(
        MirrorSummary(asked.kafka.bootstrap, other_server, name, ended, done),
        f"{counted(done.records, 'record')} mirrored in {ended.duration_s:.1f} s, "
        + (f"{done.skipped:,} were there already, " if done.skipped else "")
        + f"{done.lag:,} to go"
        + (", and stopped: the next run goes on" if ended.stopped else ""),
    )


def _tell(asked: SparkJob, done: Mirrored) -> None:
    """Print created topics, topics left out, and groups, unless --quiet is given."""
    if asked.quiet:
        return
    if done.topics:
        say(f"created: {', '.join(done.topics)}")
    if done.passed_over:
        say(f"left out, because they come from the target: {', '.join(done.passed_over)}")
    for group in done.groups:
        say(
            f"group {group.group}: {group.state}, lag {group.source_lag:,} in the source and"
            f" {group.target_lag:,} in the target"
        )
