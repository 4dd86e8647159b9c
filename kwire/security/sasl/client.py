"""The client's side of a login: which exchange a mechanism and its JAAS options make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kwire.security.sasl.exchange import ClientExchange, SaslError
from kwire.security.sasl.plain import PlainClient
from kwire.security.sasl.scram import HASHES, TOKEN_EXTENSION, ScramClient

SERVED: Final = ("PLAIN", *HASHES)


def client_exchange(
    mechanism: str, options: Mapping[str, str], new_nonce: Callable[[], str]
) -> ClientExchange:
    """`options` are those of the login module: `username`, `password`, of a token `tokenauth`.

    Raises SaslError where they, or the mechanism, do not do.
    """
    if mechanism not in SERVED:
        raise SaslError(f"mechanism {mechanism} is not known: it is one of {', '.join(SERVED)}")
    missing = [name for name in ("username", "password") if not options.get(name)]
    if missing:
        raise SaslError(f"the login module of {mechanism} has no {' and no '.join(missing)}")
    user, password = options["username"], options["password"]
    if mechanism == "PLAIN":
        return PlainClient(user, password)
    by_token = options.get(TOKEN_EXTENSION, "").lower() == "true"
    return ScramClient(mechanism, user, password, new_nonce(), by_token=by_token)
