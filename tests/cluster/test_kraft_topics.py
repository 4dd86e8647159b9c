"""Topics that a broker asks the controllers of Apache Kafka for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest
import trio
import trio.testing

from kwire.cluster.decisions.topic_creation import NewTopic
from kwire.cluster.membership.kraft_topics import KraftTopics
from kwire.cluster.metadata.image import ClusterImage, PartitionImage, TopicImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.peers.error import PeerError
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.kraft.forwarding import Forwarding, NotForwarded
from kwire.cluster.stores.kraft.living import Calls
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.requests.context import Context
from kwire.settings import load
from kwire.settings.live import LiveSettings

SENDER = Context("PLAINTEXT", "127.0.0.1", "a-b-1", principal="User:alice")
FIXED = {"node.id": "1", "listeners": "PLAINTEXT://localhost:0"}


@dataclass
class Controllers:
    """Creates topics after a while; it is a channel, and a `Forwarding`, and has the image."""

    errors: dict[str, tuple[ErrorCode, str | None]] = field(default_factory=dict)
    failure: Exception | None = None
    delay_s: float = 0.1
    image: ClusterImage = field(default_factory=lambda: ClusterImage("c"))
    asked: list[tuple[CreateTopicsRequest, str | None]] = field(default_factory=list)
    seen: trio.Event = field(default_factory=trio.Event)

    async def call(self, request: CreateTopicsRequest, timeout_ms: float) -> CreateTopicsResponse:
        return await self._create(request, None)

    async def forward(
        self, request: CreateTopicsRequest, version: int, context: Context
    ) -> CreateTopicsResponse:
        assert version == 7
        return await self._create(request, context.principal)

    async def _create(
        self, request: CreateTopicsRequest, principal: str | None
    ) -> CreateTopicsResponse:
        self.asked.append((request, principal))
        await trio.sleep(self.delay_s)
        if self.failure is not None:
            raise self.failure
        results = []
        for topic in request.topics:
            error, message = self.errors.get(topic.name, (ErrorCode.NONE, None))
            results.append(
                CreatableTopicResult(topic.name, error_code=error, error_message=message)
            )
        return CreateTopicsResponse(topics=results)

    def show(self, name: str) -> None:
        """Let the broker's image have the topic."""
        state = PartitionImage(1, 0, 0, (1,), (1,))
        self.image = self.image.with_topics([TopicImage(name, name[:1].encode() * 16, (state,))])
        seen, self.seen = self.seen, trio.Event()
        seen.set()

    async def wait_until(self, seen: Callable[[ClusterImage], bool], timeout_ms: int) -> bool:
        with trio.move_on_after(timeout_ms / 1000):
            while not seen(self.image):
                await self.seen.wait()
            return True
        return False

    def topics(self, **settings: str) -> KraftTopics:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        config = load(overrides=FIXED | given)
        forwarding = cast(Forwarding, self)
        return KraftTopics(cast(Calls, self), forwarding, LiveSettings(config), self.wait_until)

    def shapes(self) -> list[tuple[str, int, int]]:
        """The topics of all requests, each with its partitions and replicas."""
        return [
            (topic.name, topic.num_partitions, topic.replication_factor)
            for request, _ in self.asked
            for topic in request.topics
        ]


async def test_topic_on_first_use_has_the_shape_that_this_brokers_settings_say(
    autojump_clock: trio.testing.MockClock,
) -> None:
    controllers = Controllers()
    topics = controllers.topics(num_partitions="5", default_replication_factor="2")
    await topics.create_on_first_use(["a", "b"], SENDER)
    assert controllers.shapes() == [("a", 5, 2), ("b", 5, 2)]


async def test_topic_on_first_use_is_asked_for_in_the_name_of_the_client(
    autojump_clock: trio.testing.MockClock,
) -> None:
    controllers = Controllers()
    await controllers.topics().create_on_first_use(["a"], SENDER)
    await controllers.topics().create_on_first_use(["b"])
    assert [principal for _, principal in controllers.asked] == ["User:alice", None]


async def test_internal_topic_has_its_own_settings_however_few_brokers_are_live(
    autojump_clock: trio.testing.MockClock,
) -> None:
    controllers = Controllers()
    await controllers.topics().create_internal_topic("__consumer_offsets")
    assert controllers.shapes() == [("__consumer_offsets", 50, 3)]
    [(request, principal)] = controllers.asked
    assert principal is None
    assert {each.name: each.value for each in request.topics[0].configs} == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


async def test_creation_ends_once_the_topic_is_in_the_image(
    autojump_clock: trio.testing.MockClock,
) -> None:
    controllers = Controllers()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controllers.topics().create_internal_topic, "__consumer_offsets")
        await trio.sleep(1)
        assert nursery.child_tasks
        controllers.show("__consumer_offsets")
        await trio.testing.wait_all_tasks_blocked()
        assert not nursery.child_tasks


async def test_clients_that_name_the_same_topic_wait_for_one_request(
    autojump_clock: trio.testing.MockClock,
) -> None:
    controllers = Controllers()
    topics = controllers.topics()
    for name in ("a", "b", "c"):
        controllers.show(name)
    async with trio.open_nursery() as nursery:
        for names in (["a"], ["a", "b"], ["b", "a", "c"]):
            nursery.start_soon(topics.create_on_first_use, names, SENDER)
            await trio.testing.wait_all_tasks_blocked()
    assert [name for name, *_ in controllers.shapes()] == ["a", "b", "c"]
    await topics.create_on_first_use(["a"], SENDER)
    assert len(controllers.asked) == 4, "it is asked for anew later"


async def test_existing_topic_is_no_failure(autojump_clock: trio.testing.MockClock) -> None:
    controllers = Controllers({"a": (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a' already exists.")})
    controllers.show("a")
    topics = controllers.topics()
    await topics.create_internal_topic("a")
    assert await topics.ask_for_topics([NewTopic("a")]) == {}


async def test_refused_topic_has_its_reason(autojump_clock: trio.testing.MockClock) -> None:
    too_few = (ErrorCode.INVALID_REPLICATION_FACTOR, "Unable to replicate the partition 3 time(s)")
    controllers = Controllers({"a": too_few, "__consumer_offsets": too_few})
    topics = controllers.topics()
    await topics.create_on_first_use(["a"], SENDER)
    wanted = NewTopic("a", 4, 2, configs={"retention.ms": "1"})
    assert await topics.ask_for_topics([wanted]) == {"a": too_few[1]}
    assert controllers.shapes()[-1] == ("a", 4, 2)
    with pytest.raises(Refusal, match="Unable to replicate") as refused:
        await topics.create_internal_topic("__consumer_offsets")
    assert refused.value.error is ErrorCode.INVALID_REPLICATION_FACTOR


async def test_silent_controllers_are_an_error_of_the_store(
    autojump_clock: trio.testing.MockClock,
) -> None:
    topics = Controllers(delay_s=100).topics(request_timeout_ms="5000")
    with pytest.raises(StoreError, match="do not answer within 5000 ms"):
        await topics.create_on_first_use(["a"], SENDER)
    assert trio.current_time() == pytest.approx(5)


@pytest.mark.parametrize(
    "failure",
    [
        PeerError("the controllers", "gone"),
        NotForwarded(ErrorCode.REQUEST_TIMED_OUT, "the controllers: gone"),
    ],
)
async def test_lost_controllers_are_an_error_of_the_store(
    failure: Exception, autojump_clock: trio.testing.MockClock
) -> None:
    controllers = Controllers(failure=failure)
    topics = controllers.topics()
    for ask in (topics.create_on_first_use(["a"], SENDER), topics.create_internal_topic("b")):
        with pytest.raises(StoreError, match="gone"):
            await ask
    controllers.failure = None
    controllers.show("a")
    await topics.create_on_first_use(["a"])
    assert controllers.shapes()[-1][0] == "a"
