"""Where the state of share partitions is kept, for those who lead them and for their groups.

It is kept by the share coordinator of this broker or of another one, whoever leads the partition of
`__share_group_state`.  What is said of a partition is said in order: while one thing is on its way,
or waits for a coordinator that is not there yet, the next ones wait behind it.
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
from kwire.coordinators.share.machine import Answer
from kwire.coordinators.share.questions import Begin, Forget, Question, Read, Summarize, Write
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.state import Written

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.cluster.membership.contract import ClusterMembership
    from kwire.coordinators.share_partitions.remote_states import RemoteStates

AGAIN = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Told while a coordinator moves."""

PAUSES_S: Sequence[float] = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2)
"""Before it is asked again: some ten seconds, which is more than a broker's session lasts."""

Line = deque[tuple[Question, Promise[Answer]]]


class ShareStates:
    """See the module."""

    def __init__(
        self, node: Node, membership: ClusterMembership, coordinator: Callable[[], ShareCoordinator]
    ) -> None:
        """`coordinator` is this broker's own, made when it is first asked for."""
        self._node = node
        self._membership = membership
        self._coordinator = coordinator
        self._lines: dict[ShareKey, Line] = {}
        self._remote: RemoteStates | None = None

    def begin(self, key: ShareKey, state_epoch: int, start_offset: int) -> Reply:
        """A group begins to read the partition, or begins anew."""
        return self._ask(Begin(key, state_epoch, start_offset))

    def read(self, key: ShareKey, leader_epoch: int) -> Reply:
        """Its leader begins to deal out records."""
        return self._ask(Read(key, leader_epoch))

    def write(self, key: ShareKey, written: Written) -> Reply:
        return self._ask(Write(key, written))

    def summary(self, key: ShareKey) -> Reply:
        return self._ask(Summarize(key))

    def forget(self, key: ShareKey) -> Reply:
        return self._ask(Forget(key))

    def _ask(self, question: Question) -> Reply:
        line = self._lines.get(question.key)
        if line is None:
            reply = self._attempt(question)
            if not isinstance(reply, Promise) and reply.error not in AGAIN:
                return reply
            assert self._node.nursery is not None, "the broker has begun"
            line = self._lines[question.key] = deque()
            self._node.nursery.start_soon(self._serve, question.key, line, reply)
        answer = Promise[Answer]()
        line.append((question, answer))
        return answer

    async def _serve(self, key: ShareKey, line: Line, first: Reply) -> None:
        reply: Reply | None = first
        while line:
            question, promise = line[0]
            promise.resolve(await self._insist(question, reply))
            line.popleft()
            reply = None
        del self._lines[key]

    async def _insist(self, question: Question, reply: Reply | None) -> Answer:
        """Ask until somebody is there to answer; `reply` is that of the first time.

        Whoever finds no topic has it made, as a group's first heartbeat does.
        """
        answer = await answered(self._attempt(question) if reply is None else reply)
        if answer.error in AGAIN:
            await self.provide_topic()
        for pause_s in PAUSES_S:
            if answer.error not in AGAIN:
                break
            await trio.sleep(pause_s)
            answer = await answered(self._attempt(question))
        return answer

    def _attempt(self, question: Question) -> Reply:
        """Ask whoever is the coordinator now."""
        node, coordinator = self._node, self._coordinator()
        if node.peers is None:
            return question.ask(coordinator)
        topic = node.image.topics.get(SHARE_GROUP_STATE_TOPIC)
        if topic is None:
            return Answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        leader = topic.partitions[coordinator.partition_for(question.key)].leader
        if leader == node.node_id:
            return question.ask(coordinator)
        if leader < 0:
            return Answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._ask_there(leader, question)

    def _ask_there(self, broker_id: int, question: Question) -> Reply:
        from kwire.coordinators.share_partitions.remote_states import RemoteStates

        if self._remote is None:
            assert self._node.peers is not None
            assert self._node.nursery is not None
            self._remote = RemoteStates(self._node.peers, self._node.nursery)
        return self._remote.ask(broker_id, question)

    async def provide_topic(self) -> None:
        """Create `__share_group_state` unless it exists."""
        if SHARE_GROUP_STATE_TOPIC not in self._node.image.topics:
            await create_internal_topic(self._membership, SHARE_GROUP_STATE_TOPIC)


async def of_each(
    keys: Sequence[ShareKey], ask: Callable[[ShareKey], Reply]
) -> dict[ShareKey, Answer]:
    """Ask about all at once, and wait for all answers."""
    replies = [(key, ask(key)) for key in keys]
    return {key: await answered(reply) for key, reply in replies}
