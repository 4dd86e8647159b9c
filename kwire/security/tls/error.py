"""What is wrong with certificates, keys, or the settings that name them."""

from __future__ import annotations


class TlsError(ValueError):
    """It cannot be used; the message is one sentence for whoever set it up, without secrets."""
