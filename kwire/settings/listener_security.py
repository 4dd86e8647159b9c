"""The security settings of one listener, and of one SASL mechanism on it (KIP-103, KIP-226).

`listener.name.<listener>.<mechanism>.x` wins over `listener.name.<listener>.x`, and that over `x`.
For each name, a dynamic config wins over a setting in the broker's file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kwire.settings.broker import BrokerConfig
from kwire.settings.definitions.security import SecuritySettings
from kwire.settings.error import ConfigError


def security_of(config: BrokerConfig, listener: str, mechanism: str = "") -> SecuritySettings:
    """Return the security settings of `listener`; those for `mechanism` on it win.

    Raises ConfigError for an invalid value.
    """
    return SecuritySettings(
        given_for(config, listener, SecuritySettings.DEFINITIONS.__contains__, mechanism)
    )


def given_for(
    config: BrokerConfig, listener: str, wanted: Callable[[str], bool], mechanism: str = ""
) -> dict[str, str | None]:
    """Return the given settings of `listener` whose names, without the prefix, satisfy `wanted`."""
    prefixes = ["", f"listener.name.{listener.lower()}."]
    if mechanism:
        prefixes.append(f"{prefixes[-1]}{mechanism.lower()}.")
    given: dict[str, str | None] = {}
    for prefix in prefixes:
        for layer in (config.explicit, config.dynamic):
            for full_name, text in layer.items():
                name = full_name.removeprefix(prefix)
                if full_name.startswith(prefix) and wanted(name):
                    given[name] = text
    return given


def own_setting(config: BrokerConfig, listener: str, mechanism: str, name: str) -> str | None:
    """The value of `listener.name.<listener>.<mechanism>.<name>` itself, or None."""
    full_name = own_name(listener, mechanism, name)
    return config.dynamic.get(full_name, config.explicit.get(full_name))


def own_name(listener: str, mechanism: str, name: str) -> str:
    """The full name of a setting for one mechanism on one listener."""
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{name}"


UNSECURED_HANDLER: Final = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
    "OAuthBearerUnsecuredValidatorCallbackHandler"
)
SIGNED_HANDLER: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
)
OWN_HANDLERS: Final = (UNSECURED_HANDLER, SIGNED_HANDLER)
"""Apache Kafka's classes that check tokens.  kwire implements what both do."""


_TOKENS: Final = "org.apache.kafka.common.security.oauthbearer"
LOGIN_HANDLERS: Final = (
    f"{_TOKENS}.OAuthBearerLoginCallbackHandler",
    f"{_TOKENS}.secured.OAuthBearerLoginCallbackHandler",
    f"{_TOKENS}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
)
"""Apache Kafka's classes that get tokens.  The second is the name of the first until 3.9."""


def check_no_java(settings: SecuritySettings, listener: str, mechanism: str) -> None:
    """Raise ConfigError if the settings name a Java class that checks passwords or tokens."""
    handler = settings.sasl_server_callback_handler_class
    if handler is None or (mechanism == "OAUTHBEARER" and handler in OWN_HANDLERS):
        return
    instead = (
        f"set {' or '.join(OWN_HANDLERS)}"
        if mechanism == "OAUTHBEARER"
        else "name the users in sasl.jaas.config"
    )
    raise ConfigError(
        f"sasl.server.callback.handler.class of {mechanism} on listener {listener} is a Java "
        f"class, which cannot be loaded here: {instead}"
    )
