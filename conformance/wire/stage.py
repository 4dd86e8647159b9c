"""Runs a case on one broker in one version, and records its requests and responses."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.codecs.primitives import Message
from kwire.codecs.uuids import uuid_bytes, uuid_text
from kwire.conformance.wire.broker import CaseTopic, NotReady, RemoteBroker
from kwire.conformance.wire.peer import (
    CLIENT_ID,
    REPLY_TIMEOUT_S,
    ClientConnection,
    Outcome,
    Reply,
    Sent,
)

SETUP = "set-up"  # the connection for requests that are not compared


class NotApplicable(Exception):
    """The case has no request to send in this version."""


@dataclass(frozen=True, slots=True)
class CaseStep:
    """One request of a case and its outcome."""

    api_key: int
    version: int
    request: Message | bytes
    """The message, or the body as bytes if it is not a valid message."""
    outcome: Outcome


@dataclass
class Stage:
    """A case's connections, names and steps on one broker.

    `send` records a response for the comparison. `ask` is for preparation: its response must arrive
    and is not compared.
    """

    broker: RemoteBroker
    api_key: ApiKey
    version: int
    prefix: str
    now_ms: int
    """The time of the run, equal on both brokers, for records that must be recent."""
    reply_timeout_s: float = REPLY_TIMEOUT_S
    steps: list[CaseStep] = field(default_factory=list)
    topics: dict[bytes, str] = field(default_factory=dict)
    """Names by topic id, and by the ids of members, which have the same form."""
    _peers: dict[str, ClientConnection] = field(default_factory=dict)
    _waiting: dict[str, list[tuple[int, int, Message]]] = field(default_factory=dict)
    _member_ids: dict[str, str] = field(default_factory=dict)
    _own_topics: list[str] = field(default_factory=list)

    # Names and topics

    def name(self, suffix: str = "x") -> str:
        """Return a name that no other case uses."""
        return f"{self.prefix}-{suffix}"

    def topic(
        self, suffix: str = "t", partitions: int = 1, configs: dict[str, str] | None = None
    ) -> CaseTopic:
        """Create a topic for this case alone; it is deleted at the end."""
        name = self.name(suffix)
        topic = self.broker.create_topic(self._peer(SETUP), name, partitions, configs)
        self._own_topics.append(name)
        self.topics[topic.id] = name
        return topic

    def shared_topic(
        self,
        kind: str,
        partitions: int = 1,
        fill: Callable[[CaseTopic], None] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> CaseTopic:
        """Return a topic that several cases read and none changes; `fill` is called once, after its
        creation."""
        name = f"{self.prefix.rsplit('-', 1)[0]}-shared-{kind}"

        def make() -> CaseTopic:
            """Create the topic and fill it."""
            topic = self.broker.create_topic(self._peer(SETUP), name, partitions, configs)
            if fill is not None:
                fill(topic)
            return topic

        topic = self.broker.shared_topic(kind, make)
        self.topics[topic.id] = topic.name
        return topic

    def await_cluster_changes(self) -> None:
        """Wait until the broker has applied all changes of the cluster so far.

        Brokers apply changes in order, some time after the response to the client that made them.
        So a broker that has a new topic also has all earlier changes. Changes that arrive together
        with the topic may not be in force yet; they are once the broker has a second new topic.
        """
        for _ in range(2):
            self.topic(f"fence{len(self._own_topics)}")

    def delete_and_wait(self, topic: CaseTopic) -> None:
        """Delete a topic and wait until its partitions are no longer served."""
        delete_topics(self.broker, self._peer(SETUP), [topic.name])
        self.broker.wait_until_deleted(self._peer(SETUP), topic)

    def delete_later(self, topic_name: str) -> None:
        """Delete this topic at the end, because a request of the case created it."""
        self._own_topics.append(topic_name)

    def note_member_id(self, member_id: str) -> None:
        """Note a member id that the broker generated in Kafka's form, to give it a comparable
        name."""
        if len(member_id) == len(uuid_text(bytes(16))):
            number = len(self._member_ids) + 1
            self._member_ids.setdefault(member_id, f"member {number}")
            self.topics[uuid_bytes(member_id)] = self._member_ids[member_id]

    # Requests

    def ask(self, request: Message, version: int | None = None) -> Any:  # noqa: ANN401 - any response
        """Return the response to a request in its newest version; it is not compared."""
        return self.broker.ask(self._peer(SETUP), request, version)

    def send(
        self,
        request: Message,
        version: int | None = None,
        *,
        on: str = "main",
        wait_s: float | None = None,
    ) -> Any:  # noqa: ANN401 - any response
        """Return the message of the response on connection `on`, or None if there was no valid
        response."""
        self.begin(request, version, on=on)
        return self.end(on, wait_s)

    def begin(self, request: Message, version: int | None = None, *, on: str = "main") -> None:
        """Send a request and return; `end` waits for its response."""
        assert request.API_KEY is not None
        if version is None:
            same = self.api_key == request.API_KEY
            version = self.version if same else self.broker.version_of(request)
        body = request.encode(version)
        self._peer(on).send(request.API_KEY, version, body)
        self._waiting.setdefault(on, []).append((request.API_KEY, version, request))

    def end(self, on: str = "main", wait_s: float | None = None) -> Any:  # noqa: ANN401 - any response
        """Return the response to the oldest request that was begun on that connection."""
        api_key, version, request = self._waiting[on].pop(0)
        outcome = self._peers[on].receive(wait_s or self.reply_timeout_s)
        self.steps.append(CaseStep(api_key, version, request, outcome))
        return outcome.message if isinstance(outcome, Reply) else None

    def send_unanswered(self, request: Message, *, on: str = "main") -> None:
        """Send a request that has no response; the next response shows if the broker sends one."""
        assert request.API_KEY is not None
        body = request.encode(self.version)
        self._peer(on).send(request.API_KEY, self.version, body, answered=False)
        self.steps.append(CaseStep(request.API_KEY, self.version, request, Sent()))

    def send_bytes(
        self,
        body: bytes,
        version: int | None = None,
        *,
        api_key: int | None = None,
        client_id: str | None = CLIENT_ID,
        on: str = "main",
    ) -> None:
        """Send a body that need not be a valid message."""
        key = int(self.api_key) if api_key is None else api_key
        number = self.version if version is None else version
        peer = self._peer(on)
        peer.send(key, number, body, client_id=client_id)
        self.steps.append(CaseStep(key, number, body, peer.receive(self.reply_timeout_s)))

    def _peer(self, on: str) -> ClientConnection:
        """Return the connection of this name; a new one if it cannot be used any more."""
        peer = self._peers.get(on)
        if peer is None or not peer.usable:
            peer = self._peers[on] = ClientConnection(self.broker.address)
        return peer

    def close_connection(self, on: str = "main") -> None:
        """Close the connection `on`; the next request opens a new one."""
        if on in self._peers:
            self._peers.pop(on).close()

    # The end

    def finish(self) -> None:
        """Delete the case's topics and close its connections."""
        with contextlib.suppress(NotReady, OSError):
            for start in range(0, len(self._own_topics), 50):
                names = self._own_topics[start : start + 50]
                delete_topics(self.broker, self._peer(SETUP), names)
        for peer in self._peers.values():
            peer.close()


def delete_topics(broker: RemoteBroker, peer: ClientConnection, names: list[str]) -> None:
    """Delete topics and ignore errors, since some of them may be deleted already."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name) for name in names], topic_names=names, timeout_ms=30_000
    )
    version = broker.version_of(request)
    if version < 6:
        request.topics = []
    broker.ask(peer, request, version)


def delete_shared_topics(broker: RemoteBroker) -> None:
    """Delete the topics that several cases used on this broker, and forget them."""
    if names := broker.take_shared_names():
        peer = ClientConnection(broker.address)
        try:
            delete_topics(broker, peer, names)
        finally:
            peer.close()
