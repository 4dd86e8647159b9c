"""Cipher suites: translates Java's names to OpenSSL's and restricts a context to them."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from kwire.security.tls.error import TlsError

TLS_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""The suites of TLS 1.3 only, in OpenSSL's order of preference."""

_CIPHERS = {"3DES_EDE_CBC": "DES-CBC3", "CHACHA20_POLY1305": "CHACHA20-POLY1305"}


def older_than_1_3(suites: Sequence[str]) -> list[str]:
    """OpenSSL's names of the suites before TLS 1.3, in order.  Raises TlsError for a wrong name."""
    return [openssl_name(suite) for suite in suites if suite not in TLS_1_3]


def openssl_name(suite: str) -> str:
    """Return `ECDHE-RSA-AES128-GCM-SHA256` for `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`."""
    exchange, separator, rest = suite.partition("_WITH_")
    family, _, exchange = exchange.partition("_")
    cipher, _, digest = rest.rpartition("_")
    if family not in ("TLS", "SSL") or not separator or not cipher:
        raise TlsError(f"ssl.cipher.suites: Unsupported CipherSuite: {suite}")
    parts = [] if exchange == "RSA" else [exchange.replace("_", "-")]
    parts.append(_CIPHERS.get(cipher) or _block_cipher(cipher))
    if not cipher.startswith("CHACHA20"):
        parts.append(digest)
    return "-".join(parts)


def _block_cipher(cipher: str) -> str:
    """`AES256-GCM` for `AES_256_GCM`, `AES256` for `AES_256_CBC`."""
    name, _, mode = cipher.partition("_")
    size, _, mode = mode.partition("_")
    return f"{name}{size}" if mode == "CBC" else f"{name}{size}-{mode}"


def choose(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    """Restrict `context` to `suites`.  Raises TlsError.

    Before 3.15 Python cannot restrict the suites of TLS 1.3.  All three are offered then, OpenSSL
    agrees on the strongest, and `is_allowed` checks that suite after the handshake.
    """
    if not suites:
        return
    of_1_3 = [suite for suite in TLS_1_3 if suite in suites]
    older = older_than_1_3(suites)
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise TlsError(
                f"ssl.cipher.suites: OpenSSL no longer has any of {', '.join(suites)}"
            ) from None
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if not of_1_3:
        _refuse_only_1_3(context)
    elif hasattr(context, "set_ciphersuites"):
        context.set_ciphersuites(":".join(of_1_3))
    elif of_1_3 != list(TLS_1_3) and TLS_1_3[0] not in of_1_3:
        raise TlsError(
            f"ssl.cipher.suites: the suites of TLS 1.3 must include {TLS_1_3[0]}, because Python "
            "before 3.15 cannot disable it; or remove TLS 1.3 from ssl.enabled.protocols"
        )


def _refuse_only_1_3(context: ssl.SSLContext) -> None:
    """Restrict the context to TLS 1.2; raises TlsError if only 1.3 is enabled."""
    if context.minimum_version == ssl.TLSVersion.TLSv1_3:
        raise TlsError(
            "ssl.cipher.suites has no suite of TLS 1.3, the only one of ssl.enabled.protocols"
        )
    context.maximum_version = ssl.TLSVersion.TLSv1_2


def is_allowed(agreed: str, suites: Sequence[str]) -> bool:
    """Whether the agreed suite is in `suites`; an empty list allows all."""
    return not suites or agreed not in TLS_1_3 or agreed in suites
