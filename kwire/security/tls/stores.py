"""Reads keystores and truststores: PEM, PKCS#12 and JKS, from a file or from the settings.

As in Java the content of a binary file decides whether it is JKS or PKCS12, not the type setting.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    pkcs12,
)

from kwire.security.tls import jks
from kwire.security.tls.error import TlsError
from kwire.security.tls.options import PEM, StoreSource
from kwire.security.tls.pem import read_certificates, read_key


class Identity(NamedTuple):
    """A private key and its certificate chain, its own certificate first."""

    key: PrivateKeyTypes
    chain: tuple[x509.Certificate, ...]


def read_identities(store: StoreSource, key_password: str | None) -> list[Identity]:
    """Return the keys of a keystore.  Raises TlsError, which names the store and no secret."""
    try:
        identities = _identities(store, key_password)
    except TlsError as problem:
        raise TlsError(f"{_named(store, 'keystore')}: {problem}") from None
    if not identities:
        raise TlsError(f"{_named(store, 'keystore')}: there is no private key in it")
    return identities


def read_trusted(store: StoreSource) -> list[x509.Certificate]:
    """Return the certificates of a truststore.  Raises TlsError, as `read_identities`."""
    try:
        trusted = _trusted(store)
    except TlsError as problem:
        raise TlsError(f"{_named(store, 'truststore')}: {problem}") from None
    if not trusted:
        raise TlsError(f"{_named(store, 'truststore')}: there is no certificate in it")
    return trusted


def pem_of_trusted(store: StoreSource) -> str:
    """A truststore in PEM.  Raises TlsError."""
    return "".join(map(_pem, read_trusted(store)))


def pem_of_identity(store: StoreSource, key_password: str | None) -> tuple[str, str]:
    """The unencrypted first key of a keystore and its certificates, both PEM.  Raises TlsError."""
    identity = read_identities(store, key_password)[0]
    key = identity.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return key.decode(), "".join(map(_pem, identity.chain))


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _named(store: StoreSource, what: str) -> str:
    return f"ssl.{what}.location={store.location}" if store.location else f"the inline {what}"


def _identities(store: StoreSource, key_password: str | None) -> list[Identity]:
    """Return the private keys of the keystore with their certificate chains; raises TlsError.

    PEM and PKCS12 have one at most; a JKS keystore may have several. A JKS key has the store's
    password unless it has its own.
    """
    if store.kind == PEM:
        inline = store.key is not None
        key, chain = (store.key, store.certificates) if inline else (_text(store),) * 2
        return [Identity(read_key(key or "", key_password), tuple(read_certificates(chain or "")))]
    data = _data(store)
    if data.startswith(jks.MAGIC):
        password = store.password if key_password is None else key_password
        return [
            _jks_identity(entry.key, entry.certificates, password or "")
            for entry in jks.read_jks(data, store.password)
            if entry.key is not None
        ]
    content = _pkcs_12(data, store.password)
    if content.key is None or content.cert is None:
        return []
    others = tuple(other.certificate for other in content.additional_certs)
    return [Identity(content.key, (content.cert.certificate, *others))]


def _trusted(store: StoreSource) -> list[x509.Certificate]:
    """Return the trusted certificates; as in Java only the first certificate of a key's chain
    counts.
    """
    if store.kind == PEM:
        return read_certificates(store.certificates or _text(store))
    data = _data(store)
    if data.startswith(jks.MAGIC):
        entries = jks.read_jks(data, store.password)
        return [_certificate(entry.certificates[0]) for entry in entries if entry.certificates]
    content = _pkcs_12(data, store.password)
    own = [content.cert.certificate] if content.cert is not None else []
    return own + [other.certificate for other in content.additional_certs]


def _jks_identity(key: bytes, chain: tuple[bytes, ...], password: str) -> Identity:
    """Return the decrypted key with its chain; raises TlsError."""
    plain = jks.decrypt_key(key, password)
    try:
        return Identity(load_der_private_key(plain, None), tuple(map(_certificate, chain)))
    except ValueError as problem:
        raise TlsError(f"a key in it cannot be read: {problem}") from None


def _certificate(data: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(data)
    except ValueError as problem:
        raise TlsError(f"a certificate in it cannot be read: {problem}") from None


def _pkcs_12(data: bytes, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    """Return the content of a PKCS12 file; raises TlsError if the format or password is wrong."""
    if data.startswith(jks.JCEKS_MAGIC):
        raise TlsError("it is a JCEKS keystore; convert it to PKCS12 with keytool -importkeystore")
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as problem:
        reason = "keystore password was incorrect" if "password" in str(problem) else str(problem)
        raise TlsError(f"it cannot be read as PKCS12 or JKS: {reason}") from None


def _text(store: StoreSource) -> str:
    return _data(store).decode("utf-8", "replace")


def _data(store: StoreSource) -> bytes:
    try:
        return Path(store.location or "").read_bytes()
    except OSError as problem:
        raise TlsError(f"Failed to load it: {problem.strerror}") from None
