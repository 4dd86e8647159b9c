"""Being the controller: what the machine decides is committed, sent and answered here.

One `Term` lasts from an election until another broker is elected, the store cannot be written, or
the session with it is lost.  kwire.cluster.controller.effects says what is done in which order.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from kwire.cluster.controller.effects import BrokerRequest, ControllerEffects
from kwire.cluster.controller.machine import ClusterController
from kwire.cluster.controller.propagation import VERSIONS
from kwire.cluster.membership.collector import collector_paused
from kwire.cluster.metadata.changes import (
    AddPartitions,
    Change,
    CreateTopic,
    Decision,
    DeleteTopic,
    MarkForDeletion,
)
from kwire.cluster.metadata.election import unassigned_partition
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.peers import Peers, Role
from kwire.cluster.stores.contract import (
    ElectionsAsked,
    IsrChanged,
    LogDirsFailed,
    NotController,
    ReassignmentsAsked,
    StoreError,
    StoreEvent,
)
from kwire.cluster.stores.deciding import commit_decided

if TYPE_CHECKING:
    from kwire.cluster.metadata.delta import ClusterDelta
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.stores.contract import ClusterStore
    from kwire.codecs.primitives import Message
    from kwire.settings.live import LiveSettings

log = logging.getLogger("kwire.controller")

RETRY_S: Final = 0.1
"""Before a request that was not answered is sent again, as by Apache Kafka's controller."""

Deliver = Callable[["Message"], "Any"]
"""Have this broker do what its own controller asks: an awaitable of the answer."""


class PendingReply:
    """Who waits for the end of a chain of effects."""

    __slots__ = ("_answered", "_problem", "_reply")

    def __init__(self) -> None:
        self._answered = trio.Event()
        self._reply: Any = None
        self._problem: Exception | None = None

    def answer(self, reply: Any) -> None:  # noqa: ANN401 - by what was asked
        self._reply = reply
        self._answered.set()

    def fail(self, problem: Exception) -> None:
        if not self._answered.is_set():
            self._problem = problem
            self._answered.set()

    async def wait(self) -> Any:  # noqa: ANN401 - by what was asked
        await self._answered.wait()
        if self._problem is not None:
            raise self._problem
        return self._reply


class CommitStep:
    """Decisions to be committed, and what comes then."""

    __slots__ = ("decisions", "pending", "reply", "then")

    def __init__(
        self,
        decisions: Sequence[Decision],
        then: Callable[[], ControllerEffects] | None,
        reply: Any,  # noqa: ANN401 - by what was asked
        pending: PendingReply | None,
    ) -> None:
        self.decisions = decisions
        self.then = then
        self.reply = reply
        self.pending = pending


class Term:
    """See the module."""

    def __init__(
        self, settings: LiveSettings, store: ClusterStore, image: ClusterImage, deliver: Deliver
    ) -> None:
        self.epoch = image.controller_epoch
        self.machine = ClusterController(settings, image)
        self.node_id = settings.node_id
        self._store = store
        self._deliver = deliver
        self._peers = Peers(settings, lambda: self.image)
        self._channels: dict[int, Channel] = {}
        self._steps: deque[CommitStep] = deque()
        self._something = trio.Event()
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._unstarted: list[Callable[[], Awaitable[None]]] = []
        """What is to run as soon as this does."""
        self._pending_replies: set[PendingReply] = set()
        self.is_over = False
        with collector_paused():
            begun = self.machine.start()
        self._happen(begun)

    @property
    def image(self) -> ClusterImage:
        """All of the cluster's."""
        return self.machine.state.image

    # -- its course

    async def run(self) -> None:
        """Be the controller until `end`.  Raises StoreError where the store cannot be written."""
        log.info("broker %d is the controller, in epoch %d", self.node_id, self.epoch)
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    for task in self._unstarted:
                        nursery.start_soon(task)
                    await self._carry_out()
        finally:
            self.end()
            self._peers.close()
            log.info("broker %d is the controller of epoch %d no longer", self.node_id, self.epoch)

    def end(self) -> None:
        """Another is the controller, or may be: who waits is told so."""
        self.is_over = True
        self._scope.cancel()
        for pending in self._pending_replies:
            pending.fail(NotController("this broker is the controller no longer"))

    def image_changed(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """The store has published `image`."""
        if self.is_over:
            return
        for broker_id in delta.brokers:
            self._peers.drop(broker_id)  # its connections are those of its last registration
        self._happen(self.machine.image_changed(image, delta))

    def heard(self, event: StoreEvent) -> None:
        """What the store tells the controller that is no change of the image."""
        if self.is_over:
            return
        machine = self.machine
        match event:
            case IsrChanged(places):
                self._happen(machine.isr_changed(places))
            case LogDirsFailed(broker_ids):
                self._happen(machine.log_dirs_failed(broker_ids))
            case ElectionsAsked(places):
                self._happen(machine.preferred_elections_requested(places))
            case ReassignmentsAsked():
                self._start(partial(self._reassign, event))

    async def _reassign(self, event: ReassignmentsAsked) -> None:
        refused = await self.ask(lambda machine: machine.reassignments_requested(event.replicas))
        if refused:
            await self._store.drop_reassignments(refused)

    # -- who asks

    async def ask(self, question: Callable[[ClusterController], ControllerEffects]) -> Any:  # noqa: ANN401 - by what was asked
        """The machine's reply, once what it decided is committed.  Raises NotController."""
        if self.is_over:
            raise NotController("this broker is the controller no longer")
        return await self._waiting(lambda pending: self._happen(question(self.machine), pending))

    async def commit(self, decisions: Sequence[Decision]) -> None:
        """Commit what a client wants.  Raises StoreError, and what a decision raises."""
        if self.is_over:
            raise NotController("this broker is the controller no longer")
        wanted = [for_controller(each) for each in decisions]
        await self._waiting(lambda pending: self._add(CommitStep(wanted, None, None, pending)))

    async def _waiting(self, start: Callable[[PendingReply], None]) -> Any:  # noqa: ANN401 - by what was asked
        pending = PendingReply()
        self._pending_replies.add(pending)
        try:
            start(pending)
            return await pending.wait()
        finally:
            self._pending_replies.discard(pending)

    # -- effects

    def _happen(self, effects: ControllerEffects, pending: PendingReply | None = None) -> None:
        for sent in effects.requests:
            self._channel(sent.broker_id).put(sent)
        for name, delay_ms in effects.timers:
            self._start(partial(self._timer, name, delay_ms))
        if effects.decisions or effects.then is not None:
            self._add(CommitStep(effects.decisions, effects.then, effects.reply, pending))
        elif pending is not None:
            pending.answer(effects.reply)

    def _start(self, task: Callable[[], Awaitable[None]]) -> None:
        if self._nursery is None:
            self._unstarted.append(task)
        else:
            self._nursery.start_soon(task)

    async def _timer(self, name: str, delay_ms: int) -> None:
        await trio.sleep(delay_ms / 1000)
        self._happen(self.machine.timer_fired(name))

    def _add(self, step: CommitStep) -> None:
        self._steps.append(step)
        self._something.set()

    async def _carry_out(self) -> None:
        while True:
            while not self._steps:
                self._something = trio.Event()
                await self._something.wait()
            await self._take(self._steps.popleft())

    async def _take(self, step: CommitStep) -> None:
        try:
            await commit_decided(self._store, lambda: self.image, step.decisions)
        except Refusal as refusal:
            assert step.pending is not None, "the machine's own decisions refuse nothing"
            step.pending.fail(refusal)
            return
        except StoreError as problem:
            if step.pending is not None:
                step.pending.fail(problem)
            raise
        if step.then is not None:
            self._happen(step.then(), step.pending)
        elif step.pending is not None:
            step.pending.answer(step.reply)

    # -- the brokers

    def _channel(self, broker_id: int) -> Channel:
        channel = self._channels.get(broker_id)
        if channel is None:
            channel = self._channels[broker_id] = Channel(self)
            self._start(channel.run)
        return channel

    def is_void(self, sent: BrokerRequest) -> bool:
        """Whether the broker has gone since, perhaps to come back."""
        broker = self.image.brokers.get(sent.broker_id)
        return broker is None or broker.epoch != sent.broker_epoch

    async def send(self, sent: BrokerRequest) -> Message:
        """The broker's answer.  Raises PeerError."""
        if sent.broker_id == self.node_id:
            answer: Message = await self._deliver(sent.request)
        else:
            peer = self._peers.peer(sent.broker_id, Role.CONTROLLER)
            version_max = VERSIONS[type(sent.request)]
            answer = await peer.call(sent.request, version_max=version_max)
        return answer

    def response_received(self, sent: BrokerRequest, answer: Message | None) -> None:
        if not self.is_over:
            self._happen(self.machine.response_received(sent, answer))


class Channel:
    """What one broker is sent, one request at a time, in their order."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._waiting: deque[BrokerRequest] = deque()
        self._something = trio.Event()

    def put(self, sent: BrokerRequest) -> None:
        self._waiting.append(sent)
        self._something.set()

    async def run(self) -> None:
        while True:
            while not self._waiting:
                self._something = trio.Event()
                await self._something.wait()
            sent = self._waiting.popleft()
            self._term.response_received(sent, await self._answer(sent))

    async def _answer(self, sent: BrokerRequest) -> Message | None:
        """Sent again until it is answered, or the broker has gone: None."""
        while not self._term.is_void(sent):
            try:
                return await self._term.send(sent)
            except PeerError as problem:
                log.info("%s is sent again: %s", type(sent.request).__name__, problem)
                await trio.sleep(RETRY_S)
        return None


def for_controller(decision: Decision) -> Decision:
    """What a lone broker decides about topics, left for the controller to see through.

    A new partition has replicas and no leader yet; a topic goes once its replicas have gone.
    """

    def decide(image: ClusterImage) -> Change | None:
        change = decision(image)
        match change:
            case CreateTopic(topic):
                partitions = tuple(unassigned_partition(each.replicas) for each in topic.partitions)
                return replace(change, topic=replace(topic, partitions=partitions))
            case AddPartitions():
                partitions = tuple(
                    unassigned_partition(each.replicas) for each in change.partitions
                )
                return replace(change, partitions=partitions)
            case DeleteTopic(name, topic_id):
                return None if name in image.deleting else MarkForDeletion(name, topic_id)
        return change

    return decide
