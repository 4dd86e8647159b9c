"""Opens and closes a broker's log directories, metadata and partitions."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from kwire.broker.broker import Broker
from kwire.cluster.decisions.new_cluster import first_changes, first_changes_beside_logs
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.local import FILE_NAME, LocalStore, known_cluster_id
from kwire.codecs.uuids import random_uuid, uuid_text
from kwire.log import Intervals, LogDirError, LogDirLocked, LogManager
from kwire.log.directory.shortage import passes
from kwire.settings import ConfigResourceType, topic_log_config
from kwire.storage import takeover
from kwire.storage.data_folder.admission import ServingWay, admit_all
from kwire.storage.data_folder.growing import undo_interrupted
from kwire.storage.disk_room import RoomWatch
from kwire.storage.partitions import cleaning, moving
from kwire.testing.hooks.snapshots import journal_of

if TYPE_CHECKING:
    from kwire.cluster.metadata.changes import Change
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.log.directory.files import Files
    from kwire.settings import BrokerConfig
    from kwire.storage.takeover.stay import Stay

log = logging.getLogger("kwire.startup")

UPKEEP_INTERVAL_S = 1.0
"""The time between two checks of all logs for due work (retention, removals, flushes)."""


@asynccontextmanager
async def open_broker(
    config: BrokerConfig,
    nursery: trio.Nursery,
    metadata: Path | None = None,
    kind: type[Broker] = Broker,
    files: Files | None = None,
) -> AsyncIterator[Broker]:
    """A broker with open partitions; leaving the context closes its logs, for a clean shutdown.

    The broker is alone, or a member of the cluster of `zookeeper.connect`, or of the one whose
    KRaft controllers are in `controller.quorum.*`, or of a cluster whose metadata another process
    of this machine holds: that one listens on the Unix socket `metadata`.  `kind` is the class of
    the broker; `files` stands for the disk.

    Raises LogDirLocked, LogDirError, StoreError, ConfigError.
    """
    finish_restoring(Path(config.log_dirs[0]))
    _admit(config, metadata)
    logs = LogManager(
        config.log_dirs,
        defaults=topic_log_config(config, {}),
        intervals=Intervals(
            **{name: getattr(config, name) for name in Intervals.__slots__},
        ),
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        verify_transactions=config.transaction_partition_verification_enable,
        clock=kind.now_ms,
        files=files,
        recovery_threads=config.num_recovery_threads_per_data_dir,
    )
    if metadata is None and not config.is_member:
        opening = _alone(config, logs, nursery, kind)
    elif metadata is None and config.joins_controllers:
        opening = _beside_controllers(config, logs, nursery, kind)
    else:
        opening = _as_member(config, logs, nursery, metadata, kind)
    async with opening as broker:
        nursery.start_soon(_upkeep, broker)
        nursery.start_soon(RoomWatch(logs).run)
        nursery.start_soon(cleaning.run, broker.settings, broker.hosted, broker.now_ms)
        nursery.start_soon(moving.run, broker.settings, broker.hosted, broker.now_ms)
        if broker.tokens is not None:
            from kwire.cluster.membership import token_expiry

            nursery.start_soon(token_expiry.run, broker.settings, broker.membership, broker.now_ms)
        yield broker


def check_not_lost(broker: Broker) -> None:
    """Raise StoreError or LogDirError if the broker stopped because its storage was lost.

    Call it after `open_broker`: a member's store is closed by cancelling, so that no code of the
    context runs afterwards.
    """
    if broker.membership_lost is not None:
        raise StoreError(f"stopped, because {broker.membership_lost}")
    if broker.storage_lost.is_set():
        reasons = "; ".join(f"{path}: {why}" for path, why in broker.logs.offline_dirs.items())
        raise LogDirError(
            "stopped, because all log.dirs have failed, or the first, which holds the metadata: "
            + reasons
        )


def finish_restoring(log_dir: Path) -> None:
    """Finish a restore from a snapshot that was interrupted.  Raises LogDirLocked, OSError."""
    if not journal_of(log_dir).exists():
        return
    from kwire.testing.hooks.snapshots.kept import SnapshotError
    from kwire.testing.hooks.snapshots.laying import finish

    try:
        finish(log_dir)
    except SnapshotError as error:
        raise LogDirLocked(str(error)) from None


def _admit(config: BrokerConfig, metadata: Path | None) -> None:
    """Raise LogDirError if this broker cannot serve one of its log directories."""
    if metadata is not None:
        return  # the process that holds the metadata has checked the folder
    if config.zookeeper_connect is not None:
        admit_all(config.log_dirs, ServingWay.ZOOKEEPER)
        return
    if config.joins_controllers:
        admit_all(config.log_dirs, ServingWay.KRAFT)
        return
    for path in config.log_dirs:
        undo_interrupted(Path(path))
    admit_all(config.log_dirs, ServingWay.ALONE)


@asynccontextmanager
async def _alone(
    config: BrokerConfig, logs: LogManager, nursery: trio.Nursery, kind: type[Broker]
) -> AsyncIterator[Broker]:
    """A broker alone, which keeps its metadata in its first log directory."""
    stored_id = known_cluster_id(Path(config.log_dirs[0]) / FILE_NAME)
    new_id = uuid_text(random_uuid(os.urandom))
    cluster_id = logs.identify(config.node_id, new_id, remembered=stored_id)
    store = _metadata(config, logs, cluster_id)
    image = await store.load()
    stay = _stay(config, logs, image)
    if stay is None:
        _load(config, logs, partial(image.configs_of, ConfigResourceType.TOPIC), image)
    else:
        image = await stay.before_loading(store)
        _load(config, logs, partial(stay.configs_of, image), stay.trusted(image))
        image = await stay.after_loading(store)
    broker = kind(config, store, logs, image.cluster_id)
    try:
        await broker.start(nursery)
        _warn_of_strays(broker)
        yield broker
    finally:
        store.close()
        if stay is not None:
            stay.close()
        broker.coordinators.write_deferred()
        logs.close(broker.hosted.high_watermark_of)


@asynccontextmanager
async def _as_member(
    config: BrokerConfig,
    logs: LogManager,
    nursery: trio.Nursery,
    metadata: Path | None,
    kind: type[Broker],
) -> AsyncIterator[Broker]:
    """A member of a cluster, whose brokers share one store of metadata."""
    from kwire.cluster.membership.joining import open_store
    from kwire.cluster.membership.member import ClusterMember

    async with open_store(config, metadata) as store:
        image = await store.load()
        stored_id = logs.identify(config.node_id, image.cluster_id, zookeeper=metadata is None)
        _check_cluster(config, stored_id, image.cluster_id)
        topics = sorted(logs.topics_found())
        image = await store.read_configs([(ConfigResourceType.TOPIC, topic) for topic in topics])
        logs.load(
            lambda topic: topic_log_config(
                config, image.configs_of(ConfigResourceType.TOPIC, topic)
            )
        )
        broker = kind(config, store, logs, image.cluster_id)
        try:
            broker.node.begin(nursery)
            member = broker.membership = ClusterMember(broker.node, store, nursery, broker.give_up)
            await member.join()
            yield broker
        finally:
            logs.close(broker.hosted.high_watermark_of)


@asynccontextmanager
async def _beside_controllers(
    config: BrokerConfig, logs: LogManager, nursery: trio.Nursery, kind: type[Broker]
) -> AsyncIterator[Broker]:
    """A member of a cluster with KRaft controllers, which are other nodes."""
    from kwire.cluster.membership.kraft import KraftMember
    from kwire.cluster.stores.kraft.opening import open_store

    async with open_store(config, logs) as store:
        image = await store.load()
        logs.load(
            lambda topic: topic_log_config(
                config, image.configs_of(ConfigResourceType.TOPIC, topic)
            ),
            {name: topic.id for name, topic in image.topics.items()}.get,
        )
        broker = kind(config, store, logs, image.cluster_id)
        try:
            broker.node.begin(nursery)
            member = broker.membership = KraftMember(broker.node, store, nursery, broker.give_up)
            await member.join()
            yield broker
        finally:
            logs.broker_epoch = store.broker_epoch
            logs.close(broker.hosted.high_watermark_of)


def _check_cluster(config: BrokerConfig, stored_id: str, joined_id: str) -> None:
    """Raise LogDirError if the log directories belong to another cluster than the joined one."""
    if stored_id != joined_id:
        raise LogDirError(
            f"{','.join(config.log_dirs)} belongs to cluster {stored_id}, and this broker joins "
            f"{joined_id}: use another directory. One that kwire serve had alone is taken into a "
            "cluster on ZooKeeper by kwire cluster adopt"
        )


def _metadata(config: BrokerConfig, logs: LogManager, cluster_id: str) -> LocalStore:
    """Return the store of metadata in the first log directory; if it fails, the directory fails.

    Raises LogDirError if that directory is offline already.
    """
    _check_metadata_dir(config, logs)
    path = Path(config.log_dirs[0])
    store = LocalStore(path / FILE_NAME, cluster_id, logs.files, _first_changes(config, logs))
    directory = next(each for each in logs.online_dirs if each.path == path)

    def failed(error: OSError) -> None:
        if not passes(error):
            logs.dirs.dir_failed(directory, error)

    store.on_failure = failed
    return store


def _first_changes(config: BrokerConfig, logs: LogManager) -> tuple[Change, ...]:
    """The changes that create the metadata if these directories have none of kwire's yet."""
    if takeover.is_new(logs):
        return first_changes(config)
    if takeover.metadata_folder(logs) is not None:
        return ()  # the takeover follows the KRaft metadata log
    return first_changes_beside_logs()


def _check_metadata_dir(config: BrokerConfig, logs: LogManager) -> None:
    """Raise LogDirError if the first log directory, which holds the metadata, is offline."""
    path = Path(config.log_dirs[0])
    if path in logs.offline_dirs:
        raise LogDirError(
            f"{path} cannot be used, and it holds the metadata: {logs.offline_dirs[path]}"
        )


def _load(
    config: BrokerConfig,
    logs: LogManager,
    configs_of: Callable[[str], Mapping[str, str]],
    image: ClusterImage | None,
) -> None:
    """Load all logs.  With `image`, the logs of topics that it does not have are set aside."""
    topic_id_of = None
    if image is not None:
        topic_id_of = {name: topic.id for name, topic in image.topics.items()}.get
    logs.load(lambda topic: topic_log_config(config, configs_of(topic)), topic_id_of)
    _check_metadata_dir(config, logs)


def _stay(config: BrokerConfig, logs: LogManager, image: ClusterImage) -> Stay | None:
    """Return the takeover of log directories that Apache Kafka has used, or may have; None if
    not.
    """
    if not takeover.is_needed(logs, image):
        return None
    from kwire.storage.takeover.stay import Stay

    return Stay(config, logs, Broker.now_ms)


def _warn_of_strays(broker: Broker) -> None:
    """Warn of each partition on disk that the metadata does not place on this broker."""
    for topic, index in broker.logs.logs:
        if broker.hosted.get(topic, index) is None:
            log.warning(
                "%s-%d is on disk but not in the metadata: it is neither served nor removed",
                topic,
                index,
            )


async def _upkeep(broker: Broker) -> None:
    """Run retention, removals, flushes and checkpoints; blocking steps run in threads."""
    while True:
        await trio.sleep(UPKEEP_INTERVAL_S)
        broker.membership.open_missing()
        for job in broker.logs.maintain(broker.now_ms(), broker.hosted.high_watermark_of):
            for _ in job.steps:
                await trio.lowlevel.checkpoint()
            await trio.to_thread.run_sync(job.run)
            job.finish()
