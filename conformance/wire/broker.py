"""A broker as the runner sees it: where it is, what it serves, who it says it is."""

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
from kwire.conformance.wire.peer import Address, Peer, Reply

READY_TIMEOUT_S = 60.0
"""A coordinator loads its partition, a new topic finds its leader: at once, but the first time."""
POLL_S = 0.01
GROUP, TRANSACTION = 0, 1
"""Kinds of keys that have a coordinator."""
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


TRANSACTION = 1
"""The type of a coordinator's key, where 0 is a group."""
CLIENT_METRICS = 16


class NotReady(RuntimeError):
    """The broker does not do what every case needs first: the sentence says what."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that a case may use."""

    name: str
    id: bytes
    partitions: int


def address_of(bootstrap: str) -> Address:
    """`HOST:PORT` as an address; raises ValueError."""
    host, colon, port = bootstrap.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"{bootstrap!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


Served = dict[int, tuple[int, int]]


def common_versions(left: Served, right: Served) -> Served:
    """The versions that both serve, by API key."""
    found = {}
    for key in left.keys() & right.keys():
        low, high = max(left[key][0], right[key][0]), min(left[key][1], right[key][1])
        if low <= high:
            found[key] = (low, high)
    return found


@dataclass
class Broker:
    """`served` are the version ranges it advertises by API key."""

    address: Address
    served: dict[int, tuple[int, int]] = field(default_factory=dict)
    cluster_id: str | None = None
    node_id: int = -1
    _shared: dict[str, Topic] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def bootstrap(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def meet(self) -> None:
        """Learn who it is and what it serves. Raises OSError or NotReady."""
        peer = Peer(self.address)
        try:
            versions = self._answer(peer, ApiVersionsRequest(), 0)
            self.served = {k.api_key: (k.min_version, k.max_version) for k in versions.api_keys}
            metadata = self.ask(peer, MetadataRequest(topics=[]))
            self.cluster_id, self.node_id = metadata.cluster_id, metadata.controller_id
        finally:
            peer.close()

    def ask_for_metrics(self, *, wanted: bool = True) -> None:
        """Have a client metrics subscription that means nobody: kwire lists the requests of client
        telemetry while there is one. Where there can be none, nothing is said."""
        configs = [AlterableConfig("match", 0 if wanted else 1, "client_id=nobody")]
        resource = AlterConfigsResource(CLIENT_METRICS, "nobody", configs)
        peer = Peer(self.address)
        try:
            self.ask(peer, IncrementalAlterConfigsRequest([resource]))
        finally:
            peer.close()

    def version_of(self, request: Message) -> int:
        """The newest version of `request` that the broker and the codecs have."""
        assert request.API_KEY is not None
        low, high = self.served.get(request.API_KEY, (0, -1))
        version = min(high, request.MAX_VERSION)
        if version < max(low, request.MIN_VERSION):
            raise NotReady(f"{self.bootstrap} does not serve {ApiKey(request.API_KEY).name}")
        return version

    def ask(self, peer: Peer, request: Message, version: int | None = None) -> Any:  # noqa: ANN401 - any response
        """Send a request that has to be answered. Raises NotReady."""
        return self._answer(peer, request, self.version_of(request) if version is None else version)

    def _answer(self, peer: Peer, request: Message, version: int) -> Any:  # noqa: ANN401 - any response
        assert request.API_KEY is not None
        peer.send(request.API_KEY, version, request.encode(version))
        outcome = peer.receive()
        if isinstance(outcome, Reply):
            return outcome.message
        raise NotReady(f"{self.bootstrap}: {type(outcome).__name__} after {request!r:.200}")

    # -- what cases start from

    def coordinator_ready(self, peer: Peer, key: str) -> None:
        """Wait until groups and transactions are served: the first make their topics."""

        def refused(key_type: int) -> bool:
            request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
            version = min(self.version_of(request), 3)
            request.coordinator_keys = []
            return self.ask(peer, request, version).error_code in TRANSIENT

        self._until(lambda: refused(GROUP), "no coordinator for groups")
        self._until(lambda: refused(TRANSACTION), "no coordinator for transactions")

    def producers_ready(self, peer: Peer, transactional_id: str) -> None:
        """Wait until producers are served: a broker that has just started may have no ids yet, and
        the first transaction makes it create their topic."""
        transactions = FindCoordinatorRequest(transactional_id, TRANSACTION)
        version = min(self.version_of(transactions), 3)

        def without_ids() -> bool:
            return self.ask(peer, InitProducerIdRequest(None, 60_000)).error_code in TRANSIENT

        def without_coordinator() -> bool:
            return self.ask(peer, transactions, version).error_code in TRANSIENT

        self._until(without_ids, "no producer ids")
        self._until(without_coordinator, "no coordinator for transactions")

    def create_topic(
        self, peer: Peer, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> Topic:
        """A new topic, once its partitions answer."""
        settings = [CreatableTopicConfig(k, v) for k, v in (configs or {}).items()]
        topic = CreatableTopic(name, partitions, 1, [], settings)
        reply = self.ask(peer, CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        if reply.topics[0].error_code:
            error = ErrorCode(reply.topics[0].error_code).name
            raise NotReady(f"topic {name}: {error} {reply.topics[0].error_message}")
        self._until(lambda: self._is_missing(peer, name, partitions), f"topic {name} has no leader")
        metadata = self.ask(peer, MetadataRequest(topics=[MetadataRequestTopic(name=name)]))
        return Topic(name, metadata.topics[0].topic_id, partitions)

    def _is_missing(self, peer: Peer, name: str, partitions: int) -> bool:
        wanted = [ListOffsetsPartition(i, -1, -1) for i in range(partitions)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name, wanted)])
        answer = self.ask(peer, request)
        return any(p.error_code in TRANSIENT for p in answer.topics[0].partitions)

    def wait_until_gone(self, peer: Peer, topic: Topic) -> None:
        """Return once no partition of a deleted topic answers."""

        def served() -> bool:
            return not self._is_missing(peer, topic.name, topic.partitions)

        self._until(served, f"topic {topic.name} is still there")

    def shared(self, kind: str, make: Callable[[], Topic]) -> Topic:
        """The one topic of its kind that all cases of a run may read."""
        with self._lock:
            if kind not in self._shared:
                self._shared[kind] = make()
            return self._shared[kind]

    def shared_names(self) -> list[str]:
        return [topic.name for topic in self._shared.values()]

    def _until(self, refused: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while refused():
            if time.monotonic() > deadline:
                raise NotReady(f"{self.bootstrap}: {what}")
            time.sleep(POLL_S)
