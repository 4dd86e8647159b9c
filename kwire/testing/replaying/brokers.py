"""Decides which broker receives each request of a trace.

All requests of a trace of one broker go to the first bootstrap server, whatever its id.  Of a trace
of several brokers, each request goes to the broker of the same id in the bootstrap servers'
metadata.  The ids must be the same because requests and responses contain them (assignments,
reassignments, leaders, coordinators).  The controller may be another broker than in the trace:
requests that the recorded controller answered go to the current controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kwire.client.cluster import Cluster, ClusterNode, parse_bootstrap
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode, error_codes_in
from kwire.codecs.messages.metadata import MetadataResponse
from kwire.testing.replaying.recording import Recorded

if TYPE_CHECKING:
    from kwire.client.security import ClientSecurity

CLIENT_ID: Final = "kwire-replay"
"""Client id of a replay's own requests; the trace's requests have the recorded client id."""
OF_CONTROLLER: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.UPDATE_FEATURES,
    }
)
"""Requests that only the controller carries out."""
UNKNOWN_ID: Final = -1


class NoCounterpart(ValueError):
    """The cluster has no broker with the id of one in the trace; the message says which."""


class Counterparts:
    """The brokers that receive the requests of a trace."""

    def __init__(
        self, nodes: Mapping[int, ClusterNode], controller_id: int, first: ClusterNode
    ) -> None:
        """`controller_id` is the controller of the cluster that receives the replay, and `first`
        its first bootstrap server."""
        self.nodes = nodes
        """The brokers by id; empty for a trace of one broker."""
        self._controller_id = controller_id
        self._first = first

    @property
    def are_several(self) -> bool:
        """Whether the trace is of several brokers."""
        return bool(self.nodes)

    @property
    def all(self) -> list[ClusterNode]:
        """All brokers."""
        return list(self.nodes.values()) or [self._first]

    def of(self, recorded: Recorded) -> ClusterNode:
        """The broker that receives this request."""
        if recorded.broker is None or not self.nodes:
            return self._first
        same = self.nodes[recorded.broker]
        if recorded.request.API_KEY not in OF_CONTROLLER:
            return same
        was_refused = recorded.response is not None and (
            ErrorCode.NOT_CONTROLLER in error_codes_in(recorded.response)
        )
        if was_refused == (same.node_id != self._controller_id):
            return same
        return next(
            (
                node
                for node in self.nodes.values()
                if (node.node_id != self._controller_id) == was_refused
            ),
            same,
        )


def counterparts(
    recording: Iterable[Recorded],
    bootstrap: str,
    timeout_s: float,
    security: ClientSecurity | None,
) -> Counterparts:
    """Find the brokers that receive a trace's requests.

    Raises NoCounterpart, ClientError if no broker answers.
    """
    first = ClusterNode(UNKNOWN_ID, *parse_bootstrap(bootstrap)[0])
    recorded_ids = brokers_of(recording)
    if len(recorded_ids) <= 1:
        return Counterparts({}, UNKNOWN_ID, first)
    with Cluster(bootstrap, client_id=CLIENT_ID, timeout_s=timeout_s, security=security) as cluster:
        cluster.refresh([])
        if missing := recorded_ids - cluster.nodes.keys():
            raise NoCounterpart(
                f"The trace is of brokers {_listed(recorded_ids)}, but the cluster at {bootstrap}"
                f" has brokers {_listed(cluster.nodes)}. Missing: {_listed(missing)}."
            )
        return Counterparts(cluster.nodes, cluster.controller_id, first)


def brokers_of(recording: Iterable[Recorded]) -> set[int]:
    """Ids of all brokers in a trace: those that answered, and those in Metadata responses.

    Empty if the trace is from a version of kwire that did not record broker ids.
    """
    ids: set[int] = set()
    for recorded in recording:
        if recorded.broker is None:
            return set()
        ids.add(recorded.broker)
        if isinstance(recorded.response, MetadataResponse):
            ids.update(broker.node_id for broker in recorded.response.brokers)
    return ids


def _listed(ids: Iterable[int]) -> str:
    """The ids in words, as `1, 2 and 3`."""
    *others, last = map(str, sorted(ids))
    return f"{', '.join(others)} and {last}" if others else last
