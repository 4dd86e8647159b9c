"""Where a case is played: one broker, one version, names of its own, and a record of it all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.codecs.primitives import Message
from kwire.codecs.uuids import uuid_bytes, uuid_text
from kwire.conformance.wire.broker import Broker, NotReady, Topic
from kwire.conformance.wire.peer import (
    CLIENT_ID,
    REPLY_TIMEOUT_S,
    Outcome,
    Peer,
    Reply,
    Sent,
)

SETUP = "set-up"  # the connection of what is not compared


class NotApplicable(Exception):
    """The case has nothing to send at this version."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a case and what came back."""

    api_key: int
    version: int
    request: Message | bytes
    """The message, or the body where it is none."""
    outcome: Outcome


@dataclass
class Stage:
    """`send` is written down and compared; `ask` is set-up, which has to succeed."""

    broker: Broker
    api_key: ApiKey
    version: int
    prefix: str
    now_ms: int
    """The run's time, the same on both brokers: for records that are to be young."""
    reply_timeout_s: float = REPLY_TIMEOUT_S
    steps: list[Step] = field(default_factory=list)
    topics: dict[bytes, str] = field(default_factory=dict)
    """The names of topics by the ids this broker gave them; members' too, where they look alike."""
    _peers: dict[str, Peer] = field(default_factory=dict)
    _waiting: dict[str, list[tuple[int, int, Message]]] = field(default_factory=dict)
    _member_ids: dict[str, str] = field(default_factory=dict)
    _own_topics: list[str] = field(default_factory=list)

    # -- names and topics

    def name(self, suffix: str = "x") -> str:
        """A name that only this case uses."""
        return f"{self.prefix}-{suffix}"

    def topic(
        self, suffix: str = "t", partitions: int = 1, configs: dict[str, str] | None = None
    ) -> Topic:
        """A new topic of this case's own; it is deleted afterwards."""
        name = self.name(suffix)
        topic = self.broker.create_topic(self._peer(SETUP), name, partitions, configs)
        self._own_topics.append(name)
        self.topics[topic.id] = name
        return topic

    def shared_topic(
        self,
        kind: str,
        partitions: int = 1,
        fill: Callable[[Topic], None] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> Topic:
        """A topic that several cases read and none changes; `fill` is called once, when new."""
        name = f"{self.prefix.rsplit('-', 1)[0]}-shared-{kind}"

        def make() -> Topic:
            topic = self.broker.create_topic(self._peer(SETUP), name, partitions, configs)
            if fill is not None:
                fill(topic)
            return topic

        topic = self.broker.shared(kind, make)
        self.topics[topic.id] = topic.name
        return topic

    def fence(self) -> None:
        """Set-up: wait until the broker has taken in all changes of the cluster so far.

        They come to it in order, some time after whoever asked for them was answered; so once it
        has a topic that is made now, everything before has come, though what came together with it
        may not count yet; it does once there is another topic, that is made then.
        """
        for _ in range(2):
            self.topic(f"fence{len(self._own_topics)}")

    def gone(self, topic: Topic) -> None:
        """Set-up: delete a topic and wait until its partitions are not served any longer."""
        delete_topics(self.broker, self._peer(SETUP), [topic.name])
        self.broker.wait_until_gone(self._peer(SETUP), topic)

    def owns(self, topic_name: str) -> None:
        """Delete this topic afterwards: a request of the case created it."""
        self._own_topics.append(topic_name)

    def knows(self, member_id: str) -> None:
        """The broker has given this id, spelled as Kafka spells its ids: each gives its own."""
        if len(member_id) == len(uuid_text(bytes(16))):
            number = len(self._member_ids) + 1
            self._member_ids.setdefault(member_id, f"member {number}")
            self.topics[uuid_bytes(member_id)] = self._member_ids[member_id]

    # -- requests

    def ask(self, request: Message, version: int | None = None) -> Any:  # noqa: ANN401 - any response
        """Set-up: send at the newest version, the reply is needed but not compared."""
        return self.broker.ask(self._peer(SETUP), request, version)

    def send(
        self,
        request: Message,
        version: int | None = None,
        *,
        on: str = "main",
        wait_s: float | None = None,
    ) -> Any:  # noqa: ANN401 - any response
        """Send on connection `on`; the reply's message, None where there is none."""
        self.begin(request, version, on=on)
        return self.end(on, wait_s)

    def begin(self, request: Message, version: int | None = None, *, on: str = "main") -> None:
        """Send a request whose reply `end` waits for: others may be sent in between."""
        assert request.API_KEY is not None
        if version is None:
            same = self.api_key == request.API_KEY
            version = self.version if same else self.broker.version_of(request)
        body = request.encode(version)
        self._peer(on).send(request.API_KEY, version, body)
        self._waiting.setdefault(on, []).append((request.API_KEY, version, request))

    def end(self, on: str = "main", wait_s: float | None = None) -> Any:  # noqa: ANN401 - any response
        """The reply to the oldest request begun on that connection."""
        api_key, version, request = self._waiting[on].pop(0)
        outcome = self._peers[on].receive(wait_s or self.reply_timeout_s)
        self.steps.append(Step(api_key, version, request, outcome))
        return outcome.message if isinstance(outcome, Reply) else None

    def send_unanswered(self, request: Message, *, on: str = "main") -> None:
        """Send a request that has no reply; one that comes spoils the next reply."""
        assert request.API_KEY is not None
        body = request.encode(self.version)
        self._peer(on).send(request.API_KEY, self.version, body, answered=False)
        self.steps.append(Step(request.API_KEY, self.version, request, Sent()))

    def send_bytes(
        self,
        body: bytes,
        version: int | None = None,
        *,
        api_key: int | None = None,
        client_id: str | None = CLIENT_ID,
        on: str = "main",
    ) -> None:
        """Send a body that no message need encode to."""
        key = int(self.api_key) if api_key is None else api_key
        number = self.version if version is None else version
        peer = self._peer(on)
        peer.send(key, number, body, client_id=client_id)
        self.steps.append(Step(key, number, body, peer.receive(self.reply_timeout_s)))

    def _peer(self, on: str) -> Peer:
        peer = self._peers.get(on)
        if peer is None or not peer.usable:
            peer = self._peers[on] = Peer(self.broker.address)
        return peer

    def close_connection(self, on: str = "main") -> None:
        """Hang up."""
        if on in self._peers:
            self._peers.pop(on).close()

    # -- afterwards

    def finish(self) -> None:
        """Delete the case's topics and hang up."""
        with contextlib.suppress(NotReady, OSError):
            for start in range(0, len(self._own_topics), 50):
                names = self._own_topics[start : start + 50]
                delete_topics(self.broker, self._peer(SETUP), names)
        for peer in self._peers.values():
            peer.close()


def delete_topics(broker: Broker, peer: Peer, names: list[str]) -> None:
    """Delete topics that were needed; some may be gone."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name) for name in names], topic_names=names, timeout_ms=30_000
    )
    version = broker.version_of(request)
    if version < 6:
        request.topics = []
    broker.ask(peer, request, version)
