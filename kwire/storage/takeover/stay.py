"""A stay: the time that kwire uses data directories which Apache Kafka used, or may use again."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.cluster.decisions.topic_creation import by_default
from kwire.cluster.metadata.changes import AlterPartition, CreateTopic, DeleteTopic, TakeProducerIds
from kwire.cluster.metadata.image import FIRST_PRODUCER_ID, TOPIC_RESOURCE, ClusterImage
from kwire.cluster.metadata.topic_names import INTERNAL_TOPICS
from kwire.codecs.uuids import uuid_bytes
from kwire.log import LogDirError, LogError, LogManager
from kwire.log.directory import kraft_metadata, log_dir
from kwire.log.directory.log_dir import NO_BROKER_EPOCH
from kwire.settings import CLUSTER_DEFAULT, ConfigResourceType
from kwire.settings.topic_settings import TopicSettings
from kwire.storage.takeover import is_fresh, is_zookeepers, metadata_folder, on_disk, reconciling
from kwire.storage.takeover.features import is_behind
from kwire.storage.takeover.kraft_changes import UNASSIGNED, Replica
from kwire.storage.takeover.mirror import KraftMirror
from kwire.storage.takeover.reconciling import MetadataFinding

if TYPE_CHECKING:
    from kwire.cluster.stores.local import LocalStore
    from kwire.log.directory.kraft_metadata import KraftMetadata
    from kwire.settings import BrokerConfig

log = logging.getLogger("kwire.takeover")

MARK = "kwire-takeover.json"
"""The file beside the metadata: {"format": 1, "kraft": the state of the KRaft metadata log when
kwire stopped}."""
LOGGED_MAX = 20
"""The most changes that are logged one by one; the others are only counted."""


class Stay:
    """One stay: applies the changes of Apache Kafka, and writes kwire's changes for it.

    The start calls `before_loading` and `after_loading`.  Raises StoreError; LogDirError if the
    KRaft metadata cannot be read.
    """

    def __init__(self, config: BrokerConfig, logs: LogManager, now_ms: Callable[[], int]) -> None:
        """Examine the directories before their logs are loaded: who wrote them, and a clean stop.

        The load removes the marker of a clean stop, so it is read here.
        """
        self._config = config
        self._logs = logs
        self._now_ms = now_ms
        self._compacted = logs.compacted_topics()
        self._is_zookeepers = is_zookeepers(logs)
        self._was_clean = all(
            (each.path / log_dir.CLEAN_SHUTDOWN).exists() for each in logs.online_dirs
        )
        self._folder = metadata_folder(logs)
        self._kraft: KraftMetadata | None = None
        self._mirror: KraftMirror | None = None
        self._was_fresh = False

    # -- before the logs are opened

    async def before_loading(self, store: LocalStore) -> ClusterImage:
        """Apply the KRaft metadata to kwire's, and write later commits to it; returns the image."""
        image = await store.load()
        self._was_fresh = is_fresh(image)
        if self._folder is None:
            return image
        try:
            self._kraft = kraft_metadata.read(self._folder, self._logs.files)
            if self._was_fresh or self._has_moved() or is_behind(image, self._kraft):
                image = await self._follow(store, image, self._findings(image, self._kraft))
            self._restore_strays(image)
            if self._may_write(self._kraft):
                self._mirror = self._mirror_of()
                self._mirror.note((), image)
                self._mirror.noted()
                self._mirror.continue_in(store)
                me = self._config.node_id
                self._logs.broker_epoch = self._kraft.broker_epochs.get(me, NO_BROKER_EPOCH)
                store.ahead = self._mirror
        except OSError as error:
            raise LogDirError(f"the KRaft metadata in {self._folder}: {error}") from error
        return image

    def _findings(self, image: ClusterImage, kraft: KraftMetadata) -> Iterable[MetadataFinding]:
        """Return what Kafka changed, from its KRaft metadata and the folders on disk."""
        return reconciling.from_kraft(
            image,
            kraft,
            self._config.node_id,
            on_disk.folders(self._logs.online_dirs),
            self._kept,
        )

    def _kept(self, kind: int, name: str, configs: Mapping[str, str]) -> Mapping[str, str] | None:
        """Return the configs of a resource that kwire keeps; None if it ignores the resource."""
        if kind == TOPIC_RESOURCE:
            return {key: text for key, text in configs.items() if key in TopicSettings.DEFINITIONS}
        if kind in (ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS):
            return configs
        mine = (CLUSTER_DEFAULT, str(self._config.node_id))
        return configs if kind == ConfigResourceType.BROKER and name in mine else None

    def _has_moved(self) -> bool:
        """Whether the KRaft metadata log has changed since kwire stopped."""
        assert self._folder is not None
        return self._left() != kraft_metadata.fingerprint(self._folder)

    def _left(self) -> str | None:
        """Return the state of the KRaft metadata when kwire last left it, None if unknown.

        A damaged mark is logged and ignored.
        """
        try:
            left = json.loads(self._logs.files.read(self._mark))["kraft"]
        except FileNotFoundError:
            return None
        except (ValueError, LookupError, TypeError) as error:
            log.warning("%s is ignored: %r", self._mark, error)
            return None
        return left if isinstance(left, str) else None

    @property
    def _mark(self) -> Path:
        return Path(self._config.log_dirs[0]) / MARK

    def _leave_mark(self) -> None:
        if self._folder is not None:
            mark = {"format": 1, "kraft": kraft_metadata.fingerprint(self._folder)}
            self._logs.files.replace(self._mark, json.dumps(mark).encode() + b"\n")

    async def _follow(
        self, store: LocalStore, image: ClusterImage, findings: Iterable[MetadataFinding]
    ) -> ClusterImage:
        """Log the findings and commit their changes."""
        findings = list(findings)
        sentences = [
            finding.says for finding in findings if not isinstance(finding.change, AlterPartition)
        ]
        led = len(findings) - len(sentences)
        since = "now taken over" if self._was_fresh else "since kwire last had these directories"
        for sentence in sentences[:LOGGED_MAX]:
            log.warning("%s: %s", since, sentence)
        if len(sentences) > LOGGED_MAX:
            log.warning("%s: %d more changes", since, len(sentences) - LOGGED_MAX)
        if led:
            log.warning("%s: %d partitions were led in later epochs", since, led)
        changes = [finding.change for finding in findings if finding.change is not None]
        return await store.commit(changes) if changes else image

    def _restore_strays(self, image: ClusterImage) -> None:
        """Rename stray folders of Apache Kafka back, if their topics are in the metadata."""
        for directory, path, topic, index in list(on_disk.strays(self._logs.online_dirs)):
            known = image.topics.get(topic)
            name = log_dir.partition_folder(topic, index)
            is_ours = known is not None and on_disk.topic_id(directory, path) == known.id
            if is_ours and not any((each.path / name).exists() for each in self._logs.online_dirs):
                directory.rename_folder(path, name)
                log.warning("%s was set aside as %s: it is served again", name, path.name)

    # -- writing for Apache Kafka

    def _may_write(self, kraft: KraftMetadata) -> bool:
        """Return whether this node is alone in the KRaft metadata log; logs a warning if not."""
        me = self._config.node_id
        if kraft.voters != {me}:
            why = f"its voters are {sorted(kraft.voters)}"
        elif any(
            state.replicas != (me,)
            for states in kraft.partitions.values()
            for state in states.values()
        ):
            why = "other brokers have partitions"
        else:
            return True
        log.warning(
            "this node is not alone in the KRaft metadata log (%s), so kwire cannot write to it: "
            "Apache Kafka will not have topics, partitions and configs that are created now, and "
            "will set their folders aside as -stray. Copy them while kwire runs: "
            "kwire pipeline mirror",
            why,
        )
        return False

    def _mirror_of(self) -> KraftMirror:
        """Return a writer of the KRaft metadata for this node.

        Replicas get the id of the log directory only if there is just one; else it is UNASSIGNED.
        """
        assert self._folder is not None
        directories = self._logs.online_dirs
        directory_id = UNASSIGNED
        if len(directories) == 1 and (known := directories[0].identity()) is not None:
            directory_id = uuid_bytes(known.directory_id) if known.directory_id else UNASSIGNED
        replica = Replica(self._config.node_id, directory_id)
        return KraftMirror(self._folder, self._logs.files, replica, self._now_ms)

    # -- after the logs are opened

    def configs_of(self, image: ClusterImage, topic: str) -> Mapping[str, str]:
        """Return the configs with which a topic's logs are opened."""
        if topic in image.topics or self._kraft is not None:
            return image.configs_of(TOPIC_RESOURCE, topic)
        if topic in INTERNAL_TOPICS:
            shape = by_default(self._config, topic, brokers_count=1).configs
            return {name: text for name, text in shape.items() if text is not None}
        return {"cleanup.policy": "compact"} if topic in self._compacted else {}

    def trusted(self, image: ClusterImage) -> ClusterImage | None:
        """The metadata that decides which topic a log belongs to; None if the logs decide."""
        return None if self._follows_logs else image

    @property
    def _follows_logs(self) -> bool:
        """Whether topics are taken from the logs: without ZooKeeper only at the first start.

        They are not after a kill, because kwire may have been removing folders.
        """
        if self._kraft is not None:
            return False
        return self._was_fresh or (self._is_zookeepers and self._was_clean)

    async def after_loading(self, store: LocalStore) -> ClusterImage:
        """Apply what only the logs have: later epochs, and topics.  Returns the image."""
        image = await store.load()
        try:
            return await self._after_loading(store, image)
        except OSError as error:
            raise LogDirError(f"the logs of the last owner cannot be read: {error}") from error

    async def _after_loading(self, store: LocalStore, image: ClusterImage) -> ClusterImage:
        """Apply to the metadata what only the logs have, commit it, and return the image.

        These are topics that no metadata has, newer leader epochs, and producer ids that are in
        use.
        """
        if self._kraft is None:
            if self._is_zookeepers:
                log.warning(
                    "Apache Kafka keeps its metadata in ZooKeeper: it will not have topics, "
                    "partitions and configs that are created now. Copy them while kwire runs: "
                    "kwire pipeline mirror"
                )
            if self._follows_logs:
                image = await self._follow(store, image, list(self._from_logs(image)))
        image = await self._follow(store, image, list(self._newer_epochs(image)))
        if self._was_fresh:
            largest = max(on_disk.producer_ids(self._logs), default=-1)
            if largest >= FIRST_PRODUCER_ID:
                taken = TakeProducerIds(image.next_producer_id, largest + 1)
                image = await store.commit([taken])
        if self._mirror is not None and image.next_producer_id < FIRST_PRODUCER_ID:
            self._mirror.raise_producer_ids(image.next_producer_id - 1)  # of an older kwire
        self._leave_mark()
        return image

    def _from_logs(self, image: ClusterImage) -> Iterable[MetadataFinding]:
        """Yield the changes that make the topics of `image` agree with the logs."""
        by_topic = on_disk.by_topic(self._logs)
        for name, partitions in by_topic.items():
            known = image.topics.get(name)
            topic = on_disk.topic_of(name, partitions, self._config.node_id)
            if topic is None:
                yield MetadataFinding(f"{name} is left alone: it lacks some of its partitions")
            elif known is None:
                made = CreateTopic(topic, self.configs_of(image, name))
                yield MetadataFinding(
                    f"topic {name}, with {len(topic.partitions)} partitions", made
                )
            else:
                yield from reconciling.from_logs(known, topic, image)
        if not self._was_fresh and not self._logs.offline_dirs:
            for name, topic in image.topics.items():
                if name not in by_topic:
                    yield MetadataFinding(f"topic {name} was deleted", DeleteTopic(name, topic.id))

    def _newer_epochs(self, image: ClusterImage) -> Iterable[MetadataFinding]:
        """Yield each partition whose log has a newer leader epoch than the metadata."""
        for (name, index), partition_log in self._logs.logs.items():
            topic = image.topics.get(name)
            if topic is None or index >= len(topic.partitions):
                continue
            epoch = on_disk.newest_epoch(partition_log)
            if epoch > topic.partitions[index].leader_epoch:
                yield reconciling.newer_epoch(topic, index, epoch)

    def close(self) -> None:
        """Close the KRaft log and write the mark, at the stop."""
        try:
            if self._mirror is not None:
                self._mirror.close()
            self._leave_mark()
        except (OSError, LogError) as error:
            log.error("the KRaft metadata log could not be closed: %s", error)
