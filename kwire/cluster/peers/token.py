"""BrokerToken: the token with which this broker logs in to others by OAUTHBEARER.

`sasl.oauthbearer.token.endpoint.url` of the inter-broker listener says where the token comes from,
as for clients: a file, read at each login, or an HTTP server, whose token is kept for
`sasl.login.refresh.window.factor` of its lifetime.  Without this setting the token is unsigned.
Apache Kafka fetches the first token before it starts; kwire starts even if the server does not
answer yet.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from kwire.cluster.peers.error import NoBrokerToken
from kwire.security.listener_sasl import OAUTHBEARER
from kwire.security.oauth.fetching import path_of
from kwire.security.oauth.retrieving import (
    CREDENTIALS,
    SCOPE,
    URL,
    BadOptions,
    CannotFetch,
    check_options,
    token_of,
)
from kwire.security.sasl.oauthbearer import OAuthBearerClient, expires_ms_of
from kwire.settings import BrokerConfig, ConfigError
from kwire.settings.listener_security import LOGIN_HANDLERS, own_name, security_of

if TYPE_CHECKING:
    from kwire.security.sasl.exchange import ClientExchange
    from kwire.settings.definitions.security import SecuritySettings

HANDLER: Final = "sasl.login.callback.handler.class"


class BrokerToken:
    """Gets tokens, and keeps the last one while it is valid."""

    def __init__(self, config: BrokerConfig, listener: str, options: Mapping[str, str]) -> None:
        """`options` are those of the JAAS login module.  Raises ConfigError."""
        settings = security_of(config, listener, OAUTHBEARER)
        handler = settings.sasl_login_callback_handler_class
        if handler is not None and handler not in LOGIN_HANDLERS:
            raise ConfigError(
                f"{own_name(listener, OAUTHBEARER, HANDLER)} is a Java class, which cannot be"
                f" loaded here: it is {' or '.join(LOGIN_HANDLERS)}"
            )
        self._options = options
        self._kept_part = settings.sasl_login_refresh_window_factor
        self._properties = _client_properties(settings)
        try:
            check_options(self._properties, options)
        except BadOptions as problem:
            raise ConfigError(f"brokers cannot log in to each other: {problem}") from None
        self._token, self._kept_until_ms = "", 0

    async def exchange(self) -> ClientExchange:
        """Return a new SASL exchange with a valid token.  Raises NoBrokerToken."""
        now_ms = time.time_ns() // 1_000_000
        if now_ms >= self._kept_until_ms:
            self._token = await self._fetch(now_ms)
            self._kept_until_ms = self._keep_until_ms(now_ms)
        return OAuthBearerClient(self._token)

    async def _fetch(self, now_ms: int) -> str:
        """Gets a new token, in a thread.  Raises NoBrokerToken."""
        fetch = partial(token_of, self._properties, self._options, now_ms)
        try:
            return await trio.to_thread.run_sync(fetch, abandon_on_cancel=True)
        except (BadOptions, CannotFetch) as problem:
            raise NoBrokerToken(str(problem)) from None

    def _keep_until_ms(self, now_ms: int) -> int:
        """Return until when the token is kept, in ms since the epoch; 0: it is not kept.

        Only a token of a server is kept: a file may get a new token at any time, and an unsigned
        token costs nothing to make.
        """
        url = self._properties.get(URL, "").strip()
        expires_ms = expires_ms_of(self._token)
        if not url or path_of(url) is not None or expires_ms is None:
            return 0
        return now_ms + int(self._kept_part * (expires_ms - now_ms))


def _client_properties(settings: SecuritySettings) -> dict[str, str]:
    """Return the properties with which a client gets a token in the same way."""
    given = {
        URL: settings.sasl_oauthbearer_token_endpoint_url,
        f"{CREDENTIALS}id": settings.sasl_oauthbearer_client_credentials_client_id,
        f"{CREDENTIALS}secret": settings.sasl_oauthbearer_client_credentials_client_secret,
        SCOPE: settings.sasl_oauthbearer_scope,
    }
    return {name: text for name, text in given.items() if text}
