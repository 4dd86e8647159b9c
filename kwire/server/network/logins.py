"""The SASL authentication that new clients of a listener have to pass, for all listeners."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from kwire.settings import ConfigError

if TYPE_CHECKING:
    import trio

    from kwire.broker.broker import Broker
    from kwire.security.oauth.listener import KeySources
    from kwire.server.network.connection import LogIn
    from kwire.settings import BrokerConfig

log = logging.getLogger("kwire.network.logins")

_SASL_PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")


class Logins:
    """The login function of each SASL listener, with the settings of the moment."""

    def __init__(self, broker: Broker) -> None:
        """Raise ConfigError if no client could log in on a listener."""
        self._broker = broker
        self._protocols = {
            endpoint.listener: endpoint.security_protocol for endpoint in broker.config.listeners
        }
        self._config: BrokerConfig = broker.config
        self._log_in: dict[str, LogIn] = {}
        self._key_sources: KeySources = {}
        for listener in self._protocols:
            if self._is_sasl(listener):
                self._log_in[listener] = self._login(listener)

    async def begin(self, nursery: trio.Nursery) -> None:
        """Fetch the keys that sign OAuth tokens, and start their refresh.  Raises ConfigError."""
        if self._key_sources:
            from kwire.security.oauth.listener import begin

            await begin(self._key_sources, nursery)

    def of(self, listener: str) -> LogIn | None:
        """The login that a new client of `listener` has to pass, or None."""
        if not self._log_in:
            return None
        self._follow()
        return self._log_in.get(listener)

    def _is_sasl(self, listener: str) -> bool:
        return self._protocols[listener] in _SASL_PROTOCOLS

    def _follow(self) -> None:
        """Read the SASL settings again if the broker's configuration has changed.

        A listener whose new settings are invalid keeps the old ones, with an error in the log.
        """
        config = self._broker.config
        if config is self._config:
            return
        self._config = config
        for listener in self._log_in:
            try:
                self._log_in[listener] = self._login(listener)
            except ConfigError as error:
                log.error("Listener %s keeps its SASL settings: %s", listener, error)

    def _login(self, listener: str) -> LogIn:
        """Return the function that authenticates new clients of the listener.

        Raises ConfigError. The imports are here, because most brokers do not use SASL.
        """
        from kwire.security.accounts import Accounts
        from kwire.security.listener_sasl import sasl_of
        from kwire.server.network.authentication import log_in

        accounts = Accounts(lambda: self._broker.image, self._broker.tokens)
        config = self._broker.config
        return partial(log_in, sasl=sasl_of(config, listener, accounts.find, self._key_sources))
