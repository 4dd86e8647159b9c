"""What ZooKeeper says of the cluster, read into the parts of an image."""

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
from kwire.cluster.stores.zookeeper.session import Refused, Session
from kwire.cluster.stores.zookeeper.writing import Versions
from kwire.codecs.uuids import random_uuid, uuid_text

Configs = dict[ResourceKey, dict[str, str]]
_DAMAGED = (ValueError, TypeError, LookupError)
NOT_AGREED = FinalizedFeatures(agreed={}, epoch=NO_EPOCH)
"""Where there is no /feature yet."""


async def cluster_id(session: Session) -> str:
    """That of /cluster/id, which is made where there is none.  Raises StoreError."""
    path = znodes.CLUSTER_ID
    found = await session.get(path)
    if found is None:
        await session.make_path(path.rpartition("/")[0])
        await session.make(path, znodes.encode_cluster_id(uuid_text(random_uuid(os.urandom))))
        found = await session.get(path)
    assert found is not None, f"{path} was made and is not there"
    return znodes.decode_cluster_id(found[0])


async def make_persistent_paths(session: Session, more: Sequence[str] = ()) -> None:
    """The chroot, what every broker makes at its start, and `more`."""
    await session.make_root()
    paths = (*znodes.PERSISTENT_PATHS, *more)
    found = await session.get_all(paths)
    for path, each in zip(paths, found, strict=True):
        if each is None:
            await session.make_path(path)


async def brokers(session: Session) -> dict[int, BrokerImage]:
    """Who is registered; watched."""
    names = await session.children(znodes.BROKER_IDS, watch=True)
    ids = sorted(int(name) for name in names)
    found = await session.get_all([znodes.broker_path(each) for each in ids], watch=True)
    registered = {}
    for broker_id, each in zip(ids, found, strict=True):
        if each is None:  # it went meanwhile
            continue
        try:
            registered[broker_id] = znodes.decode_broker(broker_id, each[0], each[1].czxid)
        except _DAMAGED as problem:
            log.warning("the registration of broker %d is damaged: %r", broker_id, problem)
    return registered


async def controller(session: Session) -> tuple[int, int, int]:
    """Who it is, the epoch, and the session that holds the office; watched."""
    found = await session.get(znodes.CONTROLLER, watch=True)
    if found is None:
        await session.exists(znodes.CONTROLLER, watch=True)
        found = await session.get(znodes.CONTROLLER)
    epoch = await session.get(znodes.CONTROLLER_EPOCH)
    number = 0 if epoch is None else znodes.decode_controller_epoch(epoch[0])
    if found is None:
        return NO_CONTROLLER, number, 0
    try:
        return znodes.decode_controller(found[0]), number, found[1].ephemeralOwner
    except _DAMAGED as problem:
        log.warning("%s is damaged: %r", znodes.CONTROLLER, problem)
        return NO_CONTROLLER, number, found[1].ephemeralOwner


async def features(session: Session) -> FinalizedFeatures:
    """Those of /feature, which the first controller makes; watched."""
    path = znodes.FEATURE
    found = await session.get(path, watch=True)
    if found is None and await session.exists(path, watch=True) is not None:
        found = await session.get(path)
    if found is None:
        return NOT_AGREED
    try:
        return znodes.decode_feature(found[0], found[1].version)
    except (*_DAMAGED, AttributeError) as problem:
        log.warning("%s is damaged: %r", path, problem)
        return replace(NOT_AGREED, epoch=found[1].version)


# -- configs


async def all_configs(session: Session, versions: Versions) -> Configs:
    """Of everything that has any."""
    kinds = znodes.CONFIG_TYPES
    names = await session.children_of_all([f"{znodes.CONFIG}/{kind}" for kind in kinds])
    below = [f"{kind}/{name}" for kind, found in zip(kinds, names, strict=True) for name in found]
    users = [path for path in below if path.startswith("users/")]
    clients = await session.children_of_all([f"{znodes.CONFIG}/{user}/clients" for user in users])
    for user, found in zip(users, clients, strict=True):
        below += [f"{user}/clients/{name}" for name in found]
    keys = [key for path in below if (key := znodes.resource_of(path)) is not None]
    versions.configs.clear()
    return await configs_of(session, keys, versions)


async def configs_of(session: Session, keys: Sequence[ResourceKey], versions: Versions) -> Configs:
    """Of each of them, also where nothing is set."""
    found = await session.get_all([znodes.config_path(key) for key in keys])
    configs: Configs = {}
    for key, each in zip(keys, found, strict=True):
        configs[key] = {} if each is None else znodes.decode_configs(each[0])
        if each is None:
            versions.configs.pop(key, None)
        else:
            versions.configs[key] = each[1].version
    return configs


# -- topics: of the controller alone


async def topics(
    session: Session, names: Sequence[str], versions: Versions
) -> dict[str, TopicImage | None]:
    """Of each of them its partitions; None if it is not there.  Watched, but for the states."""
    found = await session.get_all([znodes.topic_path(name) for name in names], watch=True)
    said: dict[str, znodes.TopicZnode] = {}
    for name, each in zip(names, found, strict=True):
        if each is None:
            versions.topics.pop(name, None)
            continue
        versions.topics[name] = each[1].version
        try:
            said[name] = znodes.decode_topic(each[0])
        except _DAMAGED as problem:
            log.warning("%s is damaged: %r", znodes.topic_path(name), problem)
    states = await _states(session, said, versions)
    read: dict[str, TopicImage | None] = dict.fromkeys(names)
    for name, topic in said.items():
        topic_id = topic.id or b""
        read[name] = TopicImage(name, topic_id, states[name])
    return read


async def _states(
    session: Session, said: dict[str, znodes.TopicZnode], versions: Versions
) -> dict[str, tuple[PartitionImage, ...]]:
    places = [
        (name, index, topic.assignments.get(index, znodes.Assignment(())))
        for name, topic in said.items()
        for index in range(max(topic.assignments, default=-1) + 1)
    ]
    found = await session.get_all([znodes.state_path(name, index) for name, index, _ in places])
    states: dict[str, list[PartitionImage]] = {name: [] for name in said}
    unborn: list[str] = []
    for (name, index, assignment), each in zip(places, found, strict=True):
        if each is None:
            unborn += [znodes.partitions_path(name), znodes.partition_path(name, index)]
            states[name].append(znodes.unborn(assignment))
        else:
            states[name].append(_state(name, index, each[0], each[1].version, assignment))
    await _note_made(session, unborn, versions)
    return {name: tuple(found) for name, found in states.items()}


def _state(
    name: str, index: int, content: bytes, version: int, assignment: znodes.Assignment
) -> PartitionImage:
    try:
        return znodes.decode_state(content, version, assignment)
    except _DAMAGED as problem:
        log.warning("%s is damaged: %r", znodes.state_path(name, index), problem)
        state = znodes.unborn(assignment)
        # It is there, so that the next state of it is written over it.
        return PartitionImage(-1, 0, version, state.replicas, (), adding=state.adding)


async def _note_made(session: Session, paths: Iterable[str], versions: Versions) -> None:
    """Which folders of partitions without a state are there already."""
    folders = list(dict.fromkeys(paths))
    versions.made.difference_update(folders)
    for folder, found in zip(folders, await session.get_all(folders), strict=True):
        if found is not None:
            versions.made.add(folder)


async def give_ids(
    session: Session, read: dict[str, TopicImage | None], versions: Versions, fence: object
) -> None:
    """Those of brokers before 2.8 have none; Apache Kafka's controller gives them one as well."""
    for name, topic in read.items():
        if topic is None or topic.id:
            continue
        given = TopicImage(name, random_uuid(os.urandom), topic.partitions)
        content = znodes.encode_topic(given)
        path = znodes.topic_path(name)
        try:
            write = session.set_data(path, content, versions.topics[name])
            await session.multi([fence, write])
        except Refused as refused:
            log.warning("%s got no id: %r", path, refused.reason)
            read[name] = None
            continue
        versions.topics[name] += 1
        read[name] = given


def topic_keys(names: Iterable[str]) -> list[ResourceKey]:
    return [(TOPIC_RESOURCE, name) for name in names]
