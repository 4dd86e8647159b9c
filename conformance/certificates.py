"""Certificates for one run: a certificate authority that only this run trusts."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

BROKER: Final = "broker.pem"
AUTHORITY: Final = "authority.pem"


class Certificates:
    """A certificate authority and a certificate for a broker on this machine (ECDSA, P-256)."""

    def __init__(self, folder: Path) -> None:
        """Create an authority and a certificate of localhost, and write both into `folder`."""
        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        own = authority.issue_cert("localhost", "127.0.0.1", key_type=trustme.KeyType.ECDSA)
        self.authority = folder / AUTHORITY
        authority.cert_pem.write_to_path(self.authority)
        self._broker = folder / BROKER
        self._broker.write_bytes(_as_pkcs_8(own.private_key_pem.bytes()))
        for certificate in own.cert_chain_pems:
            certificate.write_to_path(self._broker, append=True)
        self.context = ssl.create_default_context()
        authority.configure_trust(self.context)

    def settings(self) -> dict[str, str]:
        """Return the settings of a broker with this certificate, by Kafka's names."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }


def _as_pkcs_8(key_pem: bytes) -> bytes:
    """Return the key as PKCS #8, the only form that Kafka reads."""
    key = load_pem_private_key(key_pem, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
