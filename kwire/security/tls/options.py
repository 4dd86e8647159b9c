"""Reads Kafka's `ssl.*` settings and checks the rules between them.

Names, defaults and error messages are those of Apache Kafka's SslConfigs and
DefaultSslEngineFactory.  Brokers and clients have the same settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kwire.security.tls.error import TlsError

PEM = "PEM"
STORE_TYPES = (PEM, "JKS", "PKCS12")
CLIENT_AUTH = ("none", "requested", "required")
PROTOCOLS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
_ALSO_PROTOCOLS = ("TLS", "SSL", "SSLv3", "SSLv2", "SSLv2Hello")
"""Java also accepts these: names for any version, and versions that are no longer offered."""

PREFIX = "ssl."


@dataclass(frozen=True, slots=True)
class StoreSource:
    """The source of a keystore or truststore: a file, or PEM in the settings themselves."""

    kind: str
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    """An inline private key, PEM."""
    certificates: str | None = field(default=None, repr=False)
    """Inline certificates, PEM."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """The values of `ssl.*`; None for a store that is not set."""

    keystore: StoreSource | None = None
    truststore: StoreSource | None = None
    key_password: str | None = field(default=None, repr=False)
    client_auth: str = "none"
    protocol: str = "TLSv1.3"
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    """Java's names; empty for OpenSSL's default."""
    checks_host_name: bool = True
    """Whether a client compares the host name with the certificate."""


def read_options(settings: Mapping[str, str | None]) -> TlsOptions:
    """Return the TLS options in `settings`; ignores other settings.

    Raises TlsError, with Kafka's message, for invalid or contradictory settings.
    """
    enabled = _names(settings.get("ssl.enabled.protocols"), ("TLSv1.2", "TLSv1.3"))
    protocol = _text(settings, "ssl.protocol") or "TLSv1.3"
    for name, known in ((protocol, (*PROTOCOLS, *_ALSO_PROTOCOLS)), *_with_choices(enabled)):
        if name not in known:
            raise TlsError(f"{name} SSLContext not available: it must be one of {', '.join(known)}")
    identification = settings.get("ssl.endpoint.identification.algorithm", "https") or ""
    if identification.strip().lower() not in ("", "https"):
        raise TlsError(f"Unknown endpoint identification algorithm: {identification.strip()}")
    client_auth = (_text(settings, "ssl.client.auth") or "none").lower()
    if client_auth not in CLIENT_AUTH:
        raise TlsError(
            f"ssl.client.auth must be one of {', '.join(CLIENT_AUTH)}, not {client_auth}"
        )
    return TlsOptions(
        keystore=_keystore(settings),
        truststore=_truststore(settings),
        key_password=settings.get("ssl.key.password"),
        client_auth=client_auth,
        protocol=protocol,
        enabled_protocols=enabled,
        cipher_suites=_names(settings.get("ssl.cipher.suites"), ()),
        checks_host_name=bool(identification.strip()),
    )


def _with_choices(enabled: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    return [(name, (*PROTOCOLS, "SSLv3", "SSLv2Hello")) for name in enabled]


def _text(settings: Mapping[str, str | None], name: str) -> str | None:
    """A value without surrounding spaces; None if it is missing or blank."""
    return (settings.get(name) or "").strip() or None


def _names(text: str | None, default: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(filter(None, (part.strip() for part in (text or "").split(","))))
    return names or default


def _kind(settings: Mapping[str, str | None], name: str) -> str:
    kind = (_text(settings, name) or "JKS").upper()
    if kind not in STORE_TYPES:
        raise TlsError(f"{name}={kind} not found: it must be one of {', '.join(STORE_TYPES)}")
    return kind


def _keystore(settings: Mapping[str, str | None]) -> StoreSource | None:
    """Return where the broker's own key is, None if it has none; raises TlsError at a
    contradiction. The messages are Kafka's.
    """
    kind = _kind(settings, "ssl.keystore.type")
    location = _text(settings, "ssl.keystore.location")
    password = settings.get("ssl.keystore.password")
    key, chain = settings.get("ssl.keystore.key"), settings.get("ssl.keystore.certificate.chain")
    if key is not None:
        _check_inline_key(kind, location, password, chain)
    elif chain is not None:
        raise TlsError("SSL certificate chain is specified, but private key is not specified")
    elif kind == PEM and location is not None:
        if password is not None:
            raise TlsError(
                "SSL key store password cannot be specified with PEM format, only key password "
                "may be specified"
            )
    elif location is None:
        if password is not None:
            raise TlsError("SSL key store is not specified, but key store password is specified.")
        return None
    elif password is None:
        raise TlsError("SSL key store is specified, but key store password is not specified.")
    return StoreSource(kind, location, password, key, chain)


def _check_inline_key(
    kind: str, location: str | None, password: str | None, chain: str | None
) -> None:
    """Raise TlsError if a key in the settings contradicts the other settings."""
    if kind != PEM:
        raise TlsError(
            f"SSL private key can be specified only for PEM, but key store type is {kind}."
        )
    if chain is None:
        raise TlsError("SSL private key is specified, but certificate chain is not specified.")
    if location is not None:
        raise TlsError("Both SSL key store location and separate private key are specified.")
    if password is not None:
        raise TlsError(
            "SSL key store password cannot be specified with PEM format, only key password may "
            "be specified."
        )


def _truststore(settings: Mapping[str, str | None]) -> StoreSource | None:
    """Return where the trusted certificates are, None if none is set; raises TlsError.

    The messages are Kafka's.
    """
    kind = _kind(settings, "ssl.truststore.type")
    location = _text(settings, "ssl.truststore.location")
    password = settings.get("ssl.truststore.password")
    certificates = settings.get("ssl.truststore.certificates")
    if certificates is not None:
        if kind != PEM:
            raise TlsError(
                "SSL trust store certs can be specified only for PEM, but trust store type is "
                f"{kind}."
            )
        if location is not None:
            raise TlsError("Both SSL trust store location and separate certs are specified.")
    elif location is None:
        if password is not None:
            raise TlsError(
                "SSL trust store is not specified, but trust store password is specified."
            )
        return None
    if kind == PEM and password is not None:
        raise TlsError("SSL trust store password cannot be specified for PEM format.")
    return StoreSource(kind, location, password, certificates=certificates)
