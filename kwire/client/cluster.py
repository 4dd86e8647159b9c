"""All brokers of a cluster: who they are, who leads what, and a connection to each when needed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kwire.client.connection import Connection
from kwire.client.errors import (
    BrokerRefused,
    BrokerUnreachable,
    ClientError,
    Misuse,
    RequestTimedOut,
    check,
)
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.codecs.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from kwire.client.security import ClientSecurity

T = TypeVar("T")

BACKOFF_S: Final = 0.1
BACKOFF_S_MAX: Final = 1.0
"""Pause between tries, doubled each time: Kafka's retry.backoff.ms and retry.backoff.max.ms."""
UNKNOWN_TOPIC_GRACE_S: Final = 3.0
"""How long a topic may stay unknown, by the pauses between the tries: one that was created a moment
ago is not known everywhere at once (KAFKA-8264), and automatic creation answers "unknown" first."""

DEFAULT_PORT: Final = 9092


class TopicPartition(NamedTuple):
    """A partition by name; sorts as people read it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Node(NamedTuple):
    """A broker as the cluster advertises it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Cluster:
    """Connections to a cluster, found through its bootstrap servers.

    Connections are made when first needed and kept.  Orders that a broker refuses because it knows
    better where to go, or is not ready, are tried again until `timeout_s` is over.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "kwire",
        timeout_s: float = 30.0,
        security: ClientSecurity | None = None,
    ) -> None:
        self.security = security
        self.bootstrap_text = bootstrap
        self.bootstrap = parse_bootstrap(bootstrap)
        self.client_id = client_id
        self.timeout_s = timeout_s
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.nodes: dict[int, Node] = {}
        self.topics: dict[str, MetadataResponseTopic] = {}
        self.on_trouble: Callable[[ClientError], None] | None = None
        """Told of each failure after which something is tried again."""
        self._connections: dict[tuple[int, str], Connection] = {}
        self._first: Connection | None = None
        self._coordinators: dict[str, int] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        if self._first is not None:
            self._first.close()
        self._connections.clear()

    @property
    def has_answered(self) -> bool:
        """Whether any broker has ever replied."""
        return self._first is not None

    def any(self) -> Connection:
        """A connection to some broker: an open one, or the first bootstrap server to answer."""
        for connection in self._connections.values():
            if not connection.closed and not connection.awaits_reply:
                return connection
        if self._first is None or self._first.closed:
            self._first = self._connect_first()
        return self._first

    def _connect_first(self) -> Connection:
        failures: list[ClientError] = []
        known = [(node.host, node.port) for node in self.nodes.values()]
        for host, port in dict.fromkeys([*self.bootstrap, *known]):
            try:
                return self._connect(host, port)
            except (BrokerUnreachable, RequestTimedOut) as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        raise BrokerUnreachable("; ".join(map(str, failures)))

    def _connect(self, host: str, port: int) -> Connection:
        return Connection(
            host,
            port,
            client_id=self.client_id,
            timeout_s=self.timeout_s,
            security=self.security,
        )

    def node(self, node_id: int, role: str = "") -> Connection:
        """The connection to a broker by its id; each `role` has one of its own.

        A fetch that waits for records holds up what comes after it on its connection, so fetchers
        and group members use their own, as the Java client does.
        """
        connection = self._connections.get((node_id, role))
        if connection is None or connection.closed:
            if node_id not in self.nodes:
                self.refresh([])
            if node_id not in self.nodes:
                raise BrokerUnreachable(f"broker {node_id} is not in the cluster now")
            node = self.nodes[node_id]
            try:
                connection = self._connect(node.host, node.port)
            except BrokerUnreachable as error:
                raise BrokerUnreachable(
                    f"{error}; broker {node_id} advertises that address, so its "
                    "advertised.listeners must name one that this machine can reach"
                ) from error
            self._connections[node_id, role] = connection
        return connection

    def must_have_broker(self, node_id: int) -> None:
        """Raise Misuse where the cluster says that it has no such broker now."""
        if node_id not in self.nodes:
            self.retrying(lambda: self.refresh([]))
        if node_id not in self.nodes:
            known = ", ".join(map(str, sorted(self.nodes)))
            raise Misuse(f"there is no broker {node_id} in the cluster now: it has {known}")

    def controller(self) -> Connection:
        """Where topics are created and altered."""
        if self.controller_id < 0:
            self.refresh([])
        return self.node(self.controller_id) if self.controller_id >= 0 else self.any()

    def leader_id(self, partition: TopicPartition) -> int:
        """The broker that leads a partition, by what is known; asks where nothing is."""
        topic = self.topics.get(partition.topic) or self.topic(partition.topic)
        for known in topic.partitions:
            if known.partition_index == partition.partition:
                if known.leader_id < 0:
                    self.forget_leader(partition.topic)
                    raise BrokerRefused(ErrorCode.LEADER_NOT_AVAILABLE, str(partition))
                return known.leader_id
        count = len(topic.partitions)
        raise Misuse(f"topic {topic.name} has no partition {partition.partition}: it has {count}")

    def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[int, dict[str, list[TopicPartition]]]:
        """Leader -> topic -> partitions: the shape of requests that go to leaders."""
        found: dict[int, dict[str, list[TopicPartition]]] = {}
        for partition in partitions:
            of_leader = found.setdefault(self.leader_id(partition), {})
            of_leader.setdefault(partition.topic, []).append(partition)
        return found

    def forget_leader(self, topic: str) -> None:
        """Ask again who leads the partitions of a topic when it is next needed."""
        self.topics.pop(topic, None)

    def coordinator_id(self, group_id: str) -> int:
        """The broker that coordinates a group."""
        if group_id not in self._coordinators:
            request = FindCoordinatorRequest(key=group_id, coordinator_keys=[group_id])
            connection = self.any()
            if connection.version_for(request) < 4:  # KIP-699: from 4 on, many keys at a time
                request.coordinator_keys = []
            else:
                request.key = ""
            self._coordinators[group_id] = self._found(connection.call(request), group_id)
        return self._coordinators[group_id]

    def coordinator(self, group_id: str, role: str = "") -> Connection:
        """The connection to a group's coordinator."""
        return self.node(self.coordinator_id(group_id), role)

    def _found(self, reply: FindCoordinatorResponse, group_id: str) -> int:
        found = reply.coordinators[0] if reply.coordinators else reply
        check(found.error_code, f"coordinator of group {group_id}", found.error_message)
        self.nodes.setdefault(found.node_id, Node(found.node_id, found.host, found.port))
        return found.node_id

    def forget_coordinator(self, group_id: str) -> None:
        """Look the coordinator up again when it is next needed."""
        self._coordinators.pop(group_id, None)

    def refresh(
        self, topics: Iterable[str] | None = None, *, create: bool = False
    ) -> MetadataResponse:
        """Ask for the brokers and for `topics` (None: all); `create` those that are missing."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        connection = self.any()
        if connection.version_for(request) < 4:  # older brokers create unasked
            request.allow_auto_topic_creation = True
        reply: MetadataResponse = connection.call(request)
        check(reply.error_code, "metadata")
        self.cluster_id = reply.cluster_id
        self.controller_id = reply.controller_id
        self.nodes = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in reply.brokers
        }
        for topic in reply.topics:
            if topic.name is not None and not topic.error_code:
                self.topics[topic.name] = topic
        return reply

    def topic(self, name: str, *, create: bool = False) -> MetadataResponseTopic:
        """A topic with all its partitions, asked for anew.

        Raises BrokerRefused where there is none; `create` lets the broker create it, if its
        auto.create.topics.enable says so.
        """

        def ask() -> MetadataResponseTopic:
            found = self.refresh([name], create=create).topics[0]
            check(found.error_code, f"topic {name}", topic=name)
            return found

        patience = min(UNKNOWN_TOPIC_GRACE_S if create else 0.0, self.timeout_s)
        return self.retrying(ask, unknown_topic_grace_s=patience)

    def topic_ids(self, names: Iterable[str]) -> dict[str, bytes]:
        """Of those topics that exist; they are asked for where they are not known yet."""
        names = list(names)
        if any(name not in self.topics for name in names):
            self.refresh(names)
        return {name: self.topics[name].topic_id for name in names if name in self.topics}

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name that belongs to a topic id, among the topics asked about."""
        for name, topic in self.topics.items():
            if topic.topic_id == topic_id:
                return name
        return None

    def tell_of_trouble(self, error: ClientError) -> None:
        """Have it told that something is tried again, and why."""
        if self.on_trouble is not None:
            self.on_trouble(error)

    def retrying(self, attempt: Callable[[], T], *, unknown_topic_grace_s: float = 0.0) -> T:
        """The result of `attempt`, tried again while what stops it may pass.

        A topic that is unknown is not waited for longer than its grace: it seldom comes.  Of that
        grace the pauses count alone: brokers that are slow to answer are slow to hear of it, too.
        """
        start, backoff_s, paused_s = time.monotonic(), BACKOFF_S, 0.0
        while True:
            try:
                return attempt()
            except ClientError as error:
                patience, waited_s = self.timeout_s, time.monotonic() - start
                code = error.code if isinstance(error, BrokerRefused) else None
                if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    patience, waited_s = unknown_topic_grace_s, paused_s
                elif isinstance(error, BrokerUnreachable) and not self.nodes:
                    patience = 0.0  # never reached: the address is wrong, or nothing runs there
                elif isinstance(error, RequestTimedOut):
                    patience = 0.0  # it has had all the time there was
                if not error.retriable or waited_s + backoff_s > patience:
                    raise
                if isinstance(error, BrokerUnreachable) or code == ErrorCode.NOT_CONTROLLER:
                    self.controller_id = -1  # it may be another by now: asked when next needed
                self.tell_of_trouble(error)
                time.sleep(backoff_s)
                paused_s += backoff_s
                backoff_s = min(2 * backoff_s, BACKOFF_S_MAX)


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """`a:1,b:2` -> addresses; a missing port is Kafka's 9092, IPv6 stands in brackets."""
    found = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, colon, port = entry.rpartition(":")
        if not colon or entry.endswith("]"):
            host, port = entry, str(DEFAULT_PORT)
        if not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65_536 or not host:
            raise Misuse(f"{entry[:60]!r} is not host:port")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise Misuse("no bootstrap server is given")
    return found
