"""What stands before the first request on each listener: nothing, or a login by SASL."""

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
    """By listener, as the settings have it when a client comes."""

    def __init__(self, broker: Broker) -> None:
        """Raises ConfigError where a listener could let nobody in."""
        self._broker = broker
        self._protocols = {
            each.listener: each.security_protocol for each in broker.config.listeners
        }
        self._config: BrokerConfig = broker.config
        self._log_in: dict[str, LogIn] = {}
        self._key_sources: KeySources = {}
        for listener in self._protocols:
            if self._is_sasl(listener):
                self._log_in[listener] = self._login(listener)

    async def begin(self, nursery: trio.Nursery) -> None:
        """Fetch the keys that sign tokens, and have them kept up.  Raises ConfigError."""
        if self._key_sources:
            from kwire.security.oauth.listener import begin

            await begin(self._key_sources, nursery)

    def of(self, listener: str) -> LogIn | None:
        """What a new client of `listener` has to pass."""
        if not self._log_in:
            return None
        self._follow()
        return self._log_in.get(listener)

    def _is_sasl(self, listener: str) -> bool:
        return self._protocols[listener] in _SASL_PROTOCOLS

    def _follow(self) -> None:
        config = self._broker.config
        if config is self._config:
            return
        self._config = config
        for listener in self._log_in:
            try:
                self._log_in[listener] = self._login(listener)
            except ConfigError as problem:
                log.error("listener %s goes on as it was: %s", listener, problem)

    def _login(self, listener: str) -> LogIn:
        from kwire.security.accounts import Accounts
        from kwire.security.listener_sasl import sasl_of
        from kwire.server.network.authentication import log_in

        accounts = Accounts(lambda: self._broker.image, self._broker.tokens)
        config = self._broker.config
        return partial(log_in, sasl=sasl_of(config, listener, accounts.find, self._key_sources))
