"""RemoveRaftVoter (key 81): v0.

Behaviour
- A cluster of kwire has one voter.  With kraft.version 0, a valid request has UNSUPPORTED_VERSION,
  as in a quorum whose voters are fixed; with 1, it has VOTER_NOT_FOUND, as for the last voter.
- Before that, INCONSISTENT_CLUSTER_ID if the request names another cluster, and INVALID_REQUEST if
  the voter has no id or no directory id.
- A broker on ZooKeeper closes the connection, as for an API key that does not exist.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.features import KRAFT_VERSION
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kwire.codecs.primitives import ZERO_UUID
from kwire.requests.context import Context
from kwire.requests.handlers.quorum.voters import active_controller, check_voter, replica_key
from kwire.requests.route import Right, Route
from kwire.requests.routes import require_quorum

ROUTE = Route(
    ApiKey.REMOVE_RAFT_VOTER,
    0,
    0,
    Right(AclOperation.ALTER, ResourceType.CLUSTER),
    about_quorum=True,
    by_controller=True,
)


def handle(
    broker: Broker, request: RemoveRaftVoterRequest, context: Context
) -> RemoveRaftVoterResponse:
    """Return why the voter cannot be removed.

    Raises CloseConnection on a broker with ZooKeeper.
    """
    require_quorum(broker, context)
    try:
        check_voter("Remove", request, broker.image.cluster_id)
    except Refusal as refusal:
        return RemoveRaftVoterResponse(error_code=refusal.error, error_message=refusal.message)
    if broker.image.features.level(KRAFT_VERSION) > 0:
        voter = replica_key(request.voter_id, request.voter_directory_id)
        only = replica_key(active_controller(broker), ZERO_UUID)
        return RemoveRaftVoterResponse(
            error_code=ErrorCode.VOTER_NOT_FOUND,
            error_message=f"Cannot remove voter {voter} from the set of voters [{only}]",
        )
    return RemoveRaftVoterResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message=(
            "Cluster doesn't support removing voter because the kraft.version feature is 0"
        ),
    )


# -- rights

_DENIED = "Cluster authorization failed."


def refuse(
    request: RemoveRaftVoterRequest, error: ErrorCode, version: int, message: str
) -> RemoveRaftVoterResponse:
    """Return the response that refuses the request with `error`."""
    return RemoveRaftVoterResponse(error_code=error, error_message=_DENIED)
