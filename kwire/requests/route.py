"""How the handler of an API key declares its route: `ROUTE`, beside `handle`.

`make generated` writes the table of all routes (kwire.requests.route_table) from these
declarations, so that the broker knows its API keys without importing the handlers.
"""

from __future__ import annotations

from typing import NamedTuple

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey


class Right(NamedTuple):
    """A right on a resource, which a request needs if there is an authorizer.

    If the handler's module has a function `guard`, it checks each resource in the request, and may
    require other rights as well.  If not, the request needs `operation` on its one resource of that
    type and otherwise fails as a whole.
    """

    operation: AclOperation
    resource_type: ResourceType


NOTHING = None
"""The request needs no right."""


class Route(NamedTuple):
    """One API key: its inclusive range of versions and the right it needs, `NOTHING` if none."""

    api_key: ApiKey
    min_version: int
    max_version: int
    needs: Right | None
    in_cluster_only: bool = False
    """Brokers of a cluster and their controller send it to each other.  A broker that is not part
    of a cluster does not serve it."""
    advertised_from: int | None = None
    """The lowest version in ApiVersions, where it is not the lowest that is served."""
    for_client_metrics: bool = False
    """Advertised only if client metrics are collected, which is impossible on ZooKeeper."""
    about_quorum: bool = False
    """About the controllers of a cluster with KRaft.  Brokers on ZooKeeper neither advertise nor
    serve it."""
    by_controller: bool = False
    """In a cluster whose controllers are Apache Kafka's (KRaft), the broker forwards the request to
    them, as it came.  They check its rights.  If the handler's module has a function `forward`, the
    broker does a part of the work itself: see kwire.requests.forwarding."""

    @property
    def handler_module(self) -> str:
        return f"kwire.requests.handlers.{self.api_key.name.lower()}"
