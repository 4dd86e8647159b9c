"""Checks the certificates of listeners: their validity, names, keys and files."""

from __future__ import annotations

import datetime
import ipaddress
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa

from kwire.cluster.metadata.image import Endpoint
from kwire.security.checkup.finding import TLS, Grade, SecurityFinding
from kwire.security.listener_tls import tls_options
from kwire.security.tls.error import TlsError
from kwire.security.tls.stores import read_identities, read_trusted
from kwire.settings import BrokerConfig, ConfigError

ENDS_SOON: Final = datetime.timedelta(days=30)
RSA_BITS_MIN: Final = 2048
_BROKEN_HASHES: Final = (hashes.SHA1, hashes.MD5)


def of_certificates(config: BrokerConfig, now: datetime.datetime) -> Iterator[SecurityFinding]:
    for endpoint in config.listeners:
        if endpoint.security_protocol in TLS:
            yield from _of_listener(config, endpoint, now)


def _of_listener(
    config: BrokerConfig, endpoint: Endpoint, now: datetime.datetime
) -> Iterator[SecurityFinding]:
    """Yield what is wrong with the keystore, truststore and certificates of a listener.

    An unreadable store is a finding, too, and ends the check.
    """
    about = f"listener {endpoint.listener}"
    try:
        options = tls_options(config, endpoint.listener, endpoint.security_protocol)
        if options.keystore is None:
            yield SecurityFinding(
                Grade.BROKEN, about, "it has no certificate; set ssl.keystore.location"
            )
            return
        own = [
            identity.chain[0]
            for identity in read_identities(options.keystore, options.key_password)
        ]
        trusted = [] if options.truststore is None else read_trusted(options.truststore)
    except (ConfigError, TlsError) as problem:
        yield SecurityFinding(Grade.BROKEN, about, str(problem))
        return
    for certificate in own:
        yield from _of_certificate(about, certificate, now)
        yield from _of_names(config, endpoint, certificate)
    if trusted and all(certificate.not_valid_after_utc < now for certificate in trusted):
        yield SecurityFinding(
            Grade.BROKEN, about, "all certificates of its truststore have expired"
        )
    location = options.keystore.location
    if location is not None and readable_by_others(Path(location)):
        says = f"users other than the owner may read {location}, which has its private key"
        yield SecurityFinding(Grade.OPEN, about, says)


def _of_certificate(
    about: str, certificate: x509.Certificate, now: datetime.datetime
) -> Iterator[SecurityFinding]:
    """Yield what is wrong with a certificate: its dates, key length and signature."""
    end = certificate.not_valid_after_utc
    if end < now:
        yield SecurityFinding(Grade.BROKEN, about, f"its certificate expired on {end:%Y-%m-%d}")
    elif end - now < ENDS_SOON:
        says = f"its certificate expires in {(end - now).days} days, on {end:%Y-%m-%d}"
        yield SecurityFinding(Grade.BROKEN, about, says)
    if certificate.not_valid_before_utc > now:
        begin = certificate.not_valid_before_utc
        yield SecurityFinding(
            Grade.BROKEN, about, f"its certificate is not valid before {begin:%Y-%m-%d}"
        )
    key = certificate.public_key()
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < RSA_BITS_MIN:
        yield SecurityFinding(
            Grade.WEAK, about, f"the key of its certificate has {key.key_size} bits"
        )
    if isinstance(certificate.signature_hash_algorithm, _BROKEN_HASHES):
        name = certificate.signature_hash_algorithm.name.upper()
        yield SecurityFinding(Grade.WEAK, about, f"its certificate is signed with {name}")


def _of_names(
    config: BrokerConfig, endpoint: Endpoint, certificate: x509.Certificate
) -> Iterator[SecurityFinding]:
    """Yield a finding if the advertised host is not a name of the certificate: clients compare
    them.
    """
    for advertised in config.advertised_listeners:
        if advertised.listener == endpoint.listener and not _is_of(certificate, advertised.host):
            says = f"it advertises {advertised.host}, which its certificate does not name"
            yield SecurityFinding(Grade.BROKEN, f"listener {endpoint.listener}", says)


def _is_of(certificate: x509.Certificate, host: str) -> bool:
    """Return whether the certificate names the host, an IP address or a DNS name."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    try:
        return ipaddress.ip_address(host) in names.get_values_for_type(x509.IPAddress)
    except ValueError:
        return any(_matches(name, host) for name in names.get_values_for_type(x509.DNSName))


def _matches(name: str, host: str) -> bool:
    """Whether a certificate's name matches `host`; a star matches the first label (RFC 6125)."""
    name, host = name.lower(), host.lower()
    if name.startswith("*."):
        return host.partition(".")[2] == name[2:]
    return name == host


def readable_by_others(path: Path) -> bool:
    """Whether users other than the owner may read a file; False if it does not exist."""
    try:
        return bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))
    except OSError:
        return False
