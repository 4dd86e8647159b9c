"""The delegation tokens of a cluster, with their HMACs and SCRAM credentials (KIP-48).

A token's HMAC is the HMAC-SHA512 of its id with the key `delegation.token.secret.key`.  A client
with a token authenticates by SCRAM: the user is the id, the password the HMAC in base64.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from typing import TYPE_CHECKING

from kwire.security.sasl.scram import (
    MIN_ITERATIONS,
    Account,
    Credential,
    credential_of,
    salted_password,
)

if TYPE_CHECKING:
    from kwire.cluster.metadata.tokens import DelegationToken, Tokens

SALT_BYTES = 24


class TokenBook:
    """All delegation tokens; `follow` applies changes."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._tokens: dict[str, DelegationToken] = {}
        self._by_hmac: dict[bytes, str] = {}
        self._credentials: dict[tuple[str, str], Credential] = {}
        """By mechanism and token id; made at the first login with the token, as it takes 3 ms."""

    def follow(self, tokens: Tokens) -> None:
        """Apply changed delegation tokens; None removes a token with its credentials."""
        for token_id, token in tokens.items():
            if token is not None:
                self._tokens[token_id] = token
                self._by_hmac[self.hmac_of(token_id)] = token_id
            elif self._tokens.pop(token_id, None) is not None:
                del self._by_hmac[self.hmac_of(token_id)]
                for key in [key for key in self._credentials if key[1] == token_id]:
                    del self._credentials[key]

    def hmac_of(self, token_id: str) -> bytes:
        return hmac.digest(self._secret, token_id.encode(), "sha512")

    def id_of(self, token_hmac: bytes) -> str | None:
        """The id of the token with this HMAC, or None."""
        return self._by_hmac.get(token_hmac)

    def account(self, mechanism: str, token_id: str) -> Account | None:
        """Return the account of a token's owner, or None; an expired token counts until it is
        removed.
        """
        token = self._tokens.get(token_id)
        if token is None:
            return None
        name = token.owner.partition(":")[2]
        key = mechanism, token_id
        credential = self._credentials.get(key)
        if credential is None:
            credential = self._credentials[key] = self._credential(mechanism, token_id)
        return Account(credential, name, token.expiry_ms)

    def _credential(self, mechanism: str, token_id: str) -> Credential:
        """Return a SCRAM credential of a token, whose password is its HMAC."""
        password = base64.b64encode(self.hmac_of(token_id)).decode()
        salt = secrets.token_bytes(SALT_BYTES)
        salted = salted_password(mechanism, password, salt, MIN_ITERATIONS)
        return credential_of(mechanism, salted, salt, MIN_ITERATIONS)
