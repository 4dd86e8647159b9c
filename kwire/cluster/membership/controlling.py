"""The driver of the controller: it commits decisions, sends requests, and delivers responses.

One `Term` lasts from the election of this broker until another broker is elected, the store cannot
be written, or the session with the store is lost.  kwire.cluster.controller.effects says what a
driver does with the machine's effects, and in which order.
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
    ElectionsRequested,
    IsrChanged,
    LogDirsFailed,
    NotController,
    ReassignmentsRequested,
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
"""Delay before a request without a response is sent again, as in Apache Kafka."""

Deliver = Callable[["Message"], "Any"]
"""Handles a request of the controller to its own broker; returns an awaitable of the response."""


class PendingReply:
    """The result of a chain of effects, for the caller that waits for it."""

    __slots__ = ("_answered", "_error", "_reply")

    def __init__(self) -> None:
        self._answered = trio.Event()
        self._reply: Any = None
        self._error: Exception | None = None

    def answer(self, reply: Any) -> None:  # noqa: ANN401 - depends on the question
        self._reply = reply
        self._answered.set()

    def fail(self, error: Exception) -> None:
        if not self._answered.is_set():
            self._error = error
            self._answered.set()

    async def wait(self) -> Any:  # noqa: ANN401 - depends on the question
        """Waits for the reply and returns it; raises the error if there is one instead."""
        await self._answered.wait()
        if self._error is not None:
            raise self._error
        return self._reply


class CommitStep:
    """Decisions to commit, and what follows once they are committed."""

    __slots__ = ("decisions", "pending", "reply", "then")

    def __init__(
        self,
        decisions: Sequence[Decision],
        then: Callable[[], ControllerEffects] | None,
        reply: Any,  # noqa: ANN401 - depends on the question
        pending: PendingReply | None,
    ) -> None:
        """`then` runs after the commit; its effects are carried out.

        `pending` is the reply that a caller waits for; None if nobody waits.  It gets the reply of
        `then`, or `reply` if `then` is None.  If the commit fails, it gets the error.
        """
        self.decisions = decisions
        self.then = then
        self.reply = reply
        self.pending = pending


class Term:
    """One term of this broker as the controller; see the module."""

    def __init__(
        self, settings: LiveSettings, store: ClusterStore, image: ClusterImage, deliver: Deliver
    ) -> None:
        """`image` is the metadata with which this broker became the controller.

        The constructor starts the controller; `run` commits its first decisions and sends its
        requests.
        """
        self.epoch = image.controller_epoch
        self.machine = ClusterController(settings, image)
        self.node_id = settings.node_id
        self._store = store
        self._deliver = deliver
        self._peers = Peers(settings, lambda: self.image)
        self._channels: dict[int, Channel] = {}
        self._steps: deque[CommitStep] = deque()
        self._not_empty = trio.Event()
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._unstarted: list[Callable[[], Awaitable[None]]] = []
        """Tasks that start when `run` opens the nursery."""
        self._pending_replies: set[PendingReply] = set()
        self.is_over = False
        # The start creates one object or more per partition, none of which is garbage.
        with collector_paused():
            first_effects = self.machine.start()
        self._carry_out(first_effects)

    @property
    def image(self) -> ClusterImage:
        """The whole metadata of the cluster."""
        return self.machine.state.image

    # -- the term and its events

    async def run(self) -> None:
        """Runs the term: this broker is the controller until `end` is called.

        Raises StoreError if the store cannot be written.
        """
        log.info("Broker %d is the controller in controller epoch %d.", self.node_id, self.epoch)
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    for task in self._unstarted:
                        nursery.start_soon(task)
                    await self._commit_steps()
        finally:
            self.end()
            self._peers.close()
            log.info(
                "Broker %d is no longer the controller of controller epoch %d.",
                self.node_id,
                self.epoch,
            )

    def end(self) -> None:
        """End the term: another broker is the controller, or may be.

        Callers that wait for a reply get NotController.
        """
        self.is_over = True
        self._scope.cancel()
        for pending in self._pending_replies:
            pending.fail(NotController("This broker is no longer the controller."))

    def image_changed(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """The store has published `image`, the result of `delta`."""
        if self.is_over:
            return
        for broker_id in delta.brokers:
            self._peers.drop(broker_id)  # its connections belong to its former registration
        self._carry_out(self.machine.image_changed(image, delta))

    def handle_event(self, event: StoreEvent) -> None:
        """Pass on an event of the store that changes no image."""
        if self.is_over:
            return
        machine = self.machine
        match event:
            case IsrChanged(places):
                self._carry_out(machine.isr_changed(places))
            case LogDirsFailed(broker_ids):
                self._carry_out(machine.log_dirs_failed(broker_ids))
            case ElectionsRequested(places):
                self._carry_out(machine.preferred_elections_requested(places))
            case ReassignmentsRequested():
                self._start(partial(self._reassign, event))

    async def _reassign(self, event: ReassignmentsRequested) -> None:
        refused = await self.ask(lambda machine: machine.reassignments_requested(event.replicas))
        if refused:
            await self._store.drop_reassignments(refused)

    # -- calls that wait for a reply

    async def ask(self, question: Callable[[ClusterController], ControllerEffects]) -> Any:  # noqa: ANN401 - depends on the question
        """Return the controller machine's reply, once its decisions are committed.

        Raises NotController, StoreError.
        """
        if self.is_over:
            raise NotController("This broker is no longer the controller.")
        return await self._waiting(lambda pending: self._carry_out(question(self.machine), pending))

    async def commit(self, decisions: Sequence[Decision]) -> None:
        """Commit a client's decisions.

        Raises StoreError, NotController, and the Refusals of the decisions.
        """
        if self.is_over:
            raise NotController("This broker is no longer the controller.")
        wanted = [for_controller(each) for each in decisions]
        await self._waiting(lambda pending: self._enqueue(CommitStep(wanted, None, None, pending)))

    async def _waiting(self, start: Callable[[PendingReply], None]) -> Any:  # noqa: ANN401 - depends on the question
        """Calls `start` with a new pending reply, and returns the reply once it is set.

        Raises NotController if the term ends first.
        """
        pending = PendingReply()
        self._pending_replies.add(pending)
        try:
            start(pending)
            return await pending.wait()
        finally:
            self._pending_replies.discard(pending)

    # -- effects

    def _carry_out(self, effects: ControllerEffects, pending: PendingReply | None = None) -> None:
        """Carries out the effects of one event.

        Requests and timers start at once; decisions wait in the queue.
        """
        # A channel sends in this order; a slow broker does not delay the others.
        for sent in effects.requests:
            self._channel(sent.broker_id).put(sent)
        for name, delay_ms in effects.timers:
            self._start(partial(self._timer, name, delay_ms))
        # One queue for all events: `then` must see the changes of all decisions before it.
        if effects.decisions or effects.then is not None:
            self._enqueue(CommitStep(effects.decisions, effects.then, effects.reply, pending))
        elif pending is not None:
            pending.answer(effects.reply)

    def _start(self, task: Callable[[], Awaitable[None]]) -> None:
        """Starts a task of this term: now, or once `run` has opened the nursery."""
        if self._nursery is None:
            self._unstarted.append(task)
        else:
            self._nursery.start_soon(task)

    async def _timer(self, name: str, delay_ms: int) -> None:
        await trio.sleep(delay_ms / 1000)
        self._carry_out(self.machine.timer_fired(name))

    def _enqueue(self, step: CommitStep) -> None:
        self._steps.append(step)
        self._not_empty.set()

    async def _commit_steps(self) -> None:
        """Commit the queued steps, one after the other, until cancelled."""
        while True:
            while not self._steps:
                self._not_empty = trio.Event()
                await self._not_empty.wait()
            await self._commit_step(self._steps.popleft())

    async def _commit_step(self, step: CommitStep) -> None:
        """Commits one step; then carries out what follows from it, or answers the caller."""
        try:
            await commit_decided(self._store, lambda: self.image, step.decisions)
        except Refusal as refusal:
            assert step.pending is not None, "the machine's own decisions never raise Refusal"
            step.pending.fail(refusal)
            return
        except StoreError as error:
            if step.pending is not None:
                step.pending.fail(error)
            raise  # ends the term: a controller that cannot write must resign
        if step.then is not None:
            self._carry_out(step.then(), step.pending)
        elif step.pending is not None:
            step.pending.answer(step.reply)

    # -- requests to brokers

    def _channel(self, broker_id: int) -> Channel:
        """Return the channel to a broker; creates and starts it at its first use."""
        channel = self._channels.get(broker_id)
        if channel is None:
            channel = self._channels[broker_id] = Channel(self)
            self._start(channel.run)
        return channel

    def is_void(self, sent: BrokerRequest) -> bool:
        """Whether the broker is gone, or has registered again, since the request was made."""
        broker = self.image.brokers.get(sent.broker_id)
        return broker is None or broker.epoch != sent.broker_epoch

    async def send(self, sent: BrokerRequest) -> Message:
        """Sends one request; returns the broker's response.  Raises PeerError."""
        if sent.broker_id == self.node_id:
            answer: Message = await self._deliver(sent.request)
        else:
            peer = self._peers.peer(sent.broker_id, Role.CONTROLLER)
            version_max = VERSIONS[type(sent.request)]
            answer = await peer.call(sent.request, version_max=version_max)
        return answer

    def response_received(self, sent: BrokerRequest, answer: Message | None) -> None:
        """Pass on a response; None if the broker is gone."""
        if not self.is_over:
            self._carry_out(self.machine.response_received(sent, answer))


class Channel:
    """The requests to one broker, sent one at a time in their order."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._waiting: deque[BrokerRequest] = deque()
        self._not_empty = trio.Event()

    def put(self, sent: BrokerRequest) -> None:
        self._waiting.append(sent)
        self._not_empty.set()

    async def run(self) -> None:
        """Sends the waiting requests, one after the other, until it is cancelled.

        The response to one request is handled before the next is sent: brokers must apply the
        controller's requests in their order.
        """
        while True:
            while not self._waiting:
                self._not_empty = trio.Event()
                await self._not_empty.wait()
            sent = self._waiting.popleft()
            self._term.response_received(sent, await self._send_until_answered(sent))

    async def _send_until_answered(self, sent: BrokerRequest) -> Message | None:
        """Sends a request until the broker responds; returns the response.

        Returns None once the broker is gone.
        """
        while not self._term.is_void(sent):
            try:
                return await self._term.send(sent)
            except PeerError as error:
                log.info(
                    "Broker %d did not answer %s, sending it again: %s",
                    sent.broker_id,
                    type(sent.request).__name__,
                    error,
                )
                await trio.sleep(RETRY_S)
        return None


def for_controller(decision: Decision) -> Decision:
    """A decision about topics of a single broker, turned into one that the controller completes.

    New partitions get replicas but no leader: the controller elects it.  A topic is marked for
    deletion: the controller deletes it once its replicas are deleted.
    """

    def decide(image: ClusterImage) -> Change | None:
        """Return the change of `decision`, in the form that the controller completes."""
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
