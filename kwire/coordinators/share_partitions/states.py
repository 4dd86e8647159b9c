"""Sends requests about share partitions to their share coordinators, here or on other brokers.

The share coordinator of a share partition is the leader of its partition of `__share_group_state`.
Requests about one share partition are sent in order: while one waits for a response, or for a
coordinator to become available, the next ones wait in a queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import trio

from kwire.cluster.membership.committing import create_internal_topic
from kwire.cluster.metadata.topic_names import SHARE_GROUP_STATE_TOPIC
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.runtime.promise import Promise, answered
from kwire.coordinators.runtime.share import Reply, ShareCoordinator
from kwire.coordinators.share.machine import ShareStateAnswer
from kwire.coordinators.share.questions import (
    DeleteState,
    InitializeState,
    ReadState,
    ShareStateRequest,
    SummarizeState,
    WriteState,
)
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.state import ShareStateWrite

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.cluster.membership.contract import ClusterMembership
    from kwire.coordinators.share_partitions.remote_states import RemoteStates

RETRIABLE_ERRORS = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Errors that occur while a coordinator moves to another broker."""

RETRY_PAUSES_S: Sequence[float] = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2)
"""Pauses between attempts: about ten seconds in total, longer than a broker's session timeout."""

RequestQueue = deque[tuple[ShareStateRequest, Promise[ShareStateAnswer]]]


class ShareStates:
    """See the module."""

    def __init__(
        self, node: Node, membership: ClusterMembership, coordinator: Callable[[], ShareCoordinator]
    ) -> None:
        """`coordinator` returns this broker's own share coordinator, which is made at first use."""
        self._node = node
        self._membership = membership
        self._coordinator = coordinator
        self._queues: dict[ShareKey, RequestQueue] = {}
        self._remote: RemoteStates | None = None

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> Reply:
        """A group begins to read the partition, or starts over at `start_offset`."""
        return self._ask(InitializeState(key, state_epoch, start_offset))

    def read(self, key: ShareKey, leader_epoch: int) -> Reply:
        """Read the state for the partition's leader in `leader_epoch`; fences earlier leaders."""
        return self._ask(ReadState(key, leader_epoch))

    def write(self, key: ShareKey, written: ShareStateWrite) -> Reply:
        return self._ask(WriteState(key, written))

    def summary(self, key: ShareKey) -> Reply:
        return self._ask(SummarizeState(key))

    def delete(self, key: ShareKey) -> Reply:
        return self._ask(DeleteState(key))

    def _ask(self, request: ShareStateRequest) -> Reply:
        """Sends a request to the share partition's coordinator.

        Returns the answer if it comes at once.  Otherwise returns a promise: the request waits in
        the queue of its share partition, and is tried again while no coordinator is available.
        """
        queue = self._queues.get(request.key)
        if queue is None:
            reply = self._attempt(request)
            if not isinstance(reply, Promise) and reply.error not in RETRIABLE_ERRORS:
                return reply
            queue = self._queues[request.key] = deque()
            self._node.running_nursery.start_soon(self._serve, request.key, queue, reply)
        answer = Promise[ShareStateAnswer]()
        queue.append((request, answer))
        return answer

    async def _serve(self, key: ShareKey, queue: RequestQueue, first_reply: Reply) -> None:
        """Answers the queue's requests.

        `first_reply` is the reply to the first attempt of the first request.
        """
        reply: Reply | None = first_reply
        while queue:
            request, promise = queue[0]
            promise.resolve(await self._ask_until_available(request, reply))
            queue.popleft()
            reply = None
        del self._queues[key]

    async def _ask_until_available(
        self, request: ShareStateRequest, reply: Reply | None
    ) -> ShareStateAnswer:
        """Asks until a coordinator is available; returns its answer, or the last error.

        `reply` is the reply to the first attempt, None if there was none.  Creates
        `__share_group_state` if it does not exist, as a group's first heartbeat does.
        """
        answer = await answered(self._attempt(request) if reply is None else reply)
        if answer.error in RETRIABLE_ERRORS:
            await self.provide_topic()
        for pause_s in RETRY_PAUSES_S:
            if answer.error not in RETRIABLE_ERRORS:
                break
            await trio.sleep(pause_s)
            answer = await answered(self._attempt(request))
        return answer

    def _attempt(self, request: ShareStateRequest) -> Reply:
        """Asks the present coordinator once.

        Returns COORDINATOR_NOT_AVAILABLE if there is none.
        """
        node, coordinator = self._node, self._coordinator()
        if node.peers is None:
            return request.ask(coordinator)
        topic = node.image.topics.get(SHARE_GROUP_STATE_TOPIC)
        if topic is None:
            return ShareStateAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        leader = topic.partitions[coordinator.partition_for(request.key)].leader
        if leader == node.node_id:
            return request.ask(coordinator)
        if leader < 0:
            return ShareStateAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._ask_there(leader, request)

    def _ask_there(self, broker_id: int, request: ShareStateRequest) -> Reply:
        """Sends a request to the share coordinator on another broker."""
        from kwire.coordinators.share_partitions.remote_states import RemoteStates

        if self._remote is None:
            assert self._node.peers is not None
            self._remote = RemoteStates(self._node.peers, self._node.running_nursery)
        return self._remote.ask(broker_id, request)

    async def provide_topic(self) -> None:
        """Create `__share_group_state` unless it exists."""
        if SHARE_GROUP_STATE_TOPIC not in self._node.image.topics:
            await create_internal_topic(self._membership, SHARE_GROUP_STATE_TOPIC)


async def of_each(
    keys: Sequence[ShareKey], ask: Callable[[ShareKey], Reply]
) -> dict[ShareKey, ShareStateAnswer]:
    """Ask about all keys concurrently, and wait for all answers."""
    replies = [(key, ask(key)) for key in keys]
    return {key: await answered(reply) for key, reply in replies}
