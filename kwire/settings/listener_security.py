"""What is set about security for one listener, and for one mechanism on it (KIP-103, KIP-226).

`listener.name.<listener>.<mechanism>.x` comes before `listener.name.<listener>.x`, and that before
`x`; what was set while the broker ran before what is in its file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kwire.settings.broker import BrokerConfig
from kwire.settings.definitions.security import SecuritySettings
from kwire.settings.error import ConfigError


def security_of(config: BrokerConfig, listener: str, mechanism: str = "") -> SecuritySettings:
    """The settings of `listener`, with those of `mechanism` on it above them.

    Raises ConfigError where one of them has no value that makes sense.
    """
    return SecuritySettings(
        given_for(config, listener, SecuritySettings.DEFINITIONS.__contains__, mechanism)
    )


def given_for(
    config: BrokerConfig, listener: str, wanted: Callable[[str], bool], mechanism: str = ""
) -> dict[str, str | None]:
    """The settings of `listener` whose own names are `wanted`, as they were given."""
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
    """What is set by exactly `listener.name.<listener>.<mechanism>.<name>`, if it is."""
    full_name = own_name(listener, mechanism, name)
    return config.dynamic.get(full_name, config.explicit.get(full_name))


def own_name(listener: str, mechanism: str, name: str) -> str:
    """The name of a setting that is meant for one mechanism on one listener."""
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{name}"


UNSECURED_HANDLER: Final = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
    "OAuthBearerUnsecuredValidatorCallbackHandler"
)
SIGNED_HANDLER: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
)
OWN_HANDLERS: Final = (UNSECURED_HANDLER, SIGNED_HANDLER)
"""Apache Kafka's own classes that read tokens: what they do is done here."""


_TOKENS: Final = "org.apache.kafka.common.security.oauthbearer"
LOGIN_HANDLERS: Final = (
    f"{_TOKENS}.OAuthBearerLoginCallbackHandler",
    f"{_TOKENS}.secured.OAuthBearerLoginCallbackHandler",
    f"{_TOKENS}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
)
"""Apache Kafka's own classes that get tokens, the second by its name until 3.9."""


def check_no_java(settings: SecuritySettings, listener: str, mechanism: str) -> None:
    """Raises ConfigError where a Java class shall say whose password is right."""
    handler = settings.sasl_server_callback_handler_class
    if handler is None or (mechanism == "OAUTHBEARER" and handler in OWN_HANDLERS):
        return
    instead = (
        f"it is {' or '.join(OWN_HANDLERS)}"
        if mechanism == "OAUTHBEARER"
        else ("users stand in sasl.jaas.config")
    )
    raise ConfigError(
        f"sasl.server.callback.handler.class of {mechanism} on listener {listener} is a Java "
        f"class, which cannot be loaded here: {instead}"
    )
