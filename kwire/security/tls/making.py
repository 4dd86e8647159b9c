"""Makes certificates for development: a certificate authority in a folder, and what it signs.

The folder has `ca.pem`, the certificate to trust, and its key `ca-key.pem`.  For each certificate
it has `NAME.pem` (key, certificate and the authority's certificate: a keystore of Kafka's type PEM)
or `NAME.p12`, and `NAME.properties` with the settings that use it.  Only the owner may read
secrets.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat, pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY: Final = "ca.pem"
AUTHORITY_KEY: Final = "ca-key.pem"
AUTHORITY_DAYS: Final = 3650
DAYS: Final = 365
BEFORE: Final = datetime.timedelta(minutes=5)
"""How long before its creation a certificate is already valid, because clocks differ."""
_USAGES: Final = {
    True: [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
    False: [ExtendedKeyUsageOID.CLIENT_AUTH],
}
"""The key usages of a broker (True) and of a client; a broker is also a client of others."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate: the path of its keystore, and the Kafka settings that use it."""

    keystore: Path
    settings: Mapping[str, str]


class DevelopmentAuthority:
    """The authority in a folder; creates a missing one.  Raises OSError, ValueError."""

    def __init__(self, folder: Path) -> None:
        """Open the certificate authority in `folder`, and make it first if there is none.

        Raises OSError, ValueError.
        """
        self.folder = folder
        if not (folder / AUTHORITY_KEY).exists():
            _make_authority(folder)
        self.path = folder / AUTHORITY
        self._certificate = x509.load_pem_x509_certificate(self.path.read_bytes())
        key = serialization.load_pem_private_key((folder / AUTHORITY_KEY).read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{folder / AUTHORITY_KEY} is not an elliptic curve key")
        self._key = key

    def broker(
        self, name: str, hosts: Sequence[str], days: int = DAYS, *, p12: bool = False
    ) -> Issued:
        """A certificate of a broker with these host names and addresses."""
        certificate = self._certificate_of(name, hosts, days, is_broker=True)
        return self._write(name, *certificate, p12=p12)

    def client(self, name: str, days: int = DAYS, *, p12: bool = False) -> Issued:
        """A certificate of a client with the principal `User:CN=name`."""
        certificate = self._certificate_of(name, (), days, is_broker=False)
        return self._write(name, *certificate, p12=p12)

    def _certificate_of(
        self, name: str, hosts: Sequence[str], days: int, *, is_broker: bool
    ) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        """Return a new key and its certificate, for a broker or a client, valid for `days`.

        `hosts` are DNS names and IP addresses of a broker.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_named(name), self._certificate.subject, key, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(_USAGES[is_broker]), False)
        builder = builder.add_extension(_usage(is_authority=False), True)
        if hosts:
            names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
            builder = builder.add_extension(names, False)
        return key, _signed(builder, self._key)

    def _write(
        self, name: str, key: ec.EllipticCurvePrivateKey, own: x509.Certificate, *, p12: bool
    ) -> Issued:
        """Write the keystore and a file with the settings that use it; return both.

        `p12` chooses PKCS12 with a random password, else it is PEM without one.
        """
        settings = {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.path.absolute()),
        }
        if p12:
            keystore, password = self.folder / f"{name}.p12", secrets.token_urlsafe(24)
            encryption = serialization.BestAvailableEncryption(password.encode())
            content = pkcs12.serialize_key_and_certificates(
                name.encode(), key, own, [self._certificate], encryption
            )
            settings |= {"ssl.keystore.type": "PKCS12", "ssl.keystore.password": password}
        else:
            keystore = self.folder / f"{name}.pem"
            content = _key_pem(key) + _pem(own) + _pem(self._certificate)
            settings["ssl.keystore.type"] = "PEM"
        settings["ssl.keystore.location"] = str(keystore.absolute())
        write_secret(keystore, content)
        write_secret(self.folder / f"{name}.properties", properties_text(settings).encode())
        return Issued(keystore, settings)


def properties_text(settings: Mapping[str, str]) -> str:
    """The text of a Java properties file."""
    return "".join(
        f"{name}={value.replace(chr(92), chr(92) * 2)}\n" for name, value in settings.items()
    )


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read; it replaces an old one atomically."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "wb") as out:
        out.write(content)
    temporary.replace(path)


def certificates_in(path: Path) -> list[x509.Certificate]:
    """The certificates of a PEM file, in order.  Raises OSError, ValueError."""
    return x509.load_pem_x509_certificates(path.read_bytes())


def _make_authority(folder: Path) -> None:
    """Make the key and the self-signed certificate of an authority; only the owner reads the
    key."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named("kwire development authority")
    builder = _builder(name, name, key, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
    builder = builder.add_extension(_usage(is_authority=True), True)
    (folder / AUTHORITY).write_bytes(_pem(_signed(builder, key)))
    write_secret(folder / AUTHORITY_KEY, _key_pem(key))


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(host: str) -> x509.GeneralName:
    """Return the host as a name for a certificate: an IP address or a DNS name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    """Return the key usage: an authority signs certificates, others sign handshakes."""
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    """Return a certificate of `name` that `issuer` is to sign, valid for `days` from now.

    It begins a little earlier (`BEFORE`), for clocks that are behind.
    """
    now = datetime.datetime.now(datetime.UTC)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - BEFORE,
        not_valid_after=now + datetime.timedelta(days=days),
    ).add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)


def _signed(
    builder: x509.CertificateBuilder, authority: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    return builder.add_extension(by, False).sign(authority, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, serialization.NoEncryption())
