"""A broker's lifecycle beside simulated controllers: lost answers, rivals, removals, shutdowns.

The simulated controllers have one session for the node id, as data/lifecycle-4.4.txt and the
answers of Apache Kafka to single requests show: the broker may not be unfenced before its image has
its registration, and a rival keeps the id until its session ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from kwire.cluster.stores.kraft.lifecycle import (
    AskLeader,
    Effect,
    Lifecycle,
    Registered,
    Stop,
    Turn,
)
from kwire.cluster.stores.kraft.observing import Refuse, Wait
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kwire.codecs.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tests.cluster.stores.kraft.lifecycle_stage import IDENTITY

SESSION_MS = 9_000
RIVAL = b"r" * 16
STEPS_MAX = 2_000


@dataclass
class Controllers:
    """What the controllers know of the node id."""

    log_end: int = 10
    owner: bytes | None = None
    epoch: int = -1
    is_fenced: bool = True
    heard_ms: int = -SESSION_MS
    leaving_answers: int = 0
    """How many heartbeats a shutdown waits for other leaders."""

    def has_session(self, now_ms: int) -> bool:
        return self.owner is not None and now_ms - self.heard_ms < SESSION_MS

    def fence_silent(self, now_ms: int) -> None:
        if not self.is_fenced and not self.has_session(now_ms):
            self.is_fenced = True
            self.log_end += 1

    def register(self, owner: bytes, now_ms: int) -> BrokerRegistrationResponse:
        self.fence_silent(now_ms)
        if self.has_session(now_ms):
            if self.owner != owner:
                return BrokerRegistrationResponse(
                    error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION
                )
        else:
            self.epoch = self.log_end
        self.owner, self.is_fenced, self.heard_ms = owner, True, now_ms
        self.log_end += 1
        return BrokerRegistrationResponse(broker_epoch=self.epoch)

    def heartbeat(self, asked: BrokerHeartbeatRequest, now_ms: int) -> BrokerHeartbeatResponse:
        self.fence_silent(now_ms)
        if self.owner is None or asked.broker_epoch != self.epoch:
            return BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        self.heard_ms = now_ms
        is_caught_up = asked.current_metadata_offset >= self.epoch
        should_shut_down = False
        if asked.want_shut_down:
            self.leaving_answers -= 1
            should_shut_down = self.is_fenced or self.leaving_answers < 0
        fenced = should_shut_down or (self.is_fenced and (asked.want_fence or not is_caught_up))
        if fenced != self.is_fenced:
            self.is_fenced = fenced
            self.log_end += 1
        return BrokerHeartbeatResponse(
            is_caught_up=is_caught_up, is_fenced=fenced, should_shut_down=should_shut_down
        )


@dataclass
class World:
    """A broker, its controllers, and the checks of what must always hold."""

    broker: Lifecycle = field(default_factory=lambda: Lifecycle(IDENTITY))
    controllers: Controllers = field(default_factory=Controllers)
    now_ms: int = 0
    asked: AskLeader | None = None
    end: Stop | Refuse | None = None
    epochs: list[int] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    def ask(self) -> int:
        """Let the broker take a step; return how long it waits."""
        if self.asked is not None or self.end is not None:
            return 0
        step = self.broker.step(self.now_ms)
        match step:
            case Wait(until_ms):
                assert until_ms > self.now_ms
                return until_ms - self.now_ms
            case Stop() | Refuse():
                self.end = step
            case AskLeader():
                assert step.timeout_ms > 0
                self.asked = step
        return 0

    def deliver(self, *, answer_is_lost: bool) -> None:
        if self.asked is None:
            return
        request = self.asked.request
        answer: BrokerRegistrationResponse | BrokerHeartbeatResponse
        if isinstance(request, BrokerRegistrationRequest):
            answer = self.controllers.register(request.incarnation_id, self.now_ms)
        else:
            if not request.want_fence:
                assert request.current_metadata_offset >= request.broker_epoch
                assert self.broker.is_ready
            answer = self.controllers.heartbeat(request, self.now_ms)
        asked, self.asked = self.asked, None
        if answer_is_lost:
            self.broker.failed(asked, "the answer is lost", self.now_ms)
            return
        effects = self.broker.answered(asked, answer, self.now_ms)
        self.effects += effects
        self.epochs += [each.epoch for each in effects if isinstance(each, Registered)]
        self.check()

    def check(self) -> None:
        assert self.epochs == sorted(self.epochs)
        assert self.broker.is_caught_up or self.broker.is_fenced
        turns = [each for each in self.effects if each in (Turn.UNFENCED, Turn.FENCED)]
        assert turns == [Turn.UNFENCED, Turn.FENCED] * (len(turns) // 2) + turns[-1:] * (
            len(turns) % 2
        )
        if self.broker.has_session(self.now_ms):
            controllers = self.controllers
            assert controllers.owner != IDENTITY.incarnation or controllers.has_session(self.now_ms)

    def settle(self) -> None:
        """Answer everything until the broker waits with nothing left to say."""
        for _ in range(STEPS_MAX):
            self.broker.offset = self.controllers.log_end - 1
            wait_ms = self.ask()
            if self.end is not None:
                return
            self.deliver(answer_is_lost=False)
            if wait_ms:
                if not self.broker.is_fenced and not self.broker.is_leaving:
                    return
                self.now_ms += wait_ms
        raise AssertionError("the broker does not come to rest")


ACTIONS = st.one_of(
    st.tuples(st.just("ask"), st.just(0)),
    st.tuples(st.just("deliver"), st.just(0)),
    st.tuples(st.just("lose"), st.just(0)),
    st.tuples(st.just("drop"), st.just(0)),
    st.tuples(st.just("time"), st.sampled_from([1, 100, 1_999, 2_000, 9_000])),
    st.tuples(st.just("replay"), st.just(0)),
    st.tuples(st.just("ready"), st.just(0)),
    st.tuples(st.just("rival"), st.just(0)),
    st.tuples(st.just("remove"), st.just(0)),
)


def perform(world: World, action: str, number: int) -> None:
    match action:
        case "ask":
            world.ask()
        case "deliver" | "lose":
            world.deliver(answer_is_lost=action == "lose")
        case "drop" if world.asked is not None:
            asked, world.asked = world.asked, None
            world.broker.failed(asked, "no controller answers", world.now_ms)
        case "time":
            world.now_ms += number
        case "replay":
            world.broker.offset = world.controllers.log_end - 1
        case "ready":
            world.broker.ready()
        case "rival":
            world.controllers.register(RIVAL, world.now_ms)
        case "remove":
            world.controllers.owner = None
    world.check()


@given(st.lists(ACTIONS, max_size=60))
def test_broker_is_unfenced_once_the_controllers_answer(actions: list[tuple[str, int]]) -> None:
    world = World()
    for action, number in actions:
        perform(world, action, number)
    if world.end is None:
        world.broker.ready()
        world.settle()
    if isinstance(world.end, Refuse):
        assert not world.epochs, "only the first registration has a limit"
        assert world.now_ms >= 60_000
    else:
        assert not world.broker.is_fenced
        assert world.controllers.owner == IDENTITY.incarnation
        assert world.broker.epoch == world.controllers.epoch


@given(st.lists(ACTIONS, max_size=40), st.integers(0, 5))
def test_shutdown_ends_and_asks_nothing_more(actions: list[tuple[str, int]], answers: int) -> None:
    world = World()
    for action, number in actions:
        perform(world, action, number)
    if isinstance(world.end, Refuse):
        return
    world.controllers.leaving_answers = answers
    world.broker.leave(world.now_ms)
    began_ms = world.now_ms
    world.settle()
    assert isinstance(world.end, Stop)
    assert world.now_ms - began_ms <= 300_000
    assert world.broker.step(world.now_ms + 1) == world.end
    if world.end.is_controlled:
        assert world.controllers.is_fenced


@given(st.lists(ACTIONS, max_size=40))
def test_shutdown_ends_at_its_limit_without_answers(actions: list[tuple[str, int]]) -> None:
    world = World()
    for action, number in actions:
        perform(world, action, number)
    world.broker.leave(world.now_ms)
    began_ms = world.now_ms
    while world.end is None:
        world.now_ms += world.ask()
        if world.asked is not None:
            world.now_ms += world.asked.timeout_ms
            perform(world, "drop", 0)
    assert world.now_ms - began_ms <= 300_000
    assert isinstance(world.end, Refuse) or not world.end.is_controlled
