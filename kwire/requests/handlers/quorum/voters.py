"""The voters that requests name, and the one that there is."""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_raft_voter import AddRaftVoterRequest
from kwire.codecs.messages.remove_raft_voter import RemoveRaftVoterRequest
from kwire.codecs.primitives import ZERO_UUID
from kwire.codecs.uuids import uuid_text


def check_voter(
    action: str, request: AddRaftVoterRequest | RemoveRaftVoterRequest, cluster_id: str
) -> None:
    """Raise Refusal if the request is for another cluster than `cluster_id`, or names no voter.

    `action` begins the message of an invalid voter, such as "Add".
    """
    if request.cluster_id not in (None, cluster_id):
        raise Refusal(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{cluster_id}"',
        )
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"{action} voter request didn't include a valid voter"
        )


def active_controller(broker: Broker) -> int:
    """The id of the controller, as far as this broker knows."""
    is_controller = broker.membership.is_controller
    return broker.node_id if is_controller else broker.image.controller_id


def replica_key(voter_id: int, directory_id: bytes) -> str:
    """A voter as Apache Kafka's messages name it."""
    return f"ReplicaKey(id={voter_id}, directoryId={uuid_text(directory_id)})"
