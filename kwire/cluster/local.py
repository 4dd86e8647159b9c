"""The metadata of a single node, in one JSON file beside its logs.

The file, UTF-8:

    {"format": 1, "version": n, "cluster_id": "...", "next_producer_id": n,
     "topics": {name: {"id": base64, "partitions": [[leader, leader_epoch, partition_epoch,
                                                     [replica, ...], [in sync, ...]], ...]}},
     "configs": [[resource type, resource name, {config: value}], ...]}

Brokers are not in it: who is registered is known only while it runs.  Every change writes the whole
file anew: temporary file, fsync, rename, fsync of the directory.  After a crash at any point the
file is the old one or the new one, whole.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import trio

from kwire.cluster.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from kwire.cluster.store import StoreError, VersionConflict, Watcher

FORMAT = 1
FILE_NAME = "kwire-metadata.json"


def random_uuid() -> bytes:
    """A topic's or cluster's id.

    As Kafka's Uuid.randomUuid: never one of the reserved first hundred, and its text never opens
    with a dash, which command-line tools would take for an option.
    """
    while True:
        made = uuid.uuid4().bytes
        if not uuid_text(made).startswith("-") and int.from_bytes(made) >= 100:
            return made


def uuid_text(value: bytes) -> str:
    """A uuid as Kafka prints it: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(value)[:22].decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """The uuid that `uuid_text` printed.  Raises ValueError."""
    value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(value) != 16:
        raise ValueError(f"{text!r} is not a uuid in base64")
    return value


class LocalStore:
    """A MetadataStore in the file `path`; created with a new cluster id if there is none.

    `cluster_id` is the id to create it with: that of the logs found beside it, if any.
    The process that opens it must own the directory (its log directories are locked).
    Raises StoreError if the file cannot be read.
    """

    def __init__(self, path: Path, cluster_id: str | None = None) -> None:
        self._path = path
        self._writing = trio.Lock()
        self._watchers: list[Watcher] = []
        self._next_producer_id = 0
        self.on_failure: Callable[[OSError], None] | None = None
        """Hears of each write that failed; called on the loop."""
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            self._image = ClusterImage(cluster_id or uuid_text(random_uuid()))
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write(self._image, 0)
        except OSError as problem:
            raise StoreError(f"cannot read the metadata in {path}: {problem}") from problem
        else:
            self._image, self._next_producer_id = _decode(text, path)

    async def load(self) -> ClusterImage:
        return self._image

    async def commit(self, expected_version: int, image: ClusterImage) -> ClusterImage:
        async with self._writing:
            latest = self._image
            if latest.version != expected_version:
                raise VersionConflict(f"at version {latest.version}, not {expected_version}")
            committed = image.with_version(latest.version + 1)
            await self._save(committed, self._next_producer_id)
            self._publish(committed)
            return committed

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    async def register(self, broker: BrokerImage) -> ClusterImage:
        """A single node is its own controller."""
        async with self._writing:
            image = self._image.with_broker(broker).with_controller(broker.id)
            self._publish(image.with_version(self._image.version + 1))
            return self._image

    async def allocate_producer_ids(self, count: int) -> range:
        async with self._writing:
            first = self._next_producer_id
            await self._save(self._image, first + count)
            self._next_producer_id = first + count
            return range(first, first + count)

    def close(self) -> None:
        self._watchers.clear()

    def _publish(self, image: ClusterImage) -> None:
        self._image = image
        for watcher in tuple(self._watchers):
            watcher(image)

    async def _save(self, image: ClusterImage, next_producer_id: int) -> None:
        try:
            await trio.to_thread.run_sync(self._write, image, next_producer_id)
        except StoreError as problem:
            if self.on_failure is not None and isinstance(problem.__cause__, OSError):
                self.on_failure(problem.__cause__)
            raise

    def _write(self, image: ClusterImage, next_producer_id: int) -> None:
        """Put the new state in the file's place; runs in a worker thread after start-up."""
        try:
            replace_file(self._path, _encode(image, next_producer_id))
        except OSError as problem:
            raise StoreError(f"cannot write the metadata to {self._path}: {problem}") from problem


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves the old content or the new, whole and on the disk."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _encode(image: ClusterImage, next_producer_id: int) -> bytes:
    topics = {
        topic.name: {
            "id": uuid_text(topic.id),
            "partitions": [
                [p.leader, p.leader_epoch, p.partition_epoch, p.replicas, p.isr]
                for p in topic.partitions
            ],
        }
        for topic in image.topics.values()
    }
    configs = [[int(kind), name, dict(values)] for (kind, name), values in image.configs.items()]
    state = {
        "format": FORMAT,
        "version": image.version,
        "cluster_id": image.cluster_id,
        "next_producer_id": next_producer_id,
        "topics": topics,
        "configs": configs,
    }
    return json.dumps(state, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _decode(content: bytes, path: Path) -> tuple[ClusterImage, int]:
    try:
        state = json.loads(content)
        if state["format"] != FORMAT:
            raise StoreError(
                f"the metadata in {path} has format {state['format']}, written by another version "
                f"of kwire; this one reads format {FORMAT}"
            )
        return _decode_state(state)
    except (ValueError, TypeError, KeyError, LookupError) as problem:
        raise StoreError(f"the metadata in {path} is damaged: {problem!r}") from problem


def _decode_state(state: dict[str, Any]) -> tuple[ClusterImage, int]:
    topics = [
        TopicImage(
            name,
            uuid_bytes(topic["id"]),
            tuple(
                PartitionImage(leader, leader_epoch, partition_epoch, tuple(replicas), tuple(isr))
                for leader, leader_epoch, partition_epoch, replicas, isr in topic["partitions"]
            ),
        )
        for name, topic in state["topics"].items()
    ]
    configs = {(kind, name): MappingProxyType(values) for kind, name, values in state["configs"]}
    image = ClusterImage(
        state["cluster_id"], configs=MappingProxyType(configs), version=state["version"]
    )
    return image.with_topics(topics), state["next_producer_id"]
