"""The driver of the controller: it carries out the effects of a machine that the test scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kwire.cluster.controller.effects import BrokerRequest, ControllerEffects
from kwire.cluster.controller.machine import ClusterController
from kwire.cluster.membership.controlling import Term
from kwire.cluster.metadata.changes import Change, Decision, SetConfigs
from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.image import BrokerImage, ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.peers.error import PeerError
from kwire.cluster.stores.contract import (
    ClusterStore,
    ElectionsRequested,
    IsrChanged,
    LogDirsFailed,
    NotController,
    Place,
    ReassignmentsRequested,
    StoreError,
)
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kwire.codecs.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kwire.codecs.primitives import Message
from kwire.settings import BrokerConfig
from kwire.settings.live import LiveSettings

GROUP_RESOURCE = 32
NODE_ID, OTHER = 1, 2
NOTHING = ControllerEffects()


def decision(value: str) -> Decision:
    """Sets a config of the group `g`, whatever it was."""
    return lambda image: SetConfigs(
        GROUP_RESOURCE, "g", image.configs_of(GROUP_RESOURCE, "g"), {"a": value}
    )


class Store:
    """Records what is committed and dropped; `error` is raised by the next commit."""

    def __init__(self) -> None:
        self.committed: list[Change] = []
        self.dropped: list[Place] = []
        self.error: StoreError | None = None
        self.may_commit = trio.Event()
        self.may_commit.set()

    async def commit(self, changes: Sequence[Change]) -> ClusterImage:
        await self.may_commit.wait()
        if self.error is not None:
            raise self.error
        self.committed += changes
        return ClusterImage("c")

    async def drop_reassignments(self, places: Iterable[Place]) -> None:
        self.dropped += places


class Machine:
    """Answers each event with the effects that the test has set for it."""

    def __init__(self, image: ClusterImage) -> None:
        self.state = self
        self.image = image
        self.events: list[tuple[object, ...]] = []
        self.effects: dict[str, ControllerEffects] = {}

    def __getattr__(self, name: str) -> Callable[..., ControllerEffects]:
        def event(*told: object) -> ControllerEffects:
            self.events.append((name, *told))
            return self.effects.get(name, NOTHING)

        return event


class Stage:
    """A term of broker 1; broker 2 is a member, too."""

    def __init__(self) -> None:
        self.store = Store()
        self.delivered: list[Message] = []
        image = ClusterImage("c", controller_id=NODE_ID, controller_epoch=7)
        for broker_id in (NODE_ID, OTHER):
            image = image.with_broker(BrokerImage(broker_id, (), epoch=10 + broker_id))
        config = BrokerConfig({"node.id": str(NODE_ID), "listeners": "PLAINTEXT://h:1"})
        store = cast(ClusterStore, self.store)
        self.term = Term(LiveSettings(config), store, image, self._deliver)
        self.term._channels.clear()  # nothing of the real machine's start
        self.term._unstarted.clear()
        self.term._steps.clear()
        self.machine = Machine(image)
        self.term.machine = cast(ClusterController, self.machine)
        self.errors: list[StoreError] = []

    async def _deliver(self, request: Message) -> Message:
        self.delivered.append(request)
        return UpdateMetadataResponse()

    async def run(self) -> None:
        """Run the term; notes the StoreError that ends it."""
        try:
            await self.term.run()
        except* StoreError as group:
            self.errors += [error for error in group.exceptions if isinstance(error, StoreError)]

    async def ask(self, effects: ControllerEffects) -> Any:  # noqa: ANN401 - a reply
        """The reply; fails if none comes."""
        with trio.fail_after(60):
            return await self.term.ask(lambda machine: effects)


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        await wait_all_tasks_blocked()
        yield made
        nursery.cancel_scope.cancel()


# -- replies


async def test_question_without_decisions_is_answered_at_once() -> None:
    async with stage() as it:
        assert await it.ask(ControllerEffects(reply="reply")) == "reply"
        assert it.store.committed == []


async def test_question_is_answered_once_its_decisions_are_committed(
    autojump_clock: MockClock,
) -> None:
    async with stage() as it:
        it.store.may_commit = trio.Event()
        replies: list[str] = []

        async def ask() -> None:
            replies.append(await it.ask(ControllerEffects(decisions=[decision("1")], reply="done")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            assert (replies, it.store.committed) == ([], [])
            it.store.may_commit.set()
        assert replies == ["done"]
        assert it.store.committed == [SetConfigs(GROUP_RESOURCE, "g", {}, {"a": "1"})]


async def test_last_reply_of_a_chain_of_effects_counts(autojump_clock: MockClock) -> None:
    async with stage() as it:
        committed_before: list[int] = []

        def then() -> ControllerEffects:
            committed_before.append(len(it.store.committed))
            return ControllerEffects(decisions=[decision("2")], reply="last")

        chain = ControllerEffects(decisions=[decision("1")], then=then, reply="first")
        assert await it.ask(chain) == "last"
        assert committed_before == [1]
        assert len(it.store.committed) == 2


async def test_chain_without_decisions_waits_for_decisions_before_it(
    autojump_clock: MockClock,
) -> None:
    async with stage() as it:
        it.store.may_commit = trio.Event()
        steps: list[str] = []

        def then() -> ControllerEffects:
            steps.append("then")
            return NOTHING

        async def ask(name: str, effects: ControllerEffects) -> None:
            await it.ask(effects)
            steps.append(name)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "decided", ControllerEffects(decisions=[decision("1")]))
            await wait_all_tasks_blocked()
            nursery.start_soon(ask, "chained", ControllerEffects(then=then))
            await wait_all_tasks_blocked()
            assert steps == []
            it.store.may_commit.set()
        assert sorted(steps) == ["chained", "decided", "then"]
        assert steps.index("then") < steps.index("chained")


async def test_refused_decision_is_raised_and_the_term_continues(
    autojump_clock: MockClock,
) -> None:
    refusal = Refusal(ErrorCode.INVALID_CONFIG, "no")

    def refuse(image: ClusterImage) -> Change:
        raise refusal

    async with stage() as it:
        with pytest.raises(Refusal) as raised:
            await it.term.commit([refuse])
        assert raised.value is refusal
        await it.term.commit([decision("1")])
        assert it.store.committed == [SetConfigs(GROUP_RESOURCE, "g", {}, {"a": "1"})]
        assert not it.term.is_over


async def test_store_that_cannot_be_written_ends_the_term(autojump_clock: MockClock) -> None:
    async with stage() as it:
        it.store.error = StoreError("disk is full")
        with pytest.raises(StoreError, match="disk is full"):
            await it.ask(ControllerEffects(decisions=[decision("1")]))
        await wait_all_tasks_blocked()
        assert it.errors == [it.store.error]
        assert it.term.is_over


async def test_callers_that_wait_are_told_when_the_term_ends(autojump_clock: MockClock) -> None:
    async with stage() as it:
        it.store.may_commit = trio.Event()
        told: list[str] = []

        async def wait_for(call: Callable[[], Any]) -> None:
            with pytest.raises(NotController, match="no longer the controller") as raised:
                await call()
            told.append(str(raised.value))

        async with trio.open_nursery() as nursery:
            waiting = ControllerEffects(decisions=[decision("1")])
            nursery.start_soon(wait_for, lambda: it.ask(waiting))
            nursery.start_soon(wait_for, lambda: it.term.commit([decision("2")]))
            await wait_all_tasks_blocked()
            it.term.end()
        for call in (lambda: it.ask(NOTHING), lambda: it.term.commit([])):
            await wait_for(call)
        assert len(told) == 4


# -- events


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (IsrChanged((("t", 0),)), ("isr_changed", (("t", 0),))),
        (LogDirsFailed((2, 3)), ("log_dirs_failed", (2, 3))),
        (ElectionsRequested((("t", 1),)), ("preferred_elections_requested", (("t", 1),))),
    ],
)
async def test_event_of_the_store_reaches_the_machine_and_its_effects_are_carried_out(
    event: IsrChanged | LogDirsFailed | ElectionsRequested, told: tuple[object, ...]
) -> None:
    async with stage() as it:
        it.machine.effects[str(told[0])] = ControllerEffects(decisions=[decision("1")])
        it.term.handle_event(event)
        assert it.machine.events == [told]
        await wait_all_tasks_blocked()
        assert len(it.store.committed) == 1
        it.term.end()
        it.term.handle_event(event)
        assert it.machine.events == [told], "nothing is decided after the term"


@pytest.mark.parametrize("refused", [[], [("t", 0)]])
async def test_refused_reassignments_are_dropped_from_the_store(refused: list[Place]) -> None:
    wanted: dict[Place, tuple[int, ...]] = {("t", 0): (1, 2), ("t", 1): (2,)}
    async with stage() as it:
        effects = ControllerEffects(decisions=[decision("1")], reply=refused)
        it.machine.effects["reassignments_requested"] = effects
        it.term.handle_event(ReassignmentsRequested(wanted))
        await wait_all_tasks_blocked()
        assert it.machine.events == [("reassignments_requested", wanted)]
        assert it.store.dropped == refused


async def test_timer_fires_after_its_delay(autojump_clock: MockClock) -> None:
    async with stage() as it:
        it.term._carry_out(ControllerEffects(timers=[("soon", 1500)]))
        await trio.sleep(1.499)
        assert it.machine.events == []
        await trio.sleep(0.002)
        assert it.machine.events == [("timer_fired", "soon")]


async def test_image_of_the_store_reaches_the_machine_during_the_term_only() -> None:
    async with stage() as it:
        image, delta = ClusterImage("c"), ClusterDelta()
        it.term.image_changed(image, delta)
        it.term.end()
        it.term.image_changed(image, delta)
        assert it.machine.events == [("image_changed", image, delta)]


# -- requests to brokers


class Peer:
    """Broker 2: its answers, or the errors of the connection, one after the other."""

    def __init__(self, *answers: Message | PeerError) -> None:
        self.answers = list(answers)
        self.times_s: list[float] = []
        self.requests: list[Message] = []

    async def call(self, request: Message, *, version_max: int) -> Message:
        self.times_s.append(trio.current_time())
        self.requests.append(request)
        if not self.answers:
            await trio.sleep_forever()
        answer = self.answers.pop(0)
        if isinstance(answer, PeerError):
            raise answer
        return answer


def sent_to(broker_id: int, request: Message, *, epoch: int | None = None) -> BrokerRequest:
    return BrokerRequest(broker_id, 10 + broker_id if epoch is None else epoch, request)


async def test_request_to_the_own_broker_is_delivered_without_a_connection() -> None:
    async with stage() as it:
        sent = sent_to(NODE_ID, UpdateMetadataRequest())
        it.term._carry_out(ControllerEffects(requests=[sent]))
        await wait_all_tasks_blocked()
        assert it.delivered == [sent.request]
        assert it.machine.events == [("response_received", sent, UpdateMetadataResponse())]


async def test_request_is_sent_again_until_its_broker_answers_and_the_next_one_waits(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage() as it:
        lost = PeerError("broker 2", "the connection is lost")
        peer = Peer(lost, lost, UpdateMetadataResponse(), StopReplicaResponse())
        monkeypatch.setattr(it.term._peers, "peer", lambda broker_id, role: peer)
        first, second = UpdateMetadataRequest(), StopReplicaRequest()
        both = [sent_to(OTHER, first), sent_to(OTHER, second)]
        start = trio.current_time()
        it.term._carry_out(ControllerEffects(requests=both))
        await trio.sleep(1)
        assert peer.requests == [first, first, first, second]
        assert [round(time_s - start, 3) for time_s in peer.times_s] == [0, 0.1, 0.2, 0.2]
        assert it.machine.events == [
            ("response_received", both[0], UpdateMetadataResponse()),
            ("response_received", both[1], StopReplicaResponse()),
        ]


@pytest.mark.parametrize(("broker_id", "epoch"), [(OTHER, 11), (OTHER, 13), (3, 13)])
async def test_request_to_an_ended_registration_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, broker_id: int, epoch: int
) -> None:
    async with stage() as it:
        peer = Peer()
        monkeypatch.setattr(it.term._peers, "peer", lambda broker_id, role: peer)
        sent = sent_to(broker_id, UpdateMetadataRequest(), epoch=epoch)
        it.term._carry_out(ControllerEffects(requests=[sent]))
        await wait_all_tasks_blocked()
        assert peer.requests == []
        assert it.machine.events == [("response_received", sent, None)]


async def test_slow_broker_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as it:
        peer = Peer()
        monkeypatch.setattr(it.term._peers, "peer", lambda broker_id, role: peer)
        both = [sent_to(OTHER, StopReplicaRequest()), sent_to(NODE_ID, UpdateMetadataRequest())]
        it.term._carry_out(ControllerEffects(requests=both))
        await wait_all_tasks_blocked()
        assert len(peer.requests) == 1
        assert it.machine.events == [("response_received", both[1], UpdateMetadataResponse())]
        it.term.response_received(both[0], None)
        it.term.end()
        it.term.response_received(both[0], None)
        assert len(it.machine.events) == 2
