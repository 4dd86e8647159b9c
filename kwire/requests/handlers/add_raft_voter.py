"""AddRaftVoter (key 80): v0-1.

Behaviour
- A cluster of kwire has one voter and no way to add others: a valid request has
  UNSUPPORTED_VERSION.  With kraft.version 0 that is the answer of a quorum whose voters are fixed.
- Before that, INCONSISTENT_CLUSTER_ID if the request names another cluster, and INVALID_REQUEST if
  the voter has no id, no directory id, or no address on the listener of controllers.  This listener
  is the first of `controller.listener.names`, or CONTROLLER if there is none.
- A broker on ZooKeeper closes the connection, as for an API key that does not exist.

Version notes: from v1 the request says when to answer, which changes no refusal.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.features import KRAFT_VERSION
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kwire.requests.context import Context
from kwire.requests.handlers.quorum.voters import check_voter
from kwire.requests.route import Right, Route
from kwire.requests.routes import require_quorum

FIXED = "Cluster doesn't support adding voter because the kraft.version feature is 0"
ONE_VOTER = "The quorum of this cluster has one voter, and cannot have others."
CONTROLLER_LISTENER = "CONTROLLER"
"""The name that Apache Kafka's own configuration files give the listener of controllers."""

ROUTE = Route(
    ApiKey.ADD_RAFT_VOTER,
    0,
    1,
    Right(AclOperation.ALTER, ResourceType.CLUSTER),
    about_quorum=True,
    by_controller=True,
)


def handle(broker: Broker, request: AddRaftVoterRequest, context: Context) -> AddRaftVoterResponse:
    """Return why the voter cannot be added.  Raises CloseConnection on a broker with ZooKeeper."""
    require_quorum(broker, context)
    try:
        check_voter("Add", request, broker.image.cluster_id)
        _check_listeners(request, broker.config.controller_listener_names)
    except Refusal as refusal:
        return AddRaftVoterResponse(error_code=refusal.error, error_message=refusal.message)
    is_fixed = broker.image.features.level(KRAFT_VERSION) == 0
    return AddRaftVoterResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message=FIXED if is_fixed else ONE_VOTER,
    )


def _check_listeners(request: AddRaftVoterRequest, of_controllers: tuple[str, ...]) -> None:
    """Raise Refusal if the voter has no address on the listener of controllers."""
    needed = (*of_controllers, CONTROLLER_LISTENER)[0].upper()
    endpoints = {each.name.upper(): each for each in request.listeners}
    if needed in endpoints:
        return
    listed = ", ".join(
        f"ListenerName({name})={each.host}/<unresolved>:{each.port}"
        for name, each in sorted(endpoints.items())
    )
    raise Refusal(
        ErrorCode.INVALID_REQUEST,
        f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{listed}}})) for "
        f"the default listener ListenerName({needed})",
    )


# -- rights

_DENIED = "Cluster authorization failed."


def refuse(
    request: AddRaftVoterRequest, error: ErrorCode, version: int, message: str
) -> AddRaftVoterResponse:
    """Return the response that refuses the request with `error`."""
    return AddRaftVoterResponse(error_code=error, error_message=_DENIED)
