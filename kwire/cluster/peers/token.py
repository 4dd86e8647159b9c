"""The token by which a broker logs in to the others, where they take OAUTHBEARER.

Where `sasl.oauthbearer.token.endpoint.url` is set for the listener between brokers, it is had
there, as clients have it: from a file each time, or from a server, whose token is kept for
`sasl.login.refresh.window.factor` of its life.  Without it, it is one that nobody has signed.
Apache Kafka asks for the first one before it starts; here a server of tokens may come up later.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from kwire.cluster.peers.error import NoToken
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
    """Where tokens are had, and the one that was had last, if it holds on."""

    def __init__(self, config: BrokerConfig, listener: str, options: Mapping[str, str]) -> None:
        """`options` are those of the login module.  Raises ConfigError."""
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
        """Raises NoToken."""
        now_ms = time.time_ns() // 1_000_000
        if now_ms >= self._kept_until_ms:
            self._token = await self._had(now_ms)
            self._kept_until_ms = self._until_ms(now_ms)
        return OAuthBearerClient(self._token)

    async def _had(self, now_ms: int) -> str:
        ask = partial(token_of, self._properties, self._options, now_ms)
        try:
            return await trio.to_thread.run_sync(ask, abandon_on_cancel=True)
        except (BadOptions, CannotFetch) as problem:
            raise NoToken(str(problem)) from None

    def _until_ms(self, now_ms: int) -> int:
        """A file may have another one any time, and one that is made here costs nothing."""
        url = self._properties.get(URL, "").strip()
        expires_ms = expires_ms_of(self._token)
        if not url or path_of(url) is not None or expires_ms is None:
            return 0
        return now_ms + int(self._kept_part * (expires_ms - now_ms))


def _client_properties(settings: SecuritySettings) -> dict[str, str]:
    """What a client would be told, to have a token as the broker has it."""
    given = {
        URL: settings.sasl_oauthbearer_token_endpoint_url,
        f"{CREDENTIALS}id": settings.sasl_oauthbearer_client_credentials_client_id,
        f"{CREDENTIALS}secret": settings.sasl_oauthbearer_client_credentials_client_secret,
        SCOPE: settings.sasl_oauthbearer_scope,
    }
    return {name: text for name, text in given.items() if text}
