"""What is wrong with certificates, keys, or the settings that name them."""

from __future__ import annotations

import ssl


class TlsError(ValueError):
    """It cannot be used; the message is one sentence for whoever set it up, without secrets."""


def reason_of(problem: ssl.SSLError, whose: str) -> str:
    """What OpenSSL says of it, without the line of its source; `whose` certificate it may be."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"{whose} certificate is not trusted: {problem.verify_message}"
    if isinstance(problem, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return "the connection was closed"  # up to Python 3.11.2 as if it had been with a word
    if not problem.reason:
        return str(problem)
    return problem.reason.lower().replace("_", " ")
