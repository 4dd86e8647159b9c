"""Writes a single node's metadata to ZooKeeper: its broker becomes the first one of a cluster.

Adoption writes in this order:

    /cluster/id                   the cluster id, if ZooKeeper has none
    /latest_producer_id_block     a block that ends with the last id that the node may have used
    /feature                      the feature levels that an administrator has set
    /config/…                     configs of brokers, groups, metrics, users, clients, addresses
    /kafka-acl…                   access control lists
    /delegation_token/tokens/…    delegation tokens
    /brokers/topics/…             topics with their ids, configs and partition states

The cluster id comes first, so that no other broker can create one.  Topics come last, so that a
topic is never there without something that it needs, above all an access control list that denies
something.  An interrupted adoption is finished by running it again: equal content, and a topic with
the same id, count as written by this node.
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
from kwire.cluster.stores.zookeeper.session import (
    OutcomeUnknown,
    TransactionRefused,
    ZooKeeperSession,
)
from kwire.cluster.stores.zookeeper.store import ZooKeeperStore
from kwire.codecs.uuids import uuid_text
from kwire.security.acls import check_for_zookeeper
from kwire.security.host_ranges import range_of

CHANGES_AT_ONCE = 500
"""Changes in one commit: some thousands of znodes."""

Decoded = TypeVar("Decoded")


class CannotAdopt(Exception):
    """ZooKeeper has other metadata, or brokers are running; the message says which."""


@dataclass(slots=True)
class Adoption:
    """What adoption writes; empty if ZooKeeper has all of it."""

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
        """Yield the paths that are written, without those below a topic."""
        if self.cluster_id is not None:
            yield znodes.CLUSTER_ID
        if self.producer_ids is not None:
            yield znodes.PRODUCER_ID_BLOCK
        if self.asked:
            yield znodes.FEATURE
        for change in self.configs:
            yield znodes.config_path((change.resource, change.name))
        yield from (acl_znodes.acl_path(change.pattern) for change in self.acls)
        yield from (token_znodes.token_path(change.token_id) for change in self.tokens)
        yield from (znodes.topic_path(topic.name) for topic in self.topics)


async def adopt(
    config: ZooKeeperConfig, image: ClusterImage, broker_id: int, *, dry_run: bool = False
) -> Adoption:
    """Write `image`, the metadata of the single node `broker_id`; returns what was written.

    With `dry_run` nothing is written.  Raises CannotAdopt; StoreError if ZooKeeper cannot be
    reached.
    """
    async with trio.open_nursery() as nursery:
        session = ZooKeeperSession(config, lambda state: None, lambda path: None)
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


# -- planning: comparing the image with ZooKeeper


async def _planned(session: ZooKeeperSession, image: ClusterImage, broker_id: int) -> Adoption:
    """Return what to write: the parts of `image` that ZooKeeper does not have.

    Raises CannotAdopt if ZooKeeper has another cluster's or other values, or a running broker.
    """
    adoption = Adoption()
    known = await session.get(znodes.CLUSTER_ID)
    if known is None:
        adoption.cluster_id = image.cluster_id
    elif (other := znodes.decode_cluster_id(known[0])) != image.cluster_id:
        raise CannotAdopt(
            f"ZooKeeper has metadata of cluster {other}, but this node is of {image.cluster_id}"
        )
    if running := await session.children(znodes.BROKER_IDS):
        raise CannotAdopt(
            f"broker {running[0]} is registered in ZooKeeper: stop all brokers, then try again"
        )
    adoption.producer_ids = await _producer_ids(session, image)
    adoption.asked = await _asked(session, image)
    adoption.configs = await _configs(session, image)
    adoption.acls = await _acls(session, image)
    adoption.tokens = await _tokens(session, image)
    adoption.topics = await _topics(session, image, broker_id)
    return adoption


async def _producer_ids(session: ZooKeeperSession, image: ClusterImage) -> range | None:
    """Return a block that ends with the last producer id that the node may have used.

    None if ZooKeeper has reserved that id already.
    """
    znode = await session.get(znodes.PRODUCER_ID_BLOCK)
    next_id = znodes.decode_next_producer_id(None if znode is None else znode[0])
    if next_id >= image.next_producer_id:
        return None
    return range(image.next_producer_id - 1, image.next_producer_id)


async def _configs(session: ZooKeeperSession, image: ClusterImage) -> list[SetConfigs]:
    """Return the configs to write, without those of topics, which are written with the topics."""
    wanted = []
    for (resource, name), configs in sorted(image.configs.items()):
        if resource == TOPIC_RESOURCE or not configs:
            continue
        znode = await session.get(znodes.config_path((resource, name)))
        present = {} if znode is None else znodes.decode_configs(znode[0])
        if present == configs:
            continue
        if present:
            path = znodes.config_path((resource, name))
            raise CannotAdopt(f"ZooKeeper has other settings in {path}")
        wanted.append(SetConfigs(resource, name, {}, configs))
    return wanted


async def _asked(session: ZooKeeperSession, image: ClusterImage) -> Mapping[str, int]:
    """Return the feature levels to write; empty if ZooKeeper has them.

    The level of ELR is left out: a new single node has it, but clusters on ZooKeeper have no ELR.
    """
    wanted = {name: level for name, level in image.features.wanted.items() if name != ELR_VERSION}
    present = (await reading.features(session)).asked
    if present and present != wanted:
        raise CannotAdopt(f"ZooKeeper has other levels of features in {znodes.FEATURE}")
    return {} if present else wanted


async def _acls(session: ZooKeeperSession, image: ClusterImage) -> list[ChangeAcls]:
    """Return the access lists to write.

    Raises CannotAdopt for an entry that ZooKeeper cannot keep, or that means less there: an entry
    that is lost may be one that denies access.
    """
    for pattern, entries in image.acls.items():
        for entry in entries:
            if range_of(entry.host) is not None:
                raise CannotAdopt(
                    f"in a cluster on ZooKeeper, {entry.host} is no range of addresses: remove the"
                    f" access control entry on {pattern.name!r} for {entry.principal} first"
                )
            try:
                check_for_zookeeper(pattern, entry)
            except Refusal as refusal:
                raise CannotAdopt(
                    f"ZooKeeper cannot keep the access control entry on {pattern.name!r} for"
                    f" {entry.principal}: remove it first"
                ) from refusal
    patterns = sorted(image.acls)
    paths = [acl_znodes.acl_path(pattern) for pattern in patterns]
    wanted = []
    for pattern, path, znode in zip(patterns, paths, await session.get_all(paths), strict=True):
        entries = image.acls_on(pattern)
        present = None if znode is None else _decoded(path, znode[0], acl_znodes.decode_acls)
        if present and present != entries:
            raise CannotAdopt(f"ZooKeeper has other access control entries in {path}")
        if not present:
            wanted.append(ChangeAcls(pattern, added=tuple(sorted(entries))))
    return wanted


async def _tokens(session: ZooKeeperSession, image: ClusterImage) -> list[SetToken]:
    """Return the delegation tokens that ZooKeeper does not have.

    Raises CannotAdopt if one of them differs there.
    """
    ids = sorted(image.tokens)
    paths = [token_znodes.token_path(token_id) for token_id in ids]
    wanted = []
    for token_id, path, znode in zip(ids, paths, await session.get_all(paths), strict=True):
        token = image.tokens[token_id]
        present = None if znode is None else _decoded(path, znode[0], token_znodes.decode_token)
        if present is not None and present != token:
            raise CannotAdopt(f"ZooKeeper has another delegation token {token_id}")
        if present is None:
            wanted.append(SetToken(token_id, None, token))
    return wanted


def _decoded(path: str, content: bytes, decode: Callable[[bytes], Decoded]) -> Decoded:
    """Return the decoded content of a znode.  Raises CannotAdopt if it is damaged."""
    try:
        return decode(content)
    except DAMAGED as problem:
        raise CannotAdopt(f"{path} in ZooKeeper cannot be decoded: {problem!r}") from problem


async def _topics(
    session: ZooKeeperSession, image: ClusterImage, broker_id: int
) -> list[TopicImage]:
    """Return the topics that have to be written.

    A topic counts as written once the state of its last partition is there.  Raises CannotAdopt if
    ZooKeeper has another topic of a name, or a partition has other replicas than this broker.
    """
    names = sorted(image.topics)
    present = await session.get_all([znodes.topic_path(name) for name in names])
    for name, znode in zip(names, present, strict=True):
        if znode is None:
            continue
        known = znodes.decode_topic(znode[0]).id
        if known != image.topics[name].id:
            other = "without an id" if known is None else f"with the id {uuid_text(known)}"
            raise CannotAdopt(f"ZooKeeper has another topic {name}, {other}")
    for name in names:
        for index, state in enumerate(image.topics[name].partitions):
            if state.replicas != (broker_id,):
                raise CannotAdopt(
                    f"{name}-{index} has the replicas {list(state.replicas)}: this is not the"
                    f" directory of the single node {broker_id}"
                )
    states = await session.get_all([_last_state(image.topics[name]) for name in names])
    return [image.topics[name] for name, state in zip(names, states, strict=True) if state is None]


def _last_state(topic: TopicImage) -> str:
    """The path of the topic's znode that is written last: if it exists, the topic is complete."""
    return znodes.state_path(topic.name, len(topic.partitions) - 1)


# -- writing


async def _write_identity(session: ZooKeeperSession, adoption: Adoption, broker_id: int) -> None:
    """Writes the cluster id, the folders that all brokers need, and the next producer id.

    Raises CannotAdopt if another broker has created a cluster meanwhile, and StoreError.
    """
    await session.make_root()
    if adoption.cluster_id is not None:
        await session.make_path(znodes.CLUSTER_ID.rpartition("/")[0])
        content = znodes.encode_cluster_id(adoption.cluster_id)
        if not await session.make(znodes.CLUSTER_ID, content):
            raise CannotAdopt("another broker has just created a cluster in this ZooKeeper")
    await reading.make_persistent_paths(session)
    if adoption.producer_ids is not None:
        content = znodes.encode_producer_ids(broker_id, adoption.producer_ids)
        try:
            await session.multi([session.set_data(znodes.PRODUCER_ID_BLOCK, content)])
        except (TransactionRefused, OutcomeUnknown) as problem:
            raise StoreError(f"cannot write {znodes.PRODUCER_ID_BLOCK}: {problem}") from problem


async def _write_the_rest(
    config: ZooKeeperConfig, image: ClusterImage, adoption: Adoption, broker_id: int
) -> None:
    """Writes the rest as the controller, so that no other broker can be the controller."""
    config = replace(config, has_acls=bool(adoption.acls), has_tokens=bool(adoption.tokens))
    async with trio.open_nursery() as nursery:
        store = ZooKeeperStore(config, broker_id)
        await nursery.start(store.run)
        try:
            if not await store.campaign():
                raise CannotAdopt("another broker has just become the controller")
            decide_features = partial(_feature_change, adoption.asked)
            await commit_decided(store, lambda: store.image, [decide_features])
            changes = list(_changes(store.image, image, adoption))
            for start in range(0, len(changes), CHANGES_AT_ONCE):
                await store.commit(changes[start : start + CHANGES_AT_ONCE])
            await store.resign()
        finally:
            store.close()


def _feature_change(asked: Mapping[str, int], known: ClusterImage) -> SetFeatures | None:
    """Return the change that sets the levels `asked`; None if they are set.

    This is a decision, to be repeated on a conflict: /feature was created a moment ago, and the
    image may lack it.
    """
    before = known.features
    if not asked or before.asked == asked:
        return None
    return SetFeatures(before.epoch, replace(before, asked=asked, epoch=before.epoch + 1))


def _changes(known: ClusterImage, image: ClusterImage, adoption: Adoption) -> Iterator[Change]:
    """Yield the changes of `adoption`; `known` is ZooKeeper's image, `image` that of the node."""
    yield from adoption.configs
    yield from adoption.acls
    yield from adoption.tokens
    for topic in adoption.topics:
        # The controller epoch in a state must not be above ZooKeeper's.
        states = [
            replace(state, controller_epoch=known.controller_epoch, partition_epoch=0)
            for state in topic.partitions
        ]
        # An interrupted adoption may have written the topic, but not all of its states.
        begun = known.topics.get(topic.name)
        if begun is None:
            configs = image.configs_of(TOPIC_RESOURCE, topic.name)
            yield CreateTopic(replace(topic, partitions=tuple(states)), configs)
            continue
        for index, state in enumerate(begun.partitions):
            if is_new(state):
                yield AlterPartition(topic.name, topic.id, index, -1, states[index])
