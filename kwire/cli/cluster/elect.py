"""`kwire cluster elect`: has the controller elect leaders of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kwire.cli.app import connected
from kwire.cli.cluster.choosing import ALL_OR_SOME, Choice, chosen_partitions
from kwire.cli.grammar.asking import NOT_CHANGED, asking_options, must_agree
from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.text.output import counted, json_option, print_json, print_table, say
from kwire.cli.values import topic_partitions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.client.cluster import Cluster, TopicPartition
    from kwire.client.elections import Election


@click.command("elect")
@click.argument("choices", metavar="[TOPIC[:LIST]...]", nargs=-1, type=topic_partitions)
@click.option("--all", "all_topics", is_flag=True, help="All partitions of the cluster.")
@click.option(
    "--preferred/--unclean", "preferred", default=True, show_default=True,
    help="Elect the first replica, or, for a partition without a leader, a replica that is not in"
    " sync.",
)  # fmt: skip
@asking_options()
@json_option
@connected
def command(
    cluster: Cluster,
    choices: tuple[Choice, ...],
    all_topics: bool,
    preferred: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Have the controller elect leaders.

    The preferred leader of a partition is its first replica.  While its broker is away another
    replica leads, and keeps leading afterwards.  An unclean election makes a replica that is not in
    sync the leader of a partition without any in-sync replica.  RECORDS THAT IT LACKS ARE LOST,
    also acknowledged ones.

    \b
      kwire cluster elect --all
      kwire cluster elect orders payments:0,2
      kwire cluster elect --unclean orders:3

    Asks before an unclean election.  Exits with 1 if an election failed.
    """
    from kwire.client.elections import ElectionType, elect_leaders

    if bool(choices) == all_topics:
        raise click.UsageError(ALL_OR_SOME)
    kind = ElectionType.PREFERRED if preferred else ElectionType.UNCLEAN
    places = None if all_topics else chosen_partitions(cluster, choices)
    if dry_run or not (preferred or yes):
        wanting = _wanting(cluster, places, preferred=preferred)
        if as_json and dry_run:
            print_json([{"topic": topic, "partition": index} for (topic, index), _ in wanting])
        elif not as_json:
            print_table(["partition", "leader"], [(str(at), led) for at, led in wanting])
        what = counted(len(wanting), "partition")
        if dry_run:
            say(f"{NOT_CHANGED}: a leader would be elected for {what}")
            return
        must_agree("Records that the new leaders lack will be lost. Elect them?", yes=yes)
    elections = elect_leaders(cluster, kind, places)
    leaders = _leaders(cluster)
    rows = [_row(each, leaders) for each in elections]
    if as_json:
        print_json(rows)
    elif shown := [row for row in rows if row["elected"] or row["error"]]:
        print_table(["partition", "leader", "error"], [_cells(row) for row in shown])
    say(f"{counted(sum(row['elected'] for row in rows), 'leader')} elected")
    if any(each.failed for each in elections):
        raise SystemExit(EXIT_FAILURE)


def _wanting(
    cluster: Cluster, places: Sequence[TopicPartition] | None, *, preferred: bool
) -> list[tuple[TopicPartition, int | None]]:
    """(partition, leader) of the partitions that need an election, among `places` or all.

    Their leader is not the preferred one or, for an unclean election, they have no leader.
    """
    from kwire.client.inspection.survey import all_topics, partitions_of

    return [
        (place, state.leader_id if state.leader_id >= 0 else None)
        for place, state in partitions_of(all_topics(cluster)).items()
        if (places is None or place in places)
        and (state.leader_id != state.replica_nodes[0] if preferred else state.leader_id < 0)
    ]


def _leaders(cluster: Cluster) -> dict[tuple[str, int], int]:
    """Return the leader of each partition; -1 for a partition without a leader."""
    from kwire.client.inspection.survey import all_topics, partitions_of

    states = partitions_of(all_topics(cluster))
    return {place: state.leader_id for place, state in states.items()}


def _row(election: Election, leaders: dict[tuple[str, int], int]) -> dict[str, Any]:
    """Return an election as a JSON object.  `leader` is the leader after the election, null if
    there is none."""
    leader = leaders.get(election.partition, -1)
    return {
        "topic": election.partition.topic,
        "partition": election.partition.partition,
        "elected": not election.code,
        "leader": leader if leader >= 0 else None,
        "error": election.why if election.failed else None,
    }


def _cells(row: dict[str, Any]) -> tuple[str, int | None, str | None]:
    return f"{row['topic']}-{row['partition']}", row["leader"], row["error"]
