"""Cases of AddRaftVoter: a quorum whose voters are fixed, and mistakes in the request.

No listener has an empty name: Apache Kafka 4.4.0 ends when it gets one.
"""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.add_raft_voter import AddRaftVoterRequest, Listener
from kwire.codecs.primitives import ZERO_UUID
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.ADD_RAFT_VOTER)

DIRECTORY = bytes(range(16))
AT_CONTROLLER = Listener("CONTROLLER", "localhost", 9093)


def access_request(version: int, topic_id: bytes) -> AddRaftVoterRequest:
    return _of(None)


def _of(
    cluster_id: str | None,
    voter_id: int = 9,
    directory_id: bytes = DIRECTORY,
    *listeners: Listener,
    timeout_ms: int = 10_000,
) -> AddRaftVoterRequest:
    """Return a request for a voter; without listeners it has one address, that of controllers."""
    return AddRaftVoterRequest(
        cluster_id, timeout_ms, voter_id, directory_id, list(listeners or (AT_CONTROLLER,))
    )


case.requests(
    {
        "a voter": lambda stage: _of(None),
        "a voter of this cluster": lambda stage: _of(stage.broker.cluster_id),
        "the voter that there is": lambda stage: _of(None, stage.broker.node_id),
        "no time": lambda stage: _of(None, timeout_ms=0),
        "a voter without an id": lambda stage: _of(None, -1),
        "a voter without a directory": lambda stage: _of(None, 9, ZERO_UUID),
    }
)


@case("another cluster")
def of_another_cluster(stage: Stage) -> None:
    """The cluster is checked before everything else."""
    for cluster_id in ("other", ""):
        for voter_id, directory_id in ((9, DIRECTORY), (-1, DIRECTORY), (9, ZERO_UUID)):
            stage.send(_of(cluster_id, voter_id, directory_id))


@case("listeners")
def listeners(stage: Stage) -> None:
    """Names of listeners have no case, and one of them must be that of controllers."""
    for names in (
        ("controller",),
        ("PLAINTEXT",),
        ("other",),
        ("B", "A"),
        ("B", "b"),
        ("OTHER", "CONTROLLER"),
        ("CONTROLLER", "CONTROLLER"),
    ):
        given = [Listener(name, f"host-{at}", 9000 + at) for at, name in enumerate(names)]
        stage.send(_of(None, 9, DIRECTORY, *given))
    stage.send(AddRaftVoterRequest(None, 10_000, 9, DIRECTORY))
    stage.send(AddRaftVoterRequest(None, 10_000, -1, DIRECTORY))


@case("an address of controllers without host and port")
def nowhere(stage: Stage) -> None:
    stage.send(_of(None, 9, DIRECTORY, Listener("CONTROLLER")))
