"""A single node's metadata, taken into ZooKeeper: its broker is the first of a cluster then.

    /cluster/id                   its cluster id, where ZooKeeper has none yet
    /latest_producer_id_block     up to the last id that the node may have given
    /config/…                     what is set on brokers, groups and metrics
    /brokers/topics/…             its topics, with their ids, what is set on them, and who leads

in this order, so that a cluster id is there before anybody else can make one, and a topic before
nothing that it needs.  What was interrupted is finished by doing it again: a topic with the same id
is the node's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import trio

from kwire.cluster.store import StoreError
from kwire.cluster.zookeeper import reading, znodes
from kwire.cluster.zookeeper.config import ZooKeeperConfig
from kwire.cluster.zookeeper.session import OutcomeUnknown, Refused, Session
from kwire.cluster.zookeeper.store import ZooKeeperStore
from kwire.codecs.uuids import uuid_text
from kwire.metadata.changes import AlterPartition, Change, CreateTopic, SetConfigs
from kwire.metadata.election import is_new
from kwire.metadata.image import TOPIC_RESOURCE, ClusterImage, TopicImage

CHANGES_AT_ONCE = 500
"""Of one commit: some thousands of znodes."""


class CannotAdopt(Exception):
    """ZooKeeper has something else there, or somebody is at it; the sentence says what."""


@dataclass(slots=True)
class Adoption:
    """What is to be written; empty where all of it is there already."""

    cluster_id: str | None = None
    producer_ids: range | None = None
    configs: list[SetConfigs] = field(default_factory=list)
    topics: list[TopicImage] = field(default_factory=list)

    @property
    def paths(self) -> Iterator[str]:
        """The znodes, without those below a topic."""
        if self.cluster_id is not None:
            yield znodes.CLUSTER_ID
        if self.producer_ids is not None:
            yield znodes.PRODUCER_ID_BLOCK
        for each in self.configs:
            yield znodes.config_path((each.resource, each.name))
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
    adoption.configs = await _configs(session, image)
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
    async with trio.open_nursery() as nursery:
        store = ZooKeeperStore(config, broker_id)
        await nursery.start(store.run)
        try:
            if not await store.campaign():
                raise CannotAdopt("another broker has become the controller a moment ago")
            changes = list(_changes(store.image, image, adoption))
            for start in range(0, len(changes), CHANGES_AT_ONCE):
                await store.commit(changes[start : start + CHANGES_AT_ONCE])
            await store.resign()
        finally:
            store.close()


def _changes(known: ClusterImage, image: ClusterImage, adoption: Adoption) -> Iterator[Change]:
    yield from adoption.configs
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
