"""From options to an `ssl.SSLContext`, for who serves and for who connects."""

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
"""Java takes older ones in `ssl.enabled.protocols` and serves them no longer; nor does this."""


def server_context(options: TlsOptions) -> tuple[ssl.SSLContext, list[x509.Certificate]]:
    """Of a listener, and the certificates that it shows, one for each key.  Raises TlsError.

    Without a keystore every handshake fails, as with Apache Kafka.  It blocks: files are read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, options)
    context.verify_mode = _VERIFY[options.client_auth]
    if context.verify_mode is not ssl.CERT_NONE or options.truststore is not None:
        _trust(context, options)  # a truststore is to be one, even where nobody is asked
    return context, _identify(context, options)


def client_context(options: TlsOptions) -> ssl.SSLContext:
    """Of who connects.  Raises TlsError.  It blocks: files are read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = options.checks_host_name
    _restrict(context, options)
    _trust(context, options)
    _identify(context, options)
    return context


def _restrict(context: ssl.SSLContext, options: TlsOptions) -> None:
    """To the protocols and ciphers that are asked for; nothing is agreed on anew later."""
    enabled = [name for name in _VERSIONS if name in options.enabled_protocols]
    if not enabled:
        raise TlsError(
            f"ssl.enabled.protocols: none of {', '.join(options.enabled_protocols)} is served; "
            f"there are {', '.join(_VERSIONS)}"
        )
    context.minimum_version = _VERSIONS[enabled[0]]
    context.maximum_version = _VERSIONS[enabled[-1]]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    ciphers.choose(context, options.cipher_suites)


def _trust(context: ssl.SSLContext, options: TlsOptions) -> None:
    """The truststore's certificates, each by itself, as Java does; else who the system trusts."""
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
        context.load_verify_locations(cadata=b"".join(_der(each) for each in trusted))
    except ssl.SSLError as problem:
        raise TlsError(f"the truststore's certificates are not taken: {problem}") from None


def _identify(context: ssl.SSLContext, options: TlsOptions) -> list[x509.Certificate]:
    """Load the keystore's keys, of each kind the last; the certificates that stand for them."""
    if options.keystore is None:
        return []
    identities = read_identities(options.keystore, options.key_password)
    for identity in identities:
        _load(context, identity)
    return [identity.chain[0] for identity in identities]


def _load(context: ssl.SSLContext, identity: Identity) -> None:
    """`ssl` takes keys from files alone: one that its owner may read, encrypted once more."""
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
            raise TlsError(_not_taken(problem)) from None


def _not_taken(problem: ssl.SSLError) -> str:
    if problem.reason == "KEY_VALUES_MISMATCH":
        return "the keystore's certificate is not that of its key"
    return f"the keystore's key or certificate is not taken: {problem.reason or problem}"


def _pem(chain: Sequence[x509.Certificate]) -> bytes:
    return b"".join(each.public_bytes(Encoding.PEM) for each in chain)


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)
