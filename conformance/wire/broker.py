"""A broker at an address, with its ids and the versions that it serves.

Also creates what the cases need first: topics, coordinators, producer ids.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import ApiVersionsRequest
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.codecs.primitives import Message
from kwire.conformance.wire.peer import Address, ClientConnection, Reply

READY_TIMEOUT_S = 60.0
"""Limit for a coordinator to load its partition, and for a new topic to get a leader.

Only the first case of a run waits for long.
"""
POLL_S = 0.01
GROUP, TRANSACTION = 0, 1
"""Types of the keys that have a coordinator."""
TRANSIENT = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


CLIENT_METRICS = 16


class NotReady(RuntimeError):
    """The broker lacks something that every case needs; the message says what."""


@dataclass(frozen=True, slots=True)
class CaseTopic:
    """A topic that a case may use."""

    name: str
    id: bytes
    partitions: int


def address_of(bootstrap: str) -> Address:
    """Return the address in `HOST:PORT`. Raises ValueError."""
    host, colon, port = bootstrap.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"{bootstrap!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


Served = dict[int, tuple[int, int]]


def common_versions(left: Served, right: Served) -> Served:
    """Return the versions that both brokers serve, by API key."""
    common = {}
    for key in left.keys() & right.keys():
        low, high = max(left[key][0], right[key][0]), min(left[key][1], right[key][1])
        if low <= high:
            common[key] = (low, high)
    return common


@dataclass
class RemoteBroker:
    """A broker; `served` has the version ranges that it reports in ApiVersions, by API key."""

    address: Address
    served: dict[int, tuple[int, int]] = field(default_factory=dict)
    cluster_id: str | None = None
    node_id: int = -1
    members: frozenset[Address] = frozenset()
    """The addresses of the brokers of its cluster."""
    _shared: dict[str, CaseTopic] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def bootstrap(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def is_in_cluster_of(self, other: RemoteBroker) -> bool:
        """Whether both are in the same cluster; clusters that tests format have the same id."""
        return (self.cluster_id, self.members) == (other.cluster_id, other.members)

    def read_versions_and_ids(self) -> None:
        """Read the broker's ids and the versions that it serves. Raises OSError or NotReady."""
        peer = ClientConnection(self.address)
        try:
            versions = self._answer(peer, ApiVersionsRequest(), 0)
            self.served = {k.api_key: (k.min_version, k.max_version) for k in versions.api_keys}
            metadata = self.ask(peer, MetadataRequest(topics=[]))
            self.cluster_id, self.node_id = metadata.cluster_id, metadata.controller_id
            self.members = frozenset((each.host, each.port) for each in metadata.brokers)
        finally:
            peer.close()

    def set_metrics_subscription(self, *, wanted: bool = True) -> None:
        """Create or delete a client metrics subscription that matches no client.

        kwire lists the API keys of client telemetry only while a subscription exists. An error in
        the response is ignored, because some brokers have no subscriptions.
        """
        configs = [AlterableConfig("match", 0 if wanted else 1, "client_id=nobody")]
        resource = AlterConfigsResource(CLIENT_METRICS, "nobody", configs)
        peer = ClientConnection(self.address)
        try:
            self.ask(peer, IncrementalAlterConfigsRequest([resource]))
        finally:
            peer.close()

    def version_of(self, request: Message) -> int:
        """Return the newest version of `request` that the broker and the codecs have."""
        assert request.API_KEY is not None
        oldest, newest = self.served.get(request.API_KEY, (0, -1))
        version = min(newest, request.MAX_VERSION)
        if version < max(oldest, request.MIN_VERSION):
            raise NotReady(f"{self.bootstrap} does not serve {ApiKey(request.API_KEY).name}")
        return version

    def ask(self, peer: ClientConnection, request: Message, version: int | None = None) -> Any:  # noqa: ANN401 - any response
        """Return the response to a request that must be answered. Raises NotReady if it is not."""
        return self._answer(peer, request, self.version_of(request) if version is None else version)

    def _answer(self, peer: ClientConnection, request: Message, version: int) -> Any:  # noqa: ANN401 - any response
        """Return the response to a request; raise NotReady when the broker sends no readable
        response."""
        assert request.API_KEY is not None
        peer.send(request.API_KEY, version, request.encode(version))
        outcome = peer.receive()
        if isinstance(outcome, Reply):
            return outcome.message
        raise NotReady(f"{self.bootstrap}: {type(outcome).__name__} after {request!r:.200}")

    # Preparation for cases

    def wait_for_coordinators(self, peer: ClientConnection, key: str) -> None:
        """Wait until groups and transactions have coordinators; the first ones create their
        topics."""

        def refused(key_type: int) -> bool:
            """Return whether the coordinator of this type is not available yet."""
            request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
            version = min(self.version_of(request), 3)
            request.coordinator_keys = []
            return self.ask(peer, request, version).error_code in TRANSIENT

        self._until(lambda: refused(GROUP), "no coordinator for groups")
        self._until(lambda: refused(TRANSACTION), "no coordinator for transactions")

    def wait_for_producer_ids(self, peer: ClientConnection, transactional_id: str) -> None:
        """Wait until the broker gives out producer ids and has a coordinator for transactions.

        A broker that has just started may have no producer ids yet, and the first transaction makes
        it create its internal topic.
        """
        transactions = FindCoordinatorRequest(transactional_id, TRANSACTION)
        version = min(self.version_of(transactions), 3)

        def without_ids() -> bool:
            return self.ask(peer, InitProducerIdRequest(None, 60_000)).error_code in TRANSIENT

        def without_coordinator() -> bool:
            return self.ask(peer, transactions, version).error_code in TRANSIENT

        self._until(without_ids, "no producer ids")
        self._until(without_coordinator, "no coordinator for transactions")

    def create_topic(
        self,
        peer: ClientConnection,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> CaseTopic:
        """Create a topic and wait until its partitions have leaders."""
        settings = [CreatableTopicConfig(k, v) for k, v in (configs or {}).items()]
        topic = CreatableTopic(name, partitions, 1, [], settings)
        reply = self.ask(peer, CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        if reply.topics[0].error_code:
            error = ErrorCode(reply.topics[0].error_code).name
            raise NotReady(f"topic {name}: {error} {reply.topics[0].error_message}")
        self._until(
            lambda: self._is_unavailable(peer, name, partitions), f"topic {name} has no leader"
        )
        metadata = self.ask(peer, MetadataRequest(topics=[MetadataRequestTopic(name=name)]))
        return CaseTopic(name, metadata.topics[0].topic_id, partitions)

    def _is_unavailable(self, peer: ClientConnection, name: str, partitions: int) -> bool:
        """Return whether a partition of the topic has no leader yet."""
        wanted = [ListOffsetsPartition(i, -1, -1) for i in range(partitions)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name, wanted)])
        answer = self.ask(peer, request)
        return any(p.error_code in TRANSIENT for p in answer.topics[0].partitions)

    def wait_until_deleted(self, peer: ClientConnection, topic: CaseTopic) -> None:
        """Wait until no partition of a deleted topic is served."""

        def served() -> bool:
            return not self._is_unavailable(peer, topic.name, topic.partitions)

        self._until(served, f"topic {topic.name} is still served after its deletion")

    def shared_topic(self, kind: str, make: Callable[[], CaseTopic]) -> CaseTopic:
        """Return the topic of this kind that all cases of a run read; created by the first case."""
        with self._lock:
            if kind not in self._shared:
                self._shared[kind] = make()
            return self._shared[kind]

    def take_shared_names(self) -> list[str]:
        """Return the names of the topics that the cases of a run shared, and forget them."""
        with self._lock:
            names = [topic.name for topic in self._shared.values()]
            self._shared.clear()
        return names

    def _until(self, not_yet: Callable[[], bool], problem: str) -> None:
        """Wait until `not_yet` is false; raise NotReady after READY_TIMEOUT_S seconds."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not_yet():
            if time.monotonic() > deadline:
                raise NotReady(f"{self.bootstrap}: {problem}")
            time.sleep(POLL_S)
