"""TLS of the broker's listeners: their certificates, and the principals of client certificates.

A listener's context is made from its settings (`listener.name.<listener>.ssl.…` above `ssl.…`), and
made again when they or their files change; existing connections keep the old context.  What a new
certificate must have in common with the old one is Kafka's rule (SslFactory), so that clients still
trust the broker.
"""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from kwire.requests.context import ANONYMOUS
from kwire.security.tls import ciphers
from kwire.security.tls.context import server_context
from kwire.security.tls.der import DerError
from kwire.security.tls.error import TlsError
from kwire.security.tls.names import subject_name
from kwire.security.tls.options import PREFIX, TlsOptions, read_options
from kwire.security.tls.principal_rules import NoMatchingRule, PrincipalRules
from kwire.settings import ConfigError
from kwire.settings.listener_security import given_for

if TYPE_CHECKING:
    from kwire.settings import BrokerConfig

log = logging.getLogger("kwire.security.tls")

PROTOCOLS: Final = ("SSL", "SASL_SSL")


class UnknownPrincipal(Exception):
    """The client's certificate gives no principal; the message is logged."""


def tls_options(config: BrokerConfig, listener: str, security_protocol: str) -> TlsOptions:
    """Return the TLS options of a listener.  Raises ConfigError, with the name of the listener.

    A general `ssl.client.auth` is for SSL listeners only.  A SASL_SSL listener requests client
    certificates only with a setting of its own (KIP-684).
    """
    settings = given_for(config, listener, lambda name: name.startswith(PREFIX))
    own = f"listener.name.{listener.lower()}.ssl.client.auth"
    if security_protocol == "SASL_SSL" and not _is_set(config, own):
        settings["ssl.client.auth"] = "none"
    try:
        return read_options(settings)
    except TlsError as problem:
        raise ConfigError(f"listener {listener}: {problem}") from None


def _is_set(config: BrokerConfig, name: str) -> bool:
    return name in config.explicit or name in config.dynamic


class ListenerTls:
    """The TLS of one listener.  Raises ConfigError if its settings cannot be used.

    It reads files, which blocks.
    """

    def __init__(self, config: BrokerConfig, listener: str, security_protocol: str) -> None:
        """Read the certificates and TLS settings of the listener; raises ConfigError."""
        self._listener = listener
        self._protocol = security_protocol
        self.options = tls_options(config, listener, security_protocol)
        self._may_change_name = config.ssl_allow_dn_changes
        self._may_lose_names = config.ssl_allow_san_changes
        self.context, self._certificates = _context(self.options, listener)
        try:
            self._rules = PrincipalRules(config.ssl_principal_mapping_rules)
        except TlsError as problem:
            raise ConfigError(str(problem)) from None

    def principal_of(self, tls: ssl.SSLObject) -> str:
        """Return the client's principal, after the handshake.  Raises UnknownPrincipal."""
        cipher = tls.cipher()
        if cipher is not None and not ciphers.is_allowed(cipher[0], self.options.cipher_suites):
            raise UnknownPrincipal(
                f"ssl.cipher.suites has no {cipher[0]}, which the client prefers"
            )
        certificate = tls.getpeercert(binary_form=True)
        if certificate is None:
            return ANONYMOUS
        try:
            return f"User:{self._rules.principal_name(subject_name(certificate))}"
        except (NoMatchingRule, DerError) as problem:
            raise UnknownPrincipal(str(problem)) from None

    # Replacing another ListenerTls

    def differs_from(self, old: ListenerTls) -> bool:
        return self._certificates != old._certificates or self.options != old.options

    def check_replaces(self, old: ListenerTls) -> None:
        """Raise ConfigError, with Kafka's message, if this one may not replace `old`."""
        for kind in ("keystore", "truststore"):
            old_store, new_store = getattr(old.options, kind), getattr(self.options, kind)
            if old_store is None and new_store is not None:
                raise ConfigError(
                    f"Cannot add SSL {kind} to an existing listener for which no {kind} was "
                    "configured."
                )
            if kind == "keystore" and old_store is not None and new_store is None:
                raise ConfigError(
                    "Cannot remove the SSL keystore from an existing listener for which a "
                    "keystore was configured."
                )
        if len(self._certificates) != len(old._certificates):
            raise ConfigError(
                "Keystore entries do not match, existing store contains "
                f"{len(old._certificates)} entries, new store contains "
                f"{len(self._certificates)} entries"
            )
        for new_certificate, old_certificate in zip(
            self._certificates, old._certificates, strict=True
        ):
            self._check_names(new_certificate, old_certificate)

    def _check_names(self, new: x509.Certificate, old: x509.Certificate) -> None:
        """Raise ConfigError if a reloaded certificate changes its subject or loses names.

        `ssl.allow.dn.changes` and `ssl.allow.san.changes` permit that.
        """
        if not self._may_change_name and new.subject != old.subject:
            raise ConfigError(
                "Keystore DistinguishedName does not match: "
                f"existing={{DN={_name(old)}}}, new={{DN={_name(new)}}}"
            )
        old_names, new_names = other_names(old), other_names(new)
        if not self._may_lose_names and not old_names <= new_names:
            raise ConfigError(
                "Keystore SubjectAltNames do not match: "
                f"existing={{SAN={_shown(old_names)}}}, new={{SAN={_shown(new_names)}}}"
            )


def _name(certificate: x509.Certificate) -> str:
    return subject_name(certificate.public_bytes(Encoding.DER))


def _shown(names: set[str]) -> str:
    return f"[{', '.join(sorted(names))}]"


def other_names(certificate: x509.Certificate) -> set[str]:
    """Return the subject alternative names of the certificate; empty if it has none."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in names.value}


def _context(options: TlsOptions, listener: str) -> tuple[ssl.SSLContext, list[x509.Certificate]]:
    try:
        return server_context(options)
    except TlsError as problem:
        raise ConfigError(f"listener {listener}: {problem}") from None
