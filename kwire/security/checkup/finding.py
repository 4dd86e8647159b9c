"""A finding of the security check, and the helpers that all its parts use."""

from __future__ import annotations

import ipaddress
from enum import Enum
from typing import Final, NamedTuple


class Grade(Enum):
    """How severe a finding is, the most severe first."""

    OPEN = "open"
    """A client can connect, do or read something that it should not."""
    BROKEN = "broken"
    """A setting does not work as it says, or soon will not."""
    WEAK = "weak"
    """A setting protects the broker, but could do it better."""


class SecurityFinding(NamedTuple):
    """`about` is a setting or a listener; `says` is a sentence about the problem."""

    grade: Grade
    about: str
    says: str


SASL: Final = ("SASL_PLAINTEXT", "SASL_SSL")
TLS: Final = ("SSL", "SASL_SSL")


def is_of_this_machine(host: str) -> bool:
    """Whether only processes of this machine can connect to `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
