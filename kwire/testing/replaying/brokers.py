"""Which broker of now is asked what one of the trace's had been asked.

Of a trace of one broker all goes to the first of the bootstrap servers, whatever its id.  Of one of
several each request goes to the broker of the same id, which the bootstrap servers tell of: ids
stand in requests and answers alike (assignments, reassignments, leaders, coordinators), so brokers
of other ids are another cluster.  The controller is whoever came first: what had been asked of it
is asked of the one that it is now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kwire.client.cluster import Cluster, Node, parse_bootstrap
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode, error_codes_in
from kwire.codecs.messages.metadata import MetadataResponse
from kwire.testing.replaying.recording import Recorded

if TYPE_CHECKING:
    from kwire.client.security import ClientSecurity

CLIENT_ID: Final = "kwire-replay"
"""Of what a replay asks for itself; all else has the recorded client's."""
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
"""What any other broker refuses."""
UNKNOWN_ID: Final = -1


class NoCounterpart(ValueError):
    """There is nobody for a broker of the trace; the message is a sentence."""


class Counterparts:
    """The brokers of now, by the ids of the trace's."""

    def __init__(self, nodes: Mapping[int, Node], controller_id: int, first: Node) -> None:
        self.nodes = nodes
        """Of a trace of several brokers; else none."""
        self._controller_id = controller_id
        self._first = first

    @property
    def are_several(self) -> bool:
        """Whether they are a cluster."""
        return bool(self.nodes)

    @property
    def all(self) -> list[Node]:
        """Each of them."""
        return list(self.nodes.values()) or [self._first]

    def of(self, recorded: Recorded) -> Node:
        """Who is asked this now."""
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
    """Raises NoCounterpart, ClientError where no broker answers."""
    first = Node(UNKNOWN_ID, *parse_bootstrap(bootstrap)[0])
    wanted = brokers_of(recording)
    if len(wanted) <= 1:
        return Counterparts({}, UNKNOWN_ID, first)
    with Cluster(bootstrap, client_id=CLIENT_ID, timeout_s=timeout_s, security=security) as cluster:
        cluster.refresh([])
        if missing := wanted - cluster.nodes.keys():
            raise NoCounterpart(
                f"the trace is of brokers {_listed(wanted)}, and {bootstrap} tells of "
                f"{_listed(cluster.nodes)}: there is nobody for {_listed(missing)}"
            )
        return Counterparts(cluster.nodes, cluster.controller_id, first)


def brokers_of(recording: Iterable[Recorded]) -> set[int]:
    """The ids of the trace's brokers: of those asked, and of those that they told of.

    None, where the trace is too old to say so.
    """
    found: set[int] = set()
    for each in recording:
        if each.broker is None:
            return set()
        found.add(each.broker)
        if isinstance(each.response, MetadataResponse):
            found.update(broker.node_id for broker in each.response.brokers)
    return found


def _listed(ids: Iterable[int]) -> str:
    *others, last = map(str, sorted(ids))
    return f"{', '.join(others)} and {last}" if others else last
