"""`kwire cluster adopt`: moves data directories into a cluster on ZooKeeper or beside KRaft."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwire.cli.cluster.adopt_kraft import ControllerPlace, adopt_for_kraft, places_of
from kwire.cli.cluster.stopped import NotAdopted, broker_id_of, locked, metadata_in
from kwire.cli.grammar.bounds import TIMEOUT_S
from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.text.output import counted, say

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.stores.zookeeper.adopting import Adoption
    from kwire.log import LogDir


@click.command("adopt")
@click.argument(
    "directories", metavar="DATA_DIR...", nargs=-1, required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)  # fmt: skip
@click.option(
    "--zookeeper", metavar="HOST:PORT[,...][/CHROOT]",
    help="The value of zookeeper.connect for the brokers of the cluster.",
)  # fmt: skip
@click.option(
    "--kraft", "controllers", metavar="ID@HOST:PORT=DIR", multiple=True, callback=places_of,
    help="A new controller of Apache Kafka: its node.id, its address, and its log directory.",
)  # fmt: skip
@click.option(
    "--timeout", type=TIMEOUT_S, metavar="SECONDS", default=18.0,
    show_default=True, help="How long to wait for ZooKeeper.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
def command(
    directories: tuple[Path, ...],
    zookeeper: str | None,
    controllers: tuple[ControllerPlace, ...],
    timeout: float,
    dry_run: bool,
) -> None:
    """Move a single node into a cluster on ZooKeeper, or beside KRaft controllers.

    DATA_DIR are the log.dirs of the node, in their order.  The command gives the node's topics,
    topic ids, configs, quotas, users, features, ACLs, delegation tokens, cluster id and producer
    ids to the cluster.  Records stay where they are.  Stop the node before.

    \b
      kwire cluster adopt --kraft 100@localhost:9093=controller kwire-data --dry-run
      kwire cluster adopt --kraft 100@localhost:9093=controller kwire-data
      kafka-server-start.sh controller/controller.properties

    With --kraft, DATA_DIR may also be the folder of kwire serve --brokers.  The command writes the
    directories of new controllers, which Apache Kafka 4.4 runs (or an earlier release, if it
    supports the metadata.version of the node).  It prints the settings of the brokers, which may
    be kwire or Apache Kafka.

    \b
      kwire cluster adopt --zookeeper localhost:2181 kwire-data
      kwire serve --data kwire-data --set zookeeper.connect=localhost:2181

    With --zookeeper, a broker of that cluster, kwire or Apache Kafka 3.9, can serve the directory
    under the id of the node.  ZooKeeper must hold no cluster or this one, and no broker of it may
    run.

    Other brokers can join, and kwire cluster reassign gives them replicas.
    """
    if (zookeeper is None) == (not controllers):
        raise click.UsageError("give either --zookeeper or --kraft")
    try:
        if zookeeper is None:
            adopt_for_kraft(directories, controllers, dry_run=dry_run)
        else:
            _adopt(directories, zookeeper, timeout, dry_run=dry_run)
    except NotAdopted as error:
        say(f"kwire: {error}")
        raise SystemExit(EXIT_FAILURE) from error


def _adopt(directories: Sequence[Path], zookeeper: str, timeout_s: float, *, dry_run: bool) -> None:
    """Writes the metadata of a single node to ZooKeeper, and then changes its directories so that
    they belong to that cluster.  The directories stay locked meanwhile, so the node must be
    stopped."""
    from kwire.storage.data_folder.admission import ServingWay

    with locked(directories, ServingWay.ADOPT) as found:
        broker_id = broker_id_of(found)
        image = metadata_in(directories[0]).image
        adoption = _written(zookeeper, timeout_s, image, broker_id, dry_run=dry_run)
        for path in adoption.paths:
            click.echo(path)
        topics = counted(len(adoption.topics), "topic")
        if dry_run:
            say(f"nothing is written: {topics} would be written for broker {broker_id}")
            return
        _give_to_zookeeper(found, broker_id, image.cluster_id)
        say(f"{topics} written for broker {broker_id}. Serve them by:")
        say(
            f"  kwire serve --set log.dirs={','.join(map(str, directories))}"
            f" --set broker.id={broker_id} --set zookeeper.connect={zookeeper}"
        )


def _written(
    zookeeper: str, timeout_s: float, image: ClusterImage, broker_id: int, *, dry_run: bool
) -> Adoption:
    """Writes the metadata to ZooKeeper (with `dry_run`, only checks that this is possible) and
    returns what was written.  Raises NotAdopted with all reasons."""
    import trio

    from kwire.cluster.stores.contract import StoreError
    from kwire.cluster.stores.zookeeper.adopting import CannotAdopt, adopt
    from kwire.cluster.stores.zookeeper.config import ZooKeeperConfig

    timeout_ms = int(timeout_s * 1000)
    config = ZooKeeperConfig(zookeeper, connection_timeout_ms=timeout_ms)
    found: list[Adoption] = []
    reasons: list[str] = []

    async def run() -> None:
        """Runs the adoption; collects the result or the reasons why it failed."""
        try:
            found.append(await adopt(config, image, broker_id, dry_run=dry_run))
        except* (CannotAdopt, StoreError) as group:
            reasons.extend(_sentences(group))

    trio.run(run)
    if reasons:
        raise NotAdopted("; ".join(dict.fromkeys(reasons)))
    return found[0]


def _sentences(group: BaseExceptionGroup[BaseException]) -> Iterator[str]:
    """Yield the messages of all errors in a group, also in nested groups."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _sentences(error)
        else:
            yield str(error)


def _give_to_zookeeper(directories: Sequence[LogDir], broker_id: int, cluster_id: str) -> None:
    """Write meta.properties as brokers on ZooKeeper have it.

    This is the last step: if it fails, the command can be repeated.
    """
    from kwire.log.directory.meta_properties import MetaProperties

    for directory in directories:
        directory.set_identity(MetaProperties(0, broker_id, cluster_id))
