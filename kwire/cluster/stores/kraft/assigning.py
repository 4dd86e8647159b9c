"""DirectoryAssignments: tells the controllers in which log directory each replica is.

With several log directories a new replica has none in the metadata: the broker picks one, and says
so by AssignReplicasToDirs.  Until then the controllers do not know which replicas a failed
directory takes away.  Assignments wait in a queue, are sent many at once, and again until the
controllers have them.  One is dropped if the metadata have it, or have no such replica any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from kwire.cluster.metadata.image import NO_LEADER
from kwire.cluster.peers.error import PeerError
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.stores.kraft.living import BrokerLife, Calls

BATCH_MAX: Final = 2_250
"""Assignments in one request (AssignReplicasToDirsRequest.MAX_ASSIGNMENTS_PER_REQUEST)."""
RETRY_MS: Final = 100
RETRY_MAX_MS: Final = 10_000
"""The wait after a failure, doubled after each in a row."""
CALL_MS: Final = 30_000
"""How long one request may take; it does no harm to send it twice."""

Replica = tuple[bytes, int]
"""(topic id, partition index)"""

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class AssignmentQueue:
    """The assignments that the controllers do not have yet (pure)."""

    waiting: dict[Replica, bytes] = field(default_factory=dict)
    """The directory id of each replica, the oldest first."""

    def add(self, replica: Replica, directory: bytes) -> None:
        """Assign `replica` to `directory`, instead of what waits for it."""
        self.waiting.pop(replica, None)
        self.waiting[replica] = directory

    def drop_settled(self, image: ClusterImage, broker_id: int) -> None:
        """Drop what the image has, and replicas that are not this broker's any more.

        The directory of a replica of a partition without a leader is told again if somebody asks
        for it: that makes the controllers look for a leader.
        A topic that the image does not have yet is no reason to wait: its id came from an image.
        """
        for replica, directory in list(self.waiting.items()):
            known = _directory_of(image, broker_id, replica)
            topic_id, index = replica
            if known is None or (known == directory and _has_leader(image, topic_id, index)):
                del self.waiting[replica]

    def batch(self) -> dict[Replica, bytes]:
        """The assignments of the next request; empty if none waits."""
        return dict(list(self.waiting.items())[:BATCH_MAX])

    def answered(self, sent: dict[Replica, bytes], answer: AssignReplicasToDirsResponse) -> int:
        """Drop what the controllers took; return how many of `sent` they did not take."""
        left = dict(sent)
        for directory in answer.directories if not answer.error_code else []:
            for topic in directory.topics:
                for partition in topic.partitions:
                    replica = topic.topic_id, partition.partition_index
                    if partition.error_code == ErrorCode.NONE and left.get(replica) == directory.id:
                        del left[replica]
                        if self.waiting.get(replica) == directory.id:
                            del self.waiting[replica]
        for replica in left:  # others go first next time
            if self.waiting.get(replica) == left[replica]:
                self.add(replica, left[replica])
        return len(left)


def request_of(
    broker_id: int, broker_epoch: int, assignments: dict[Replica, bytes]
) -> AssignReplicasToDirsRequest:
    """The request with these assignments, by directory and topic."""
    directories: dict[bytes, dict[bytes, list[int]]] = {}
    for (topic_id, index), directory in assignments.items():
        directories.setdefault(directory, {}).setdefault(topic_id, []).append(index)
    return AssignReplicasToDirsRequest(
        broker_id,
        broker_epoch,
        [
            RequestDirectoryData(directory, list(_topics(topics)))
            for directory, topics in directories.items()
        ],
    )


def _topics(topics: dict[bytes, list[int]]) -> Iterable[RequestTopicData]:
    for topic_id, indexes in topics.items():
        yield RequestTopicData(topic_id, [RequestPartitionData(index) for index in indexes])


def _directory_of(image: ClusterImage, broker_id: int, replica: Replica) -> bytes | None:
    """The directory id that the image has for the replica; None if there is no such replica."""
    topic_id, index = replica
    topic = image.topic_by_id(topic_id)
    if topic is None or index >= len(topic.partitions):
        return None
    partition = topic.partitions[index]
    if broker_id not in partition.replicas:
        return None
    place = partition.replicas.index(broker_id)
    return partition.directories[place] if place < len(partition.directories) else b""


def _has_leader(image: ClusterImage, topic_id: bytes, index: int) -> bool:
    topic = image.topic_by_id(topic_id)
    return topic is not None and topic.partitions[index].leader != NO_LEADER


class DirectoryAssignments:
    """The queue, and the task that empties it."""

    def __init__(self, channel: Calls, life: BrokerLife, image: Callable[[], ClusterImage]) -> None:
        self._queue = AssignmentQueue()
        self._channel = channel
        self._life = life
        self._image = image
        self._added = trio.Event()

    @property
    def waiting(self) -> int:
        """How many assignments the controllers do not have yet."""
        return len(self._queue.waiting)

    def assign(self, topic_id: bytes, index: int, directory: bytes) -> None:
        """Tell the controllers that this broker's replica is in the directory with that id."""
        self._queue.add((topic_id, index), directory)
        self._added.set()

    async def run(self) -> None:
        """Send what waits, until this broker has left."""
        failures = 0
        while True:
            self._queue.drop_settled(self._image(), self._life.broker_id)
            batch = self._queue.batch()
            if not batch:
                failures = 0
                self._added = trio.Event()
                await self._added.wait()
                continue
            try:
                is_taken = await self._send(batch)
            except StoreError:
                return
            failures = 0 if is_taken else failures + 1
            if failures:
                await trio.sleep(min(RETRY_MS << min(failures - 1, 16), RETRY_MAX_MS) / 1000)

    async def _send(self, batch: dict[Replica, bytes]) -> bool:
        """Send one request; return whether the controllers took all of it.

        Raises StoreError if this broker has left.
        """
        epoch = await self._life.wait_registered()
        request = request_of(self._life.broker_id, epoch, batch)
        try:
            answer = await self._channel.call(request, CALL_MS)
        except PeerError as error:
            _logger.info("%d replicas are not assigned to directories: %s", len(batch), error)
            return False
        refused = self._queue.answered(batch, answer)
        if refused:
            _logger.info(
                "the controllers have not assigned %d replicas to directories (error %d)",
                refused,
                answer.error_code,
            )
        return not refused
