"""`kwire cluster adopt`: moves a single node's data directory into a cluster on ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwire.cli.grammar.bounds import TIMEOUT_S
from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.text.output import counted, say

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.stores.zookeeper.adopting import Adoption
    from kwire.log import LogDir


class NotAdopted(Exception):
    """The node cannot be adopted; the message says why."""


@click.command("adopt")
@click.argument(
    "directories", metavar="DATA_DIR...", nargs=-1, required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)  # fmt: skip
@click.option(
    "--zookeeper", metavar="HOST:PORT[,...][/CHROOT]", required=True,
    help="The value of zookeeper.connect for the brokers of the cluster.",
)  # fmt: skip
@click.option(
    "--timeout", type=TIMEOUT_S, metavar="SECONDS", default=18.0,
    show_default=True, help="How long to wait for ZooKeeper.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
def command(directories: tuple[Path, ...], zookeeper: str, timeout: float, dry_run: bool) -> None:
    """Move a single node into a cluster that ZooKeeper coordinates.

    DATA_DIR are the log.dirs of the node, in their order.  The command writes the node's topics,
    topic ids, configs, quotas, users, features, ACLs, delegation tokens, cluster id and producer
    ids to ZooKeeper.  Records stay where they are.  Stop the node before.

    \b
      kwire cluster adopt --zookeeper localhost:2181 kwire-data --dry-run
      kwire cluster adopt --zookeeper localhost:2181 kwire-data
      kwire serve --data kwire-data --set zookeeper.connect=localhost:2181

    Afterwards a broker of that cluster, kwire or Apache Kafka 3.9, can serve the directory under
    the id of the node.  Other brokers can join, and kwire cluster reassign gives them replicas.
    ZooKeeper must hold no cluster or this one, and no broker of it may run.
    """
    try:
        _adopt(directories, zookeeper, timeout, dry_run=dry_run)
    except NotAdopted as error:
        say(f"kwire: {error}")
        raise SystemExit(EXIT_FAILURE) from error


def _adopt(directories: Sequence[Path], zookeeper: str, timeout_s: float, *, dry_run: bool) -> None:
    """Writes the metadata of a single node to ZooKeeper, and then changes its directories so that
    they belong to that cluster.  The directories stay locked meanwhile, so the node must be
    stopped."""
    with _locked(directories) as locked:
        broker_id = _broker_id(locked)
        image = _metadata(directories[0])
        adoption = _written(zookeeper, timeout_s, image, broker_id, dry_run=dry_run)
        for path in adoption.paths:
            click.echo(path)
        topics = counted(len(adoption.topics), "topic")
        if dry_run:
            say(f"nothing is written: {topics} would be written for broker {broker_id}")
            return
        _give_to_zookeeper(locked, broker_id, image.cluster_id)
        say(f"{topics} written for broker {broker_id}. Serve them by:")
        say(
            f"  kwire serve --set log.dirs={','.join(map(str, directories))}"
            f" --set broker.id={broker_id} --set zookeeper.connect={zookeeper}"
        )


@contextmanager
def _locked(directories: Sequence[Path]) -> Iterator[list[LogDir]]:
    """Lock the directories, so that no broker serves them meanwhile.  Raises NotAdopted."""
    from kwire.log import LogDir, LogDirError, LogDirLocked
    from kwire.log.directory.files import Files
    from kwire.storage.data_folder.admission import ServingWay, admit
    from kwire.storage.data_folder.growing import undo_interrupted

    found = [LogDir(path, Files()) for path in directories]
    try:
        for path in directories:
            undo_interrupted(path)
            admit(path, ServingWay.ADOPT)
        for directory in found:
            directory.open()
        yield found
    except (LogDirError, LogDirLocked) as error:
        raise NotAdopted(str(error)) from error
    finally:
        for directory in found:
            directory.unlock()


def _broker_id(directories: Sequence[LogDir]) -> int:
    """The broker id in meta.properties, the same in all directories.  Raises NotAdopted."""
    from kwire.log import LogDirError

    ids = set()
    for directory in directories:
        try:
            identity = directory.identity()
        except LogDirError as error:
            raise NotAdopted(str(error)) from error
        if identity is None:
            raise NotAdopted(f"{directory.path} has no meta.properties: no broker has served it")
        ids.add(identity.node_id)
    if len(ids) > 1:
        raise NotAdopted(f"the directories belong to several brokers: {sorted(ids)}")
    return ids.pop()


def _metadata(directory: Path) -> ClusterImage:
    """Return the metadata of a single node from its first log directory.  Raises NotAdopted if
    there is none or it is damaged."""
    from kwire.cluster.stores.change_log import ChangeLog, DamagedLog
    from kwire.cluster.stores.local import FILE_NAME

    path = directory / FILE_NAME
    if not path.exists():
        raise NotAdopted(
            f"{path} does not exist: a single kwire broker has it in the first of its log.dirs, so"
            " name that directory first"
        )
    try:
        log, image = ChangeLog.open_at(path)
    except DamagedLog as error:
        raise NotAdopted(f"cannot read {path}: {error}") from error
    log.close()
    return image


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
