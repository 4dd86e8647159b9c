"""Cases of RemoveRaftVoter: a quorum whose voters are fixed, and mistakes in the request."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.remove_raft_voter import RemoveRaftVoterRequest
from kwire.codecs.primitives import ZERO_UUID
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.REMOVE_RAFT_VOTER)

DIRECTORY = bytes(range(16))


def access_request(version: int, topic_id: bytes) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(None, 9, DIRECTORY)


case.requests(
    {
        "a voter": lambda stage: RemoveRaftVoterRequest(None, 9, DIRECTORY),
        "a voter of this cluster": lambda stage: RemoveRaftVoterRequest(
            stage.broker.cluster_id, 9, DIRECTORY
        ),
        "the voter that there is": lambda stage: RemoveRaftVoterRequest(
            None, stage.broker.node_id, DIRECTORY
        ),
        "a voter without an id": lambda stage: RemoveRaftVoterRequest(None, -1, DIRECTORY),
        "a voter without a directory": lambda stage: RemoveRaftVoterRequest(None, 9, ZERO_UUID),
    }
)


@case("another cluster")
def of_another_cluster(stage: Stage) -> None:
    """The cluster is checked before everything else."""
    for cluster_id in ("other", ""):
        for voter_id, directory_id in ((9, DIRECTORY), (-1, DIRECTORY), (9, ZERO_UUID)):
            stage.send(RemoveRaftVoterRequest(cluster_id, voter_id, directory_id))
