"""Opens the KraftStore of a broker by its settings, and finds out the id of its cluster."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from kwire.cluster.peers.error import PeerError
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.kraft.controllers import ControllerPeers
from kwire.cluster.stores.kraft.lifecycle import LifecycleLimits
from kwire.cluster.stores.kraft.link import MetadataLink, Quorum, bootstrap_of
from kwire.cluster.stores.kraft.metadata_log import FOLDER, MetadataLog, Retention
from kwire.cluster.stores.kraft.observing import Limits, ObserverIdentity
from kwire.cluster.stores.kraft.records import BadMetadata
from kwire.cluster.stores.kraft.store import KraftStore
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_cluster import DescribeClusterRequest
from kwire.log import LogDirError
from kwire.log.directory import identity
from kwire.log.directory.log_dir import LogDir
from kwire.log.error import LogError
from kwire.settings import ConfigError, topic_log_config

if TYPE_CHECKING:
    from kwire.cluster.stores.kraft.observing import Address
    from kwire.log import LogManager
    from kwire.settings import BrokerConfig

CONTROLLERS: Final = 2
"""The endpoint type of controllers in DescribeCluster (KIP-919)."""
QUIET_S: Final = 10.0
"""Troubles with the controllers are logged at most this often."""

_logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_store(config: BrokerConfig, logs: LogManager) -> AsyncIterator[KraftStore]:
    """The store of the cluster of `controller.quorum.*`, with the metadata log on the disk.

    Gives the log directories their identity.  Waits for a controller if it does not know the
    cluster's id yet.  Raises StoreError, LogDirError, ConfigError.
    """
    quorum, peers = _quorum(config), ControllerPeers(lambda: config)
    try:
        known_id = logs.known_cluster_id or await cluster_id_of(quorum, peers, config)
    except BaseException:
        peers.close()
        raise
    previous_epoch = logs.last_broker_epoch
    cluster_id = logs.identify(config.node_id, known_id)
    with _metadata_dir(config, logs, cluster_id) as directory:
        me = ObserverIdentity(cluster_id, config.node_id, _id(directory))
        link = MetadataLink(me, quorum, _log(config, logs, directory), peers, _limits(config))
        async with trio.open_nursery() as tasks:
            store = KraftStore(link, tasks, lifecycle_limits(config), previous_epoch)
            try:
                yield store
            finally:
                store.close()
                tasks.cancel_scope.cancel()


def _quorum(config: BrokerConfig) -> Quorum:
    """Return where the controllers are.  Raises ConfigError."""
    servers, voters = config.controller_quorum_bootstrap_servers, config.controller_quorum_voters
    try:
        return bootstrap_of(servers, voters)
    except ValueError as error:
        raise ConfigError(f"controller.quorum.bootstrap.servers: {error}") from None


async def cluster_id_of(quorum: Quorum, peers: ControllerPeers, config: BrokerConfig) -> str:
    """Ask the controllers in turns for the id of their cluster until one answers."""
    quiet_until = -QUIET_S
    request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
    for address in cycle(quorum.bootstrap):
        try:
            return await _cluster_id_by(address, request, peers, config)
        except PeerError as error:
            if trio.current_time() >= quiet_until:
                quiet_until = trio.current_time() + QUIET_S
                _logger.warning("no controller names the cluster yet: %s; trying again", error)
        await trio.sleep(config.controller_quorum_retry_backoff_ms / 1000)
    raise ConfigError("controller.quorum.bootstrap.servers names no controller")


async def _cluster_id_by(
    address: Address, request: DescribeClusterRequest, peers: ControllerPeers, config: BrokerConfig
) -> str:
    """Return the cluster id that one controller names.  Raises PeerError."""
    timeout_ms = config.controller_quorum_request_timeout_ms
    peer = peers.peer(address, str(config.node_id), timeout_ms, "cluster id")
    answer = await peer.call(request)
    if answer.error_code or not answer.cluster_id:
        name = ErrorCode(answer.error_code).name
        raise PeerError("the controller", f"it answers DescribeCluster with {name}")
    cluster_id: str = answer.cluster_id
    return cluster_id


# -- the metadata log


def metadata_dir_of(config: BrokerConfig) -> Path:
    """Return the directory of the metadata log: `metadata.log.dir`, or the first of log.dirs."""
    return Path(config.metadata_log_dir or config.log_dirs[0])


@contextmanager
def _metadata_dir(config: BrokerConfig, logs: LogManager, cluster_id: str) -> Iterator[LogDir]:
    """The opened directory of the metadata log.  Raises LogDirError if it cannot be used."""
    path = metadata_dir_of(config)
    for directory in logs.online_dirs:
        if directory.path == path:
            yield directory
            return
    if path in logs.offline_dirs:
        raise LogDirError(
            f"{path} cannot be used, and it holds the metadata: {logs.offline_dirs[path]}"
        )
    directory = LogDir(path, logs.files)
    directory.open()
    try:
        identity.settle(
            [directory], config.node_id, cluster_id, remembered=cluster_id, zookeeper=False
        )
        yield directory
    finally:
        directory.unlock()


def _id(directory: LogDir) -> bytes:
    """Return the id of a directory that has its identity."""
    directory_id = directory.id
    if directory_id is None:
        raise LogDirError(
            f"{directory.path}/meta.properties has no directory.id, as of a broker on ZooKeeper:"
            " move such a cluster to KRaft with Apache Kafka 3.9 first"
        )
    return directory_id


def _log(config: BrokerConfig, logs: LogManager, directory: LogDir) -> MetadataLog:
    """Return the metadata log in `directory`.  Raises StoreError."""
    settings = replace(
        topic_log_config(config, {}),
        segment_bytes=config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
    )
    retention = Retention(
        config.metadata_log_max_record_bytes_between_snapshots,
        config.metadata_log_max_snapshot_interval_ms,
        config.metadata_max_retention_bytes,
        config.metadata_max_retention_ms,
    )
    folder, now_ms = directory.path / FOLDER, time.time_ns() // 1_000_000
    try:
        logs.files.make_folder(folder)
        logs.files.fsync_dir(directory.path)
        return MetadataLog(folder, logs.files, settings, now_ms, retention)
    except (BadMetadata, LogError, OSError) as error:
        raise StoreError(f"the metadata log cannot be used: {error}") from error


def _limits(config: BrokerConfig) -> Limits:
    return Limits(
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        backoff_ms=config.controller_quorum_retry_backoff_ms,
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
    )


def lifecycle_limits(config: BrokerConfig) -> LifecycleLimits:
    """Return the times of the settings."""
    return LifecycleLimits(
        heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
        session_timeout_ms=config.broker_session_timeout_ms,
        registration_timeout_ms=config.initial_broker_registration_timeout_ms,
        directory_failure_timeout_ms=config.log_dir_failure_timeout_ms,
    )
