"""Makes an `ssl.SSLContext` of a server or a client from TLS options."""

from __future__ import annotations

import secrets
import ssl
import tempfile
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)

from kwire.security.tls import ciphers
from kwire.security.tls.error import TlsError
from kwire.security.tls.options import TlsOptions
from kwire.security.tls.stores import Identity, read_identities, read_trusted

_VERIFY = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""The versions served.  Like Java, `ssl.enabled.protocols` may have older ones, without effect."""


def server_context(options: TlsOptions) -> tuple[ssl.SSLContext, list[x509.Certificate]]:
    """Return the context of a listener, and its certificates, one for each key.  Raises TlsError.

    Without a keystore every handshake fails, as in Apache Kafka.  It reads files, which blocks.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, options)
    context.verify_mode = _VERIFY[options.client_auth]
    if context.verify_mode is not ssl.CERT_NONE or options.truststore is not None:
        _trust(context, options)  # report an invalid truststore even if it is not used
    return context, _identify(context, options)


def client_context(options: TlsOptions) -> ssl.SSLContext:
    """Return the context of a client.  Raises TlsError.  It reads files, which blocks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = options.checks_host_name
    _restrict(context, options)
    _trust(context, options)
    _identify(context, options)
    return context


def _restrict(context: ssl.SSLContext, options: TlsOptions) -> None:
    """Restrict `context` to the enabled protocols and ciphers, without renegotiation."""
    enabled = [name for name in _VERSIONS if name in options.enabled_protocols]
    if not enabled:
        raise TlsError(
            f"ssl.enabled.protocols: none of {', '.join(options.enabled_protocols)} is served; "
            f"use {', '.join(_VERSIONS)}"
        )
    context.minimum_version = _VERSIONS[enabled[0]]
    context.maximum_version = _VERSIONS[enabled[-1]]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    ciphers.choose(context, options.cipher_suites)


def _trust(context: ssl.SSLContext, options: TlsOptions) -> None:
    """Trust each certificate of the truststore, as Java does; without one those of the system."""
    if options.truststore is None:
        context.load_default_certs(
            ssl.Purpose.CLIENT_AUTH
            if context.protocol is ssl.PROTOCOL_TLS_SERVER
            else ssl.Purpose.SERVER_AUTH
        )
        return
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trusted = read_trusted(options.truststore)
    try:
        context.load_verify_locations(cadata=b"".join(map(_der, trusted)))
    except ssl.SSLError as problem:
        raise TlsError(f"OpenSSL refuses the truststore's certificates: {problem}") from None


def _identify(context: ssl.SSLContext, options: TlsOptions) -> list[x509.Certificate]:
    """Load the keystore's keys and return their certificates; of each key type the last counts."""
    if options.keystore is None:
        return []
    identities = read_identities(options.keystore, options.key_password)
    for identity in identities:
        _load(context, identity)
    return [identity.chain[0] for identity in identities]


def _load(context: ssl.SSLContext, identity: Identity) -> None:
    """Load a key.  `ssl` reads keys from files only, so write it to a private, encrypted one."""
    password = secrets.token_hex(32).encode()
    key = identity.key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password)
    )
    with tempfile.NamedTemporaryFile(prefix="kwire-", suffix=".pem") as file:
        file.write(key)
        file.write(_pem(identity.chain))
        file.flush()
        try:
            context.load_cert_chain(file.name, password=password)
        except ssl.SSLError as problem:
            raise TlsError(_refusal(problem)) from None


def _refusal(problem: ssl.SSLError) -> str:
    if problem.reason == "KEY_VALUES_MISMATCH":
        return "the keystore's certificate does not belong to its key"
    return f"OpenSSL refuses the keystore's key or certificate: {problem.reason or problem}"


def _pem(chain: Sequence[x509.Certificate]) -> bytes:
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in chain)


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)
