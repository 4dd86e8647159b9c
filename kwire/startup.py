"""Opening and closing what a broker stands on: log directories, metadata, partitions."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from kwire import cleaning
from kwire.broker import Broker
from kwire.cluster.image import ClusterImage, PartitionImage, TopicImage
from kwire.cluster.local import FILE_NAME, LocalStore, random_uuid, uuid_text
from kwire.config import ConfigResourceType, topic_log_config
from kwire.log import Intervals, Log, LogManager

if TYPE_CHECKING:
    from kwire.config import BrokerConfig

log = logging.getLogger("kwire.startup")

UPKEEP_INTERVAL_S = 1.0
"""How often the logs are asked what is due; retention and removals need no better."""

ZERO_UUID = bytes(16)


@asynccontextmanager
async def open_broker(config: BrokerConfig, nursery: trio.Nursery) -> AsyncIterator[Broker]:
    """A broker with its partitions open; on leaving, everything is durable and marked clean.

    Raises LogDirLocked, LogDirError, StoreError.
    """
    logs = LogManager(
        config.log_dirs,
        intervals=Intervals(
            **{name: getattr(config, name) for name in Intervals.__slots__},
        ),
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        verify_transactions=config.transaction_partition_verification_enable,
    )
    logs.defaults = topic_log_config(config, {})
    cluster_id = logs.identify(config.node_id, uuid_text(random_uuid()))
    path = Path(config.log_dirs[0]) / FILE_NAME
    is_new = not path.exists()
    store = LocalStore(path, cluster_id)
    image = await store.load()
    logs.load(
        lambda topic: topic_log_config(config, image.configs_of(ConfigResourceType.TOPIC, topic))
    )
    if is_new and logs.logs:
        image = await store.commit(image.version, _adopt(image, logs, config.node_id))
    broker = Broker(config, store, logs, image.cluster_id)
    try:
        await broker.start(nursery)
        _warn_of_strays(broker)
        nursery.start_soon(_upkeep, broker)
        nursery.start_soon(cleaning.run, broker)
        yield broker
    finally:
        logs.close(broker.high_watermark_of)
        store.close()


def _adopt(image: ClusterImage, logs: LogManager, node_id: int) -> ClusterImage:
    """Topics for the logs of a data directory that came without metadata, say Apache Kafka's."""
    by_topic: dict[str, dict[int, Log]] = {}
    for (topic, index), found in logs.logs.items():
        by_topic.setdefault(topic, {})[index] = found
    topics = []
    for name, partitions in by_topic.items():
        if sorted(partitions) != list(range(len(partitions))):
            log.warning("%s is left alone: it lacks some of its partitions", name)
            continue
        known = {found.topic_id for found in partitions.values()} - {ZERO_UUID}
        topic_id = known.pop() if known else random_uuid()
        states = [
            PartitionImage(
                node_id, max(partitions[index].epochs.latest_epoch, 0), 0, (node_id,), (node_id,)
            )
            for index in sorted(partitions)
        ]
        topics.append(TopicImage(name, topic_id, tuple(states)))
    log.info("found %d topics without metadata and took them over", len(topics))
    return image.with_topics(topics)


def _warn_of_strays(broker: Broker) -> None:
    for topic, index in broker.logs.logs:
        if broker.partition(topic, index) is None:
            log.warning(
                "%s-%d is on disk but in no metadata: it is neither served nor touched",
                topic,
                index,
            )


async def _upkeep(broker: Broker) -> None:
    """Retention, removals, flushes and checkpoints; what may block runs in a thread."""
    while True:
        await trio.sleep(UPKEEP_INTERVAL_S)
        broker.open_missing()
        for job in broker.logs.maintain(broker.now_ms(), broker.high_watermark_of):
            await trio.to_thread.run_sync(job.run)
            job.finish()
