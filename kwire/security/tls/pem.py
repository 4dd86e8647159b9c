"""Reads certificates and keys in PEM, as strictly as Apache Kafka: keys must be PKCS#8."""

from __future__ import annotations

import re

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from kwire.security.tls.error import TlsError

_BLOCK = re.compile(r"-+BEGIN +([A-Z0-9 ]+?) *-+(.*?)-+END +\1 *-+", re.DOTALL)
_PKCS_8 = ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY")


def _blocks(text: str, ending: str) -> list[tuple[str, bytes]]:
    """Return the PEM blocks whose kind ends with `ending`, as pairs of kind and block."""
    return [
        (match[1], match[0].encode())
        for match in _BLOCK.finditer(text)
        if match[1].endswith(ending)
    ]


def read_certificates(text: str) -> list[x509.Certificate]:
    """Return all certificates of `text`, at least one, in order.  Raises TlsError."""
    blocks = _blocks(text, "CERTIFICATE")
    if not blocks:
        raise TlsError("there is no certificate in it (-----BEGIN CERTIFICATE-----)")
    try:
        return [x509.load_pem_x509_certificate(block) for _, block in blocks]
    except ValueError as problem:
        raise TlsError(f"a certificate in it cannot be read: {problem}") from None


def read_key(text: str, password: str | None) -> PrivateKeyTypes:
    """Return the one private key of `text`.  Raises TlsError."""
    blocks = _blocks(text, "PRIVATE KEY")
    if len(blocks) != 1:
        raise TlsError(f"it has {len(blocks)} private keys, but must have one")
    kind, block = blocks[0]
    if kind not in _PKCS_8:
        raise TlsError(
            f"its key is a {kind}, but Kafka accepts PKCS#8 only; convert it with "
            "openssl pkcs8 -topk8"
        )
    encrypted = kind != "PRIVATE KEY"
    if encrypted and password is None:
        raise TlsError("its key is encrypted, and ssl.key.password is not set")
    if not encrypted and password is not None:
        raise TlsError("ssl.key.password is set, but its key is not encrypted")
    try:
        return load_pem_private_key(block, None if password is None else password.encode())
    except ValueError as problem:
        reason = "ssl.key.password does not match the key" if encrypted else str(problem)
        raise TlsError(f"its key cannot be read: {reason}") from None
