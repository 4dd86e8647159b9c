"""Java's names of cipher suites as OpenSSL's."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from kwire.security.tls.error import TlsError

TLS_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""In the order in which OpenSSL prefers them; other versions of TLS have none of these."""

_CIPHERS = {"3DES_EDE_CBC": "DES-CBC3", "CHACHA20_POLY1305": "CHACHA20-POLY1305"}


def older_than_1_3(suites: Sequence[str]) -> list[str]:
    """OpenSSL's names of what is not TLS 1.3's, in order.  Raises TlsError for no suite's name."""
    return [openssl_name(suite) for suite in suites if suite not in TLS_1_3]


def openssl_name(suite: str) -> str:
    """`ECDHE-RSA-AES128-GCM-SHA256` for `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`."""
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
    """Have `context` take `suites` alone.  Raises TlsError.

    Of TLS 1.3's Python lets nobody choose before 3.15.  All three are offered then, OpenSSL takes
    the strongest that the other side has, and `is_allowed` says whether that was asked for.
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
                f"ssl.cipher.suites: OpenSSL has none of {', '.join(suites)} any longer"
            ) from None
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if not of_1_3:
        _refuse_only_1_3(context)
    elif hasattr(context, "set_ciphersuites"):
        context.set_ciphersuites(":".join(of_1_3))
    elif of_1_3 != list(TLS_1_3) and TLS_1_3[0] not in of_1_3:
        raise TlsError(
            f"ssl.cipher.suites: {TLS_1_3[0]} has to be among those of TLS 1.3, for Python before "
            "3.15 lets nobody forbid it; leave TLS 1.3 out of ssl.enabled.protocols otherwise"
        )


def _refuse_only_1_3(context: ssl.SSLContext) -> None:
    if context.minimum_version == ssl.TLSVersion.TLSv1_3:
        raise TlsError(
            "ssl.cipher.suites has none of TLS 1.3, which ssl.enabled.protocols has alone"
        )
    context.maximum_version = ssl.TLSVersion.TLSv1_2


def is_allowed(agreed: str, suites: Sequence[str]) -> bool:
    """Whether the suite that both sides agreed on is one of those asked for."""
    return not suites or agreed not in TLS_1_3 or agreed in suites
