"""Changes of SCRAM credentials (KIP-554), at most one credential of a user in a request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kwire.cluster.metadata.changes import SetConfigs
from kwire.cluster.metadata.credentials import MECHANISMS, user_key
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.security.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, credential_of

_TWICE: Final = "A user credential cannot be altered twice in the same request"


@dataclass(frozen=True, slots=True)
class CredentialDeletion:
    """Deletion of a credential; `mechanism` may be an unknown number."""

    mechanism: int


@dataclass(frozen=True, slots=True)
class CredentialUpsertion:
    """A credential to set."""

    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return (
            f"<CredentialUpsertion of {self.iterations} iterations>"  # salt and password are secret
        )


@dataclass(slots=True)
class CredentialChange:
    """All changes of one user in a request, deletions first; `decide` is a `Decision`.

    Apache Kafka allows one change for each user and request.
    """

    user: str
    alterations: list[CredentialDeletion | CredentialUpsertion] = field(default_factory=list)

    def decide(self, image: ClusterImage) -> SetConfigs | None:
        """Return the change of a user's credential; None if it stays the same.

        Raises Refusal.  A second alteration of the user in the request is an error, but as in Kafka
        an error of the first one is reported before it.
        """
        key = user_key(self.user)
        before = image.configs_of(*key)
        after = dict(before)
        first = self.alterations[0]
        mechanism = self._mechanism(first.mechanism)
        if isinstance(first, CredentialUpsertion):
            after[mechanism] = _credential(mechanism, first)
        elif after.pop(mechanism, None) is None:
            raise Refusal(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        if len(self.alterations) > 1:
            raise Refusal(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
        return SetConfigs(*key, before, after) if after != before else None

    def _mechanism(self, number: int) -> str:
        """Return the name of a SCRAM mechanism, such as SCRAM-SHA-256.

        Raises Refusal if the user name is empty or no mechanism has this number.
        """
        if not self.user:
            raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        mechanism = MECHANISMS.get(number)
        if mechanism is None:
            raise Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        return mechanism


def _credential(mechanism: str, wanted: CredentialUpsertion) -> str:
    """Return the credential as text, in the form that configs store.  Raises Refusal."""
    if wanted.iterations < MIN_ITERATIONS:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if wanted.iterations > MAX_ITERATIONS:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not wanted.salted_password:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salted password must not be empty")
    return credential_of(mechanism, wanted.salted_password, wanted.salt, wanted.iterations).text


def by_user(
    requested: Iterable[tuple[str, CredentialDeletion | CredentialUpsertion]],
) -> list[CredentialChange]:
    """The changes of each user, in the order in which the request first names them."""
    changes: dict[str, CredentialChange] = {}
    for user, alteration in requested:
        changes.setdefault(user, CredentialChange(user)).alterations.append(alteration)
    return list(changes.values())
