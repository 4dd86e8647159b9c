"""Errors of certificates, keys, and their settings."""

from __future__ import annotations

import ssl


class TlsError(ValueError):
    """A store, key or setting cannot be used; the message is one sentence without secrets."""


def reason_of(problem: ssl.SSLError, whose: str) -> str:
    """OpenSSL's reason without source lines; `whose` says whose certificate it may be about."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"{whose} certificate is not trusted: {problem.verify_message}"
    if isinstance(problem, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return "the connection was closed"  # before Python 3.11.3 also without close_notify
    if not problem.reason:
        return str(problem)
    return problem.reason.lower().replace("_", " ")
