"""A single node's metadata, taken into ZooKeeper: its broker is the first of a cluster then.

    /cluster/id                   its cluster id, where ZooKeeper has none yet
    /latest_producer_id_block     up to the last id that the node may have given
    /feature                      what an administrator has asked of the features
    /config/…                     what is set on brokers, groups, metrics, users, clients, addresses
    /kafka-acl…                   its access control lists
    /delegation_token/tokens/…    its delegation tokens
    /brokers/topics/…             its topics, with their ids, what is set on them, and who leads

in this order, so that a cluster id is there before anybody else can make one, and a topic before
nothing that it needs, least of all an access control list that denies something.  What was
interrupted is finished by doing it again: what is there already in the same words, and a topic with
the same id, is the node's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import trio

from kwire.cluster.metadata.changes import (
    AlterPartition,
    Change,
    ChangeAcls,
    CreateTopic,
    SetConfigs,
    SetFeatures,
    SetToken,
)
from kwire.cluster.metadata.election import is_new
from kwire.cluster.metadata.features import ELR_VERSION
from kwire.cluster.metadata.image import TOPIC_RESOURCE, ClusterImage, TopicImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.deciding import commit_decided
from kwire.cluster.stores.zookeeper import acl_znodes, reading, token_znodes, znodes
from kwire.cluster.stores.zookeeper.acl_following import DAMAGED
from kwire.cluster.stores.zookeeper.config import ZooKeeperConfig
from kwire.cluster.stores.zookeeper.session import OutcomeUnknown, Refused, Session
from kwire.cluster.stores.zookeeper.store import ZooKeeperStore
from kwire.codecs.uuids import uuid_text
from kwire.security.acls import check_for_zookeeper

CHANGES_AT_ONCE = 500
"""Of one commit: some thousands of znodes."""

Said = TypeVar("Said")


class CannotAdopt(Exception):
    """ZooKeeper has something else there, or somebody is at it; the sentence says what."""


@dataclass(slots=True)
class Adoption:
    """What is to be written; empty where all of it is there already."""

    cluster_id: str | None = None
    producer_ids: range | None = None
    asked: Mapping[str, int] = field(default_factory=dict)
    """The levels of features that an administrator has set."""
    configs: list[SetConfigs] = field(default_factory=list)
    acls: list[ChangeAcls] = field(default_factory=list)
    tokens: list[SetToken] = field(default_factory=list)
    topics: list[TopicImage] = field(default_factory=list)

    @property
    def paths(self) -> Iterator[str]:
        """The znodes, without those below a topic."""
        if self.cluster_id is not None:
            yield znodes.CLUSTER_ID
        if self.producer_ids is not None:
            yield znodes.PRODUCER_ID_BLOCK
        if self.asked:
            yield znodes.FEATURE
        for each in self.configs:
            yield znodes.config_path((each.resource, each.name))
        yield from (acl_znodes.acl_path(each.pattern) for each in self.acls)
        yield from (token_znodes.token_path(each.token_id) for each in self.tokens)
        yield from (znodes.topic_path(topic.name) for topic in self.topics)


async def adopt(
    config: ZooKeeperConfig, image: ClusterImage, broker_id: int, *, dry_run: bool = False
) -> Adoption:
    """Write `image`, whose broker is `broker_id`; with `dry_run`, tell what would be written.

    Raises CannotAdopt, and StoreError where ZooKeeper cannot be reached.
    """
    async with trio.open_nursery() as nursery:
        session = Session(config, lambda state: None, lambda path: None)
        nursery.start_soon(session.run)
        try:
            adoption = await _planned(session, image, broker_id)
            if not dry_run:
                await _write_identity(session, adoption, broker_id)
        finally:
            session.close()
    if not dry_run:
        await _write_the_rest(config, image, adoption, broker_id)
    return adoption


# -- what there is


async def _planned(session: Session, image: ClusterImage, broker_id: int) -> Adoption:
    adoption = Adoption()
    known = await session.get(znodes.CLUSTER_ID)
    if known is None:
        adoption.cluster_id = image.cluster_id
    elif (other := znodes.decode_cluster_id(known[0])) != image.cluster_id:
        raise CannotAdopt(f"ZooKeeper has the cluster {other}, and this is {image.cluster_id}")
    if running := await session.children(znodes.BROKER_IDS):
        raise CannotAdopt(
            f"broker {running[0]} is registered in ZooKeeper: stop all brokers, then do it again"
        )
    adoption.producer_ids = await _producer_ids(session, image)
    adoption.asked = await _asked(session, image)
    adoption.configs = await _configs(session, image)
    adoption.acls = await _acls(session, image)
    adoption.tokens = await _tokens(session, image)
    adoption.topics = await _topics(session, image, broker_id)
    return adoption


async def _producer_ids(session: Session, image: ClusterImage) -> range | None:
    """A block whose end is the last id that the node may have given; None if that is known."""
    found = await session.get(znodes.PRODUCER_ID_BLOCK)
    following = znodes.decode_next_producer_id(None if found is None else found[0])
    if following >= image.next_producer_id:
        return None
    return range(image.next_producer_id - 1, image.next_producer_id)


async def _configs(session: Session, image: ClusterImage) -> list[SetConfigs]:
    """But those of topics, which are written with them."""
    wanted = []
    for (resource, name), configs in sorted(image.configs.items()):
        if resource == TOPIC_RESOURCE or not configs:
            continue
        found = await session.get(znodes.config_path((resource, name)))
        there = {} if found is None else znodes.decode_configs(found[0])
        if there == configs:
            continue
        if there:
            path = znodes.config_path((resource, name))
            raise CannotAdopt(f"ZooKeeper has other settings in {path}")
        wanted.append(SetConfigs(resource, name, {}, configs))
    return wanted


async def _asked(session: Session, image: ClusterImage) -> Mapping[str, int]:
    """What of the features no administrator has said in ZooKeeper already.

    Clusters on ZooKeeper have no ELR, with which a new cluster of another kind begins.
    """
    wanted = {name: level for name, level in image.features.asked.items() if name != ELR_VERSION}
    there = (await reading.features(session)).asked
    if there and there != wanted:
        raise CannotAdopt(f"ZooKeeper has other levels of features in {znodes.FEATURE}")
    return {} if there else wanted


async def _acls(session: Session, image: ClusterImage) -> list[ChangeAcls]:
    """Refused where one of them would be lost: it may be the one that denies something."""
    for pattern, entries in image.acls.items():
        for entry in entries:
            try:
                check_for_zookeeper(pattern, entry)
            except Refusal as refusal:
                raise CannotAdopt(
                    f"brokers on ZooKeeper cannot keep the access control list on {pattern.name!r}"
                    f" that names {entry.principal}: remove it first"
                ) from refusal
    patterns = sorted(image.acls)
    paths = [acl_znodes.acl_path(pattern) for pattern in patterns]
    wanted = []
    for pattern, path, found in zip(patterns, paths, await session.get_all(paths), strict=True):
        entries = image.acls_on(pattern)
        there = None if found is None else _understood(path, found[0], acl_znodes.decode_acls)
        if there and there != entries:
            raise CannotAdopt(f"ZooKeeper has other access control entries in {path}")
        if not there:
            wanted.append(ChangeAcls(pattern, added=tuple(sorted(entries))))
    return wanted


async def _tokens(session: Session, image: ClusterImage) -> list[SetToken]:
    ids = sorted(image.tokens)
    paths = [token_znodes.token_path(each) for each in ids]
    wanted = []
    for token_id, path, found in zip(ids, paths, await session.get_all(paths), strict=True):
        token = image.tokens[token_id]
        there = None if found is None else _understood(path, found[0], token_znodes.decode_token)
        if there is not None and there != token:
            raise CannotAdopt(f"ZooKeeper has another delegation token {token_id}")
        if there is None:
            wanted.append(SetToken(token_id, None, token))
    return wanted


def _understood(path: str, content: bytes, decode: Callable[[bytes], Said]) -> Said:
    try:
        return decode(content)
    except DAMAGED as problem:
        raise CannotAdopt(f"{path} in ZooKeeper cannot be understood: {problem!r}") from problem


async def _topics(session: Session, image: ClusterImage, broker_id: int) -> list[TopicImage]:
    names = sorted(image.topics)
    found = await session.get_all([znodes.topic_path(name) for name in names])
    for name, each in zip(names, found, strict=True):
        if each is None:
            continue
        known = znodes.decode_topic(each[0]).id
        if known != image.topics[name].id:
            other = "without an id" if known is None else f"with the id {uuid_text(known)}"
            raise CannotAdopt(f"ZooKeeper has a topic {name} {other}: it is not this one")
    for name in names:
        for index, state in enumerate(image.topics[name].partitions):
            if state.replicas != (broker_id,):
                raise CannotAdopt(
                    f"{name}-{index} has the replicas {list(state.replicas)}: this is no single"
                    " node's directory"
                )
    states = await session.get_all([_last_state(image.topics[name]) for name in names])
    return [image.topics[name] for name, state in zip(names, states, strict=True) if state is None]


def _last_state(topic: TopicImage) -> str:
    """The znode that is written last."""
    return znodes.state_path(topic.name, len(topic.partitions) - 1)


# -- what is written


async def _write_identity(session: Session, adoption: Adoption, broker_id: int) -> None:
    await session.make_root()
    if adoption.cluster_id is not None:
        await session.make_path(znodes.CLUSTER_ID.rpartition("/")[0])
        content = znodes.encode_cluster_id(adoption.cluster_id)
        if not await session.make(znodes.CLUSTER_ID, content):
            raise CannotAdopt("another cluster began in ZooKeeper a moment ago")
    await reading.make_persistent_paths(session)
    if adoption.producer_ids is not None:
        content = znodes.encode_producer_ids(broker_id, adoption.producer_ids)
        try:
            await session.multi([session.set_data(znodes.PRODUCER_ID_BLOCK, content)])
        except (Refused, OutcomeUnknown) as problem:
            raise StoreError(f"{znodes.PRODUCER_ID_BLOCK} was not written: {problem}") from problem


async def _write_the_rest(
    config: ZooKeeperConfig, image: ClusterImage, adoption: Adoption, broker_id: int
) -> None:
    """As the controller, which nobody else can be meanwhile."""
    config = replace(config, has_acls=bool(adoption.acls), has_tokens=bool(adoption.tokens))
    async with trio.open_nursery() as nursery:
        store = ZooKeeperStore(config, broker_id)
        await nursery.start(store.run)
        try:
            if not await store.campaign():
                raise CannotAdopt("another broker has become the controller a moment ago")
            asking = partial(_asking, adoption.asked)
            await commit_decided(store, lambda: store.image, [asking])
            changes = list(_changes(store.image, image, adoption))
            for start in range(0, len(changes), CHANGES_AT_ONCE):
                await store.commit(changes[start : start + CHANGES_AT_ONCE])
            await store.resign()
        finally:
            store.close()


def _asking(asked: Mapping[str, int], known: ClusterImage) -> SetFeatures | None:
    """A decision, for /feature is a moment old and the image may not have it yet."""
    before = known.features
    if not asked or before.asked == asked:
        return None
    return SetFeatures(before.epoch, replace(before, asked=asked, epoch=before.epoch + 1))


def _changes(known: ClusterImage, image: ClusterImage, adoption: Adoption) -> Iterator[Change]:
    yield from adoption.configs
    yield from adoption.acls
    yield from adoption.tokens
    for topic in adoption.topics:
        # What a partition's state says of the controller must not be later than it is.
        states = [
            replace(state, controller_epoch=known.controller_epoch, partition_epoch=0)
            for state in topic.partitions
        ]
        begun = known.topics.get(topic.name)
        if begun is None:
            configs = image.configs_of(TOPIC_RESOURCE, topic.name)
            yield CreateTopic(replace(topic, partitions=tuple(states)), configs)
            continue
        for index, state in enumerate(begun.partitions):
            if is_new(state):
                yield AlterPartition(topic.name, topic.id, index, -1, states[index])
