"""Reads Java's keystore format JKS, as sun.security.provider.JavaKeyStore writes it.

    magic FEEDFEED, version 1 or 2, number of entries (all numbers big-endian, 32 bits)
    an entry: tag (1 key, 2 certificate), alias (modified UTF-8 behind a 16-bit size),
              time (64 bits, ms), then
              of a key:         size, an encrypted PKCS#8 key, number of certificates, these
              of a certificate: that
    a certificate: its type (as the alias; in version 2 only), size, DER
    SHA-1 over the password in UTF-16, "Mighty Aphrodite", and all of the above

A key is a DER EncryptedPrivateKeyInfo of Sun's KeyProtector: a salt of 20 bytes, the key XORed with
the stream SHA-1(password, salt), SHA-1(password, that), ..., and SHA-1(password, key).

No maintained library exists: pyjks is from 2020 and depends on three packages that a JKS file does
not need.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kwire.security.tls.der import DerError, read_element
from kwire.security.tls.error import TlsError

MAGIC = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC = b"\xce\xce\xce\xce"
_DIGEST_BYTES = 20
_WHITENER = b"Mighty Aphrodite"
_KEY, _CERTIFICATE = 1, 2
_INT, _SHORT = Struct(">i"), Struct(">H")
_CUT = "the keystore is cut short or damaged"


class KeystoreEntry(NamedTuple):
    """One entry, in DER.  `key` is still encrypted; it is None for a trusted certificate."""

    alias: str
    key: bytes | None
    certificates: tuple[bytes, ...]


class _KeystoreReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size_bytes: int) -> bytes:
        """Return the next bytes; raises TlsError if fewer are left."""
        end = self._at + size_bytes
        if size_bytes < 0 or end > len(self._data):
            raise TlsError(_CUT)
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def number(self) -> int:
        number: int = _INT.unpack(self.take(4))[0]
        return number

    def sized(self) -> bytes:
        return self.take(self.number())

    def text(self) -> str:
        return self.take(_SHORT.unpack(self.take(2))[0]).decode("utf-8", "replace")


def read_jks(data: bytes, password: str | None) -> list[KeystoreEntry]:
    """Return all entries; without a password the file's hash is not checked.  Raises TlsError."""
    body = data[:-_DIGEST_BYTES]
    if password is not None:
        expected = hashlib.sha1(_utf_16(password) + _WHITENER + body).digest()
        if not hmac.compare_digest(expected, data[-_DIGEST_BYTES:]):
            raise TlsError("Keystore was tampered with, or password was incorrect")
    reader = _KeystoreReader(body)
    if reader.take(4) != MAGIC:
        raise TlsError("Invalid keystore format")
    version = reader.number()
    if version not in (1, 2):
        raise TlsError("Invalid keystore format")
    return list(_entries(reader, version))


def _entries(reader: _KeystoreReader, version: int) -> Iterator[KeystoreEntry]:
    """Yield the entries of the keystore: private keys with their chains, and certificates.

    The 8 bytes after the alias are the date of the entry. Raises TlsError.
    """
    for _ in range(reader.number()):
        tag, alias = reader.number(), reader.text()
        reader.take(8)
        if tag == _KEY:
            key = reader.sized()
            chain = tuple(_certificate(reader, version) for _ in range(reader.number()))
            yield KeystoreEntry(alias, key, chain)
        elif tag == _CERTIFICATE:
            yield KeystoreEntry(alias, None, (_certificate(reader, version),))
        else:
            raise TlsError(_CUT)


def _certificate(reader: _KeystoreReader, version: int) -> bytes:
    if version == 2:
        reader.text()  # X.509
    return reader.sized()


def decrypt_key(encrypted: bytes, password: str) -> bytes:
    """Return the PKCS#8 key, DER.  Raises TlsError."""
    try:
        info = read_element(encrypted, 0)
        algorithm = read_element(encrypted, info.start)
        protected = read_element(encrypted, algorithm.end).content(encrypted)
    except DerError:
        raise TlsError(_CUT) from None
    secret = _utf_16(password)
    salt, stream = protected[:_DIGEST_BYTES], protected[_DIGEST_BYTES:-_DIGEST_BYTES]
    key = bytes(a ^ b for a, b in zip(stream, _key_stream(secret, salt), strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), protected[-_DIGEST_BYTES:]):
        raise TlsError("Cannot recover key: ssl.key.password does not match it")
    return key


def _key_stream(secret: bytes, salt: bytes) -> Iterator[int]:
    while True:
        salt = hashlib.sha1(secret + salt).digest()
        yield from salt


def _utf_16(password: str) -> bytes:
    return password.encode("utf-16-be")
