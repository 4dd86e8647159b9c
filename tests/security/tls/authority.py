"""Certificates for tests: an authority and its certificates, in each type of store."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

PASSWORD = "store-secret"
DAY = datetime.timedelta(days=1)
YEAR = 365 * DAY


def name_of(common_name: str, *others: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    """A name such as `CN=common_name,…`, whose text has the parts in reverse order."""
    return x509.Name(
        [
            *(x509.NameAttribute(kind, value) for kind, value in others),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


class Certificate:
    """A key, its certificate, and the certificate of its issuer."""

    def __init__(
        self,
        key: ec.EllipticCurvePrivateKey,
        certificate: x509.Certificate,
        authority: x509.Certificate,
    ) -> None:
        self.key = key
        self.certificate = certificate
        self.authority = authority

    @property
    def chain_pem(self) -> str:
        return pem(self.certificate) + pem(self.authority)

    def key_pem(self, password: str | None = None) -> str:
        encryption: KeySerializationEncryption = NoEncryption()
        if password is not None:
            encryption = BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        path.write_text(self.key_pem(password) + self.chain_pem)
        return path

    def write_p12(self, path: Path, password: str = PASSWORD) -> Path:
        encryption = BestAvailableEncryption(password.encode())
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"own", self.key, self.certificate, [self.authority], encryption
            )
        )
        return path


def pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


class Authority:
    """Signs certificates for tests; each authority has its own key."""

    def __init__(self, name: str = "Test authority") -> None:
        self._name = name_of(name)
        self._key = ec.generate_private_key(ec.SECP256R1())

    @cached_property
    def certificate(self) -> x509.Certificate:
        authority = x509.BasicConstraints(ca=True, path_length=None)
        return self._sign(self._name, self._key, authority, YEAR)

    @property
    def pem(self) -> str:
        return pem(self.certificate)

    def write(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path

    def issue(
        self,
        subject: str | x509.Name = "localhost",
        hosts: Sequence[str] = ("localhost",),
        *,
        ends_in: datetime.timedelta = YEAR,
    ) -> Certificate:
        """Issue a certificate that is also for 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName(host) for host in hosts]
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        name = name_of(subject) if isinstance(subject, str) else subject
        alternatives = x509.SubjectAlternativeName([*names, address])
        certificate = self._sign(name, key, alternatives, ends_in)
        return Certificate(key, certificate, self.certificate)

    def _sign(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extension: x509.ExtensionType,
        ends_in: datetime.timedelta,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(
            subject_name=name,
            issuer_name=self._name,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - DAY,
            not_valid_after=now + ends_in,
        )
        return builder.add_extension(extension, critical=False).sign(self._key, hashes.SHA256())
