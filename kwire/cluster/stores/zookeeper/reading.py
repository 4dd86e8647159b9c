"""Reads znodes into the parts of an image: brokers, controller, features, configs, topics."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kwire.cluster.metadata.features import NO_EPOCH, FinalizedFeatures
from kwire.cluster.metadata.image import (
    NO_CONTROLLER,
    TOPIC_RESOURCE,
    BrokerImage,
    PartitionImage,
    ResourceKey,
    TopicImage,
)
from kwire.cluster.stores.zookeeper import znodes
from kwire.cluster.stores.zookeeper.link import log
from kwire.cluster.stores.zookeeper.session import TransactionRefused, ZooKeeperSession
from kwire.cluster.stores.zookeeper.writing import ZnodeVersions
from kwire.codecs.uuids import random_uuid, uuid_text

Configs = dict[ResourceKey, dict[str, str]]
_DAMAGED = (ValueError, TypeError, LookupError)
NOT_AGREED = FinalizedFeatures(agreed={}, epoch=NO_EPOCH)
"""The features while /feature does not exist."""


async def cluster_id(session: ZooKeeperSession) -> str:
    """Return the cluster id in /cluster/id, which is created if missing.  Raises StoreError."""
    path = znodes.CLUSTER_ID
    znode = await session.get(path)
    if znode is None:
        await session.make_path(path.rpartition("/")[0])
        await session.make(path, znodes.encode_cluster_id(uuid_text(random_uuid(os.urandom))))
        # Another broker may have created it first, with another id.
        znode = await session.get(path)
    assert znode is not None, f"{path} was created and does not exist"
    return znodes.decode_cluster_id(znode[0])


async def make_persistent_paths(session: ZooKeeperSession, more: Sequence[str] = ()) -> None:
    """Create the chroot, the paths that each broker creates at its start, and `more`."""
    await session.make_root()
    paths = (*znodes.PERSISTENT_PATHS, *more)
    present = await session.get_all(paths)
    for path, znode in zip(paths, present, strict=True):
        if znode is None:
            await session.make_path(path)


async def brokers(session: ZooKeeperSession) -> dict[int, BrokerImage]:
    """Returns the registered brokers by id, and sets watches."""
    names = await session.children(znodes.BROKER_IDS, watch=True)
    ids = sorted(int(name) for name in names)
    contents = await session.get_all([znodes.broker_path(id_) for id_ in ids], watch=True)
    registered = {}
    for broker_id, znode in zip(ids, contents, strict=True):
        if znode is None:  # the broker left between the two reads
            continue
        try:
            registered[broker_id] = znodes.decode_broker(broker_id, znode[0], znode[1].czxid)
        except _DAMAGED as problem:
            log.warning("the registration of broker %d is damaged: %r", broker_id, problem)
    return registered


async def controller(session: ZooKeeperSession) -> tuple[int, int, int]:
    """Return the controller's id, the controller epoch, and the id of its session.

    Sets a watch.
    """
    znode = await session.get(znodes.CONTROLLER, watch=True)
    if znode is None:
        # `get` sets no watch on a missing znode; it may be created before `exists` sets one.
        await session.exists(znodes.CONTROLLER, watch=True)
        znode = await session.get(znodes.CONTROLLER)
    epoch_znode = await session.get(znodes.CONTROLLER_EPOCH)
    epoch = 0 if epoch_znode is None else znodes.decode_controller_epoch(epoch_znode[0])
    if znode is None:
        return NO_CONTROLLER, epoch, 0
    try:
        return znodes.decode_controller(znode[0]), epoch, znode[1].ephemeralOwner
    except _DAMAGED as problem:
        log.warning("%s is damaged: %r", znodes.CONTROLLER, problem)
        return NO_CONTROLLER, epoch, znode[1].ephemeralOwner


async def features(session: ZooKeeperSession) -> FinalizedFeatures:
    """Return the features in /feature, which the first controller creates; sets a watch."""
    path = znodes.FEATURE
    znode = await session.get(path, watch=True)
    if znode is None and await session.exists(path, watch=True) is not None:
        znode = await session.get(path)
    if znode is None:
        return NOT_AGREED
    try:
        return znodes.decode_feature(znode[0], znode[1].version)
    except (*_DAMAGED, AttributeError) as problem:
        log.warning("%s is damaged: %r", path, problem)
        return replace(NOT_AGREED, epoch=znode[1].version)


# -- configs


async def all_configs(session: ZooKeeperSession, versions: ZnodeVersions) -> Configs:
    """The configs of all resources that have any."""
    kinds = znodes.CONFIG_TYPES
    names = await session.children_of_all([f"{znodes.CONFIG}/{kind}" for kind in kinds])
    paths = [
        f"{kind}/{name}" for kind, children in zip(kinds, names, strict=True) for name in children
    ]
    users = [path for path in paths if path.startswith("users/")]
    clients = await session.children_of_all([f"{znodes.CONFIG}/{user}/clients" for user in users])
    for user, children in zip(users, clients, strict=True):
        paths += [f"{user}/clients/{name}" for name in children]
    keys = [key for path in paths if (key := znodes.resource_of(path)) is not None]
    versions.configs.clear()
    return await configs_of(session, keys, versions)


async def configs_of(
    session: ZooKeeperSession, keys: Sequence[ResourceKey], versions: ZnodeVersions
) -> Configs:
    """Return the configs of each of `keys`, empty if nothing is set; notes the versions."""
    contents = await session.get_all([znodes.config_path(key) for key in keys])
    configs: Configs = {}
    for key, znode in zip(keys, contents, strict=True):
        configs[key] = {} if znode is None else znodes.decode_configs(znode[0])
        if znode is None:
            versions.configs.pop(key, None)
        else:
            versions.configs[key] = znode[1].version
    return configs


# -- topics: read by the controller alone


async def topics(
    session: ZooKeeperSession, names: Sequence[str], versions: ZnodeVersions
) -> dict[str, TopicImage | None]:
    """Return the topics of `names`, None for those that do not exist; notes the versions.

    Sets a watch on each topic's znode, but not on partition states: only this controller writes
    them, or a leader that sends a notification.
    """
    contents = await session.get_all([znodes.topic_path(name) for name in names], watch=True)
    topic_znodes: dict[str, znodes.TopicZnode] = {}
    for name, znode in zip(names, contents, strict=True):
        if znode is None:
            versions.topics.pop(name, None)
            continue
        versions.topics[name] = znode[1].version
        try:
            topic_znodes[name] = znodes.decode_topic(znode[0])
        except _DAMAGED as problem:
            log.warning("%s is damaged: %r", znodes.topic_path(name), problem)
    states = await _states(session, topic_znodes, versions)
    read: dict[str, TopicImage | None] = dict.fromkeys(names)
    for name, topic in topic_znodes.items():
        topic_id = topic.id or b""
        read[name] = TopicImage(name, topic_id, states[name])
    return read


async def _states(
    session: ZooKeeperSession, topic_znodes: dict[str, znodes.TopicZnode], versions: ZnodeVersions
) -> dict[str, tuple[PartitionImage, ...]]:
    """Return the partitions of each topic, by number.

    A partition without a state znode has no leader yet.
    """
    partitions = [
        (name, index, topic.assignments.get(index, znodes.ReplicaAssignment(())))
        for name, topic in topic_znodes.items()
        for index in range(max(topic.assignments, default=-1) + 1)
    ]
    contents = await session.get_all(
        [znodes.state_path(name, index) for name, index, _ in partitions]
    )
    states: dict[str, list[PartitionImage]] = {name: [] for name in topic_znodes}
    folders: list[str] = []
    for (name, index, assignment), znode in zip(partitions, contents, strict=True):
        if znode is None:
            folders += [znodes.partitions_path(name), znodes.partition_path(name, index)]
            states[name].append(znodes.new_partition(assignment))
        else:
            states[name].append(_state(name, index, znode[0], znode[1].version, assignment))
    await _note_existing_folders(session, folders, versions)
    return {name: tuple(topic_states) for name, topic_states in states.items()}


def _state(
    name: str, index: int, content: bytes, version: int, assignment: znodes.ReplicaAssignment
) -> PartitionImage:
    """Return the state of a partition; of a damaged znode, one without leader and ISR."""
    try:
        return znodes.decode_state(content, version, assignment)
    except _DAMAGED as problem:
        log.warning("%s is damaged: %r", znodes.state_path(name, index), problem)
        state = znodes.new_partition(assignment)
        # The znode exists: its version makes the next write replace it instead of creating it.
        return PartitionImage(-1, 0, version, state.replicas, (), adding=state.adding)


async def _note_existing_folders(
    session: ZooKeeperSession, paths: Iterable[str], versions: ZnodeVersions
) -> None:
    """Note which folders of partitions without a state exist already."""
    folders = list(dict.fromkeys(paths))
    versions.made.difference_update(folders)
    for folder, znode in zip(folders, await session.get_all(folders), strict=True):
        if znode is not None:
            versions.made.add(folder)


async def give_ids(
    session: ZooKeeperSession,
    read: dict[str, TopicImage | None],
    versions: ZnodeVersions,
    fence: object,
) -> None:
    """Gives an id to each topic without one, as Kafka does.

    Brokers before 2.8 created topics without ids.
    """
    for name, topic in read.items():
        if topic is None or topic.id:
            continue
        given = TopicImage(name, random_uuid(os.urandom), topic.partitions)
        content = znodes.encode_topic(given)
        path = znodes.topic_path(name)
        try:
            write = session.set_data(path, content, versions.topics[name])
            await session.multi([fence, write])
        except TransactionRefused as refused:
            log.warning("Cannot give %s a topic id: %r", path, refused.reason)
            read[name] = None
            continue
        versions.topics[name] += 1
        read[name] = given


def topic_keys(names: Iterable[str]) -> list[ResourceKey]:
    return [(TOPIC_RESOURCE, name) for name in names]
