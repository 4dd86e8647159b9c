"""Signed tokens of a listener: the rules and the key source, from `sasl.oauthbearer.*`.

The settings of the key source cannot change at run time, so it stays the same until the broker
stops.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

import trio

from kwire.security.oauth.fetching import SCHEMES, tls_of
from kwire.security.oauth.key_source import KeySource, NoKeys, Refreshing
from kwire.security.oauth.signed_token import SignedRules, validate_signed
from kwire.security.sasl.oauthbearer import Validate
from kwire.security.tls.error import TlsError
from kwire.settings import ConfigError
from kwire.settings.definitions.security import SecuritySettings

log = logging.getLogger("kwire.security.oauth")

KeySources = dict[str, KeySource]
"""Key sources by listener name."""


def signed_tokens(
    settings: SecuritySettings,
    listener: str,
    module_options: Mapping[str, str],
    sources: KeySources,
) -> Validate:
    """Return the validation of tokens on `listener`; adds its key source to `sources`.

    Raises ConfigError.
    """
    if listener not in sources:
        sources[listener] = _source(settings, listener, module_options)
    source, rules = sources[listener], rules_of(settings, listener)
    return lambda token: validate_signed(token, rules, source.find, time.time_ns() // 1_000_000)


def rules_of(settings: SecuritySettings, listener: str) -> SignedRules:
    """Return the rules that signed tokens of `listener` must pass.

    Raises ConfigError if no audience or no issuer is expected and that is not allowed.
    """
    audiences = frozenset(settings.sasl_oauthbearer_expected_audience)
    for claim, expected, allowed in (
        ("audience", audiences, settings.sasl_oauthbearer_allow_unverified_audience),
        (
            "issuer",
            settings.sasl_oauthbearer_expected_issuer is not None,
            settings.sasl_oauthbearer_allow_unverified_issuer,
        ),
    ):
        if not expected and not allowed:
            raise ConfigError(
                f"listener {listener}: set sasl.oauthbearer.expected.{claim} to the {claim} of "
                f"valid tokens, or sasl.oauthbearer.allow.unverified.{claim} to true to accept "
                f"tokens of any {claim}"
            )
        if not expected:
            log.warning(
                "Listener %s accepts tokens of any %s: sasl.oauthbearer.expected.%s is not set.",
                listener,
                claim,
                claim,
            )
    return SignedRules(
        audiences or None,
        settings.sasl_oauthbearer_expected_issuer,
        settings.sasl_oauthbearer_clock_skew_seconds,
        settings.sasl_oauthbearer_scope_claim_name,
        settings.sasl_oauthbearer_sub_claim_name,
    )


def _source(
    settings: SecuritySettings, listener: str, module_options: Mapping[str, str]
) -> KeySource:
    """Return the source of a listener's signing keys; raises ConfigError for a bad URL or TLS."""
    url = (settings.sasl_oauthbearer_jwks_endpoint_url or "").strip()
    scheme, separator, rest = url.partition(":")
    if not separator or not rest or scheme.lower() not in SCHEMES:
        raise ConfigError(
            f"listener {listener}: sasl.oauthbearer.jwks.endpoint.url must be the "
            f"{', '.join(SCHEMES)} URL of the keys that sign the tokens"
        )
    refreshing = Refreshing(
        settings.sasl_oauthbearer_jwks_endpoint_refresh_ms,
        settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
        settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
    )
    try:
        return KeySource(url, refreshing, tls_of(module_options))
    except TlsError as problem:
        raise ConfigError(f"sasl.jaas.config of listener {listener}: {problem}") from None


async def begin(sources: KeySources, nursery: trio.Nursery) -> None:
    """Fetch all keys, and start the tasks that refresh them.  Raises ConfigError."""
    for listener, source in sources.items():
        try:
            await source.begin()
        except NoKeys as problem:
            raise ConfigError(f"listener {listener}: {problem}") from None
        nursery.start_soon(source.follow)
