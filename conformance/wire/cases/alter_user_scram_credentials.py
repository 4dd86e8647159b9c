"""Cases of AlterUserScramCredentials: creating, changing and removing them, and refusals."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.conformance.wire.case import Cases, MakeRequest
from kwire.conformance.wire.cases.describe_user_scram_credentials import of
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)


def access_request(version: int, topic_id: bytes) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest([ScramCredentialDeletion("nobody-there", 1)])


SHA_256, SHA_512 = 1, 2
SALTED = {SHA_256: bytes(32), SHA_512: bytes(64)}


def upsertion(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = b"salt"
) -> ScramCredentialUpsertion:
    """Return the creation or change of a credential, by default SCRAM-SHA-256 with 4096 rounds."""
    return ScramCredentialUpsertion(
        name, mechanism, iterations, salt, SALTED.get(mechanism, bytes(32))
    )


def _set(
    mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = b"salt", name: str = "none"
) -> MakeRequest:
    """Return a maker of a request that sets one credential; the name `none` means a new user."""
    return lambda stage: AlterUserScramCredentialsRequest(
        [], [upsertion(stage.name() if name == "none" else name, mechanism, iterations, salt)]
    )


def _removal(mechanism: int = SHA_256, name: str = "none") -> MakeRequest:
    return lambda stage: AlterUserScramCredentialsRequest(
        [ScramCredentialDeletion(stage.name() if name == "none" else name, mechanism)]
    )


case.requests(
    {
        "nothing": lambda stage: AlterUserScramCredentialsRequest(),
        "an unknown mechanism": _set(mechanism=0),
        "a mechanism of another time": _set(mechanism=7),
        "too few iterations": _set(iterations=4095),
        "too many iterations": _set(iterations=16_385),
        "nobody's": _set(name=""),
        "removing what is not there": _removal(),
        "removing an unknown mechanism": _removal(mechanism=9),
        "removing nobody's": _removal(name=""),
    }
)


@case("set, changed, removed")
def life(stage: Stage) -> None:
    """SCRAM credentials of a user are set, changed and removed; each step is read back."""
    user = stage.name("user")
    for request in (
        AlterUserScramCredentialsRequest([], [upsertion(user)]),
        AlterUserScramCredentialsRequest([], [upsertion(user, SHA_512, 8192)]),
        AlterUserScramCredentialsRequest([], [upsertion(user, SHA_256, 5000)]),
        AlterUserScramCredentialsRequest([ScramCredentialDeletion(user, SHA_256)]),
        AlterUserScramCredentialsRequest([ScramCredentialDeletion(user, SHA_512)]),
    ):
        stage.send(request)
        stage.await_cluster_changes()
        stage.send(of(user))
