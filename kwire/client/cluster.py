"""The brokers of a cluster: metadata, and a connection to each broker when it is needed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kwire.client.connection import BrokerConnection, Destination
from kwire.client.errors import (
    BrokerRefused,
    BrokerUnreachable,
    ClientError,
    Misuse,
    RequestTimedOut,
    WrongBroker,
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
"""The pause before a retry, doubled each time (retry.backoff.ms and retry.backoff.max.ms)."""
UNKNOWN_TOPIC_GRACE_S: Final = 3.0
"""How long to retry after UNKNOWN_TOPIC_OR_PARTITION, counting only the pauses.  Not all brokers
know a new topic at once (KAFKA-8264), and automatic creation first answers with that error."""

DEFAULT_PORT: Final = 9092


class TopicPartition(NamedTuple):
    """A partition by topic name and number, sorted by both."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ClusterNode(NamedTuple):
    """A broker as the cluster advertises it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Cluster:
    """Connections to the brokers of a cluster, which its bootstrap servers name.

    A connection is made when it is first needed, and kept.  Requests that fail with a retriable
    error, because the broker is not the right one or not ready, are retried for `timeout_s`.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "kwire",
        timeout_s: float = 30.0,
        security: ClientSecurity | None = None,
        checks_brokers: bool = True,
    ) -> None:
        """`bootstrap` is HOST:PORT[,...].  `timeout_s` limits, in seconds, each response and the
        retries of a request.  Nothing is connected yet.

        With `checks_brokers`, brokers are asked whether they are those that the cluster named at
        their addresses (metadata.cluster.check.enable)."""
        self.security = security
        self.bootstrap_text = bootstrap
        self.bootstrap = parse_bootstrap(bootstrap)
        self.client_id = client_id
        self.timeout_s = timeout_s
        self.checks_brokers = checks_brokers
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.nodes: dict[int, ClusterNode] = {}
        self.topics: dict[str, MetadataResponseTopic] = {}
        self.on_trouble: Callable[[ClientError], None] | None = None
        """Called with each error after which the client retries."""
        self.role_timeouts_s: dict[str, float] = {}
        """Shorter timeouts of the connections of some roles, in seconds: see `node`."""
        self._connections: dict[tuple[int, str], BrokerConnection] = {}
        self._first: BrokerConnection | None = None
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
        """Whether any broker has ever responded."""
        return self._first is not None

    def any(self) -> BrokerConnection:
        """A connection to any broker: an open one, or one to the first server that answers."""
        for connection in self._connections.values():
            if not connection.closed and not connection.awaits_reply:
                return connection
        if self._first is None or self._first.closed:
            self._first = self._connect_first()
        return self._first

    def _connect_first(self) -> BrokerConnection:
        """Connects to the first reachable address of the bootstrap servers and of the known
        brokers.  If none is reachable, raises BrokerUnreachable with the reasons of all."""
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

    def _connect(
        self, host: str, port: int, destination: Destination | None = None, role: str = ""
    ) -> BrokerConnection:
        """Return a new connection with this cluster's client id and security, and the timeout of
        the role."""
        return BrokerConnection(
            host,
            port,
            client_id=self.client_id,
            timeout_s=min(self.timeout_s, self.role_timeouts_s.get(role, self.timeout_s)),
            security=self.security,
            destination=destination,
        )

    def _destination(self, node_id: int) -> Destination | None:
        """The broker to ask for at its address; None if the cluster is unknown or not checked."""
        if self.cluster_id is None or not self.checks_brokers:
            return None
        return Destination(self.cluster_id, node_id)

    def _start_again(self) -> None:
        """Forget the cluster, so that the bootstrap servers are asked for it.

        Its brokers' addresses belong to others now: what is known of the cluster is too old.
        """
        self.close()
        self._first = None
        self.cluster_id, self.controller_id = None, -1
        self.nodes.clear()
        self.topics.clear()
        self._coordinators.clear()

    def node(self, node_id: int, role: str = "") -> BrokerConnection:
        """The connection to a broker for a `role`; each role has its own connection.

        A fetch that waits for records delays all later requests on its connection.  So fetchers and
        group members have their own connections, as in the Java client.
        """
        connection = self._connections.get((node_id, role))
        if connection is None or connection.closed:
            if node_id not in self.nodes:
                self.refresh([])
            if node_id not in self.nodes:
                raise BrokerUnreachable(f"broker {node_id} is not in the cluster now")
            node = self.nodes[node_id]
            try:
                connection = self._connect(node.host, node.port, self._destination(node_id), role)
            except WrongBroker:
                self._start_again()
                raise
            except BrokerUnreachable as error:
                raise BrokerUnreachable(
                    f"{error}; broker {node_id} advertises that address: its advertised.listeners "
                    "must name an address that this machine can reach"
                ) from error
            self._connections[node_id, role] = connection
        return connection

    def must_have_broker(self, node_id: int) -> None:
        """Raise Misuse if the broker is not in the cluster now."""
        if node_id not in self.nodes:
            self.retrying(lambda: self.refresh([]))
        if node_id not in self.nodes:
            known = ", ".join(map(str, sorted(self.nodes)))
            raise Misuse(f"broker {node_id} is not in the cluster now; brokers are: {known}")

    def controller(self) -> BrokerConnection:
        """The connection to the controller, or to any broker if there is no controller."""
        if self.controller_id < 0:
            self.refresh([])
        return self.node(self.controller_id) if self.controller_id >= 0 else self.any()

    def leader_id(self, partition: TopicPartition) -> int:
        """The id of the broker that leads a partition, from cached metadata if there are any.

        Raises BrokerRefused if the partition has no leader, Misuse if it does not exist.
        """
        topic = self.topics.get(partition.topic) or self.topic(partition.topic)
        for state in topic.partitions:
            if state.partition_index == partition.partition:
                if state.leader_id < 0:
                    self.forget_leader(partition.topic)
                    raise BrokerRefused(ErrorCode.LEADER_NOT_AVAILABLE, str(partition))
                return state.leader_id
        count = len(topic.partitions)
        raise Misuse(f"topic {topic.name} has no partition {partition.partition}: it has {count}")

    def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[int, dict[str, list[TopicPartition]]]:
        """The partitions by leader id and topic, as requests to leaders need them."""
        grouped: dict[int, dict[str, list[TopicPartition]]] = {}
        for partition in partitions:
            of_leader = grouped.setdefault(self.leader_id(partition), {})
            of_leader.setdefault(partition.topic, []).append(partition)
        return grouped

    def forget_leader(self, topic: str) -> None:
        """Drop the cached metadata of a topic; its leaders are looked up again when needed."""
        self.topics.pop(topic, None)

    def coordinator_id(self, group_id: str) -> int:
        """The id of the broker that coordinates a group."""
        if group_id not in self._coordinators:
            request = FindCoordinatorRequest(key=group_id, coordinator_keys=[group_id])
            connection = self.any()
            if connection.version_for(request) < 4:  # From version 4 on it has a list of keys.
                request.coordinator_keys = []
            else:
                request.key = ""
            self._coordinators[group_id] = self._checked_id(connection.call(request), group_id)
        return self._coordinators[group_id]

    def coordinator(self, group_id: str, role: str = "") -> BrokerConnection:
        """The connection to a group's coordinator."""
        return self.node(self.coordinator_id(group_id), role)

    def _checked_id(self, reply: FindCoordinatorResponse, group_id: str) -> int:
        """The coordinator's id.  Its address is kept if the broker is unknown so far."""
        answer = reply.coordinators[0] if reply.coordinators else reply
        check(answer.error_code, f"coordinator of group {group_id}", answer.error_message)
        self.nodes.setdefault(answer.node_id, ClusterNode(answer.node_id, answer.host, answer.port))
        return answer.node_id

    def forget_coordinator(self, group_id: str) -> None:
        """Drop the cached coordinator of a group, so that it is looked up when needed."""
        self._coordinators.pop(group_id, None)

    def refresh(
        self, topics: Iterable[str] | None = None, *, create: bool = False
    ) -> MetadataResponse:
        """Request metadata of the brokers and of `topics`, or of all topics if None.

        With `create`, the broker may create missing topics.
        """
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        connection = self.any()
        if connection.version_for(request) < 4:  # Before version 4 the field must be true.
            request.allow_auto_topic_creation = True
        reply: MetadataResponse = connection.call(request)
        check(reply.error_code, "metadata")
        self.cluster_id = reply.cluster_id
        self.controller_id = reply.controller_id
        self.nodes = {
            broker.node_id: ClusterNode(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in reply.brokers
        }
        for topic in reply.topics:
            if topic.name is not None and not topic.error_code:
                self.topics[topic.name] = topic
        return reply

    def topic(self, name: str, *, create: bool = False) -> MetadataResponseTopic:
        """New metadata of a topic with all its partitions.

        Raises BrokerRefused if the topic does not exist.  With `create`, the broker may create it,
        if its auto.create.topics.enable is true.
        """

        def ask() -> MetadataResponseTopic:
            topic = self.refresh([name], create=create).topics[0]
            check(topic.error_code, f"topic {name}", topic=name)
            return topic

        patience = min(UNKNOWN_TOPIC_GRACE_S if create else 0.0, self.timeout_s)
        return self.retrying(ask, unknown_topic_grace_s=patience)

    def topic_ids(self, names: Iterable[str]) -> dict[str, bytes]:
        """The topic ids of the topics that exist, requested if they are not cached."""
        names = list(names)
        if any(name not in self.topics for name in names):
            self.refresh(names)
        return {name: self.topics[name].topic_id for name in names if name in self.topics}

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of a topic by its id, or None if it is not among the cached topics."""
        for name, topic in self.topics.items():
            if topic.topic_id == topic_id:
                return name
        return None

    def tell_of_trouble(self, error: ClientError) -> None:
        """Report an error after which the client retries."""
        if self.on_trouble is not None:
            self.on_trouble(error)

    def retrying(self, attempt: Callable[[], T], *, unknown_topic_grace_s: float = 0.0) -> T:
        """The result of `attempt`, retried after retriable errors for `timeout_s`.

        After UNKNOWN_TOPIC_OR_PARTITION it is retried only for the grace, since an unknown topic
        seldom appears.  Only the pauses count against the grace: slow brokers need longer to learn
        of a new topic.
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
                    patience = 0.0  # No broker has ever answered: the address is probably wrong.
                elif isinstance(error, RequestTimedOut):
                    patience = 0.0  # The request has used all the time.
                if not error.retriable or waited_s + backoff_s > patience:
                    raise
                if isinstance(error, BrokerUnreachable) or code == ErrorCode.NOT_CONTROLLER:
                    self.controller_id = -1  # Another broker may be the controller now.
                self.tell_of_trouble(error)
                time.sleep(backoff_s)
                paused_s += backoff_s
                backoff_s = min(2 * backoff_s, BACKOFF_S_MAX)


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """The addresses in `a:1,b:2`.  The default port is 9092; IPv6 addresses need brackets.

    Raises Misuse.
    """
    addresses = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, colon, port = entry.rpartition(":")
        if not colon or entry.endswith("]"):
            host, port = entry, str(DEFAULT_PORT)
        if not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65_536 or not host:
            raise Misuse(f"bootstrap server {entry[:60]!r} is not host:port")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise Misuse("no bootstrap server is given")
    return addresses
