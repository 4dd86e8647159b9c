"""Creates the client's side of a SASL exchange from a mechanism and its JAAS options."""

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
    """Return the exchange; `options` of the login module are `username`, `password` and
    `tokenauth`.

    Raises SaslError if the mechanism is unknown or an option is missing.
    """
    if mechanism not in SERVED:
        raise SaslError(f"mechanism {mechanism} is unknown: it must be one of {', '.join(SERVED)}")
    missing = [name for name in ("username", "password") if not options.get(name)]
    if missing:
        raise SaslError(f"the login module of {mechanism} has no {' and no '.join(missing)}")
    user, password = options["username"], options["password"]
    if mechanism == "PLAIN":
        return PlainClient(user, password)
    by_token = options.get(TOKEN_EXTENSION, "").lower() == "true"
    return ScramClient(mechanism, user, password, new_nonce(), by_token=by_token)
