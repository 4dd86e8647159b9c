"""What is found, and what the parts of a check-up have in common."""

from __future__ import annotations

import ipaddress
from enum import Enum
from typing import Final, NamedTuple


class Grade(Enum):
    """How bad it is; the worst comes first."""

    OPEN = "open"
    """Somebody may come in, do or read what they should not."""
    BROKEN = "broken"
    """It does not do what it says, or will not soon."""
    WEAK = "weak"
    """It holds, and could hold better."""


class Finding(NamedTuple):
    """`about` is the setting or the listener, `says` what is wrong, in a sentence for people."""

    grade: Grade
    about: str
    says: str


SASL: Final = ("SASL_PLAINTEXT", "SASL_SSL")
TLS: Final = ("SSL", "SASL_SSL")


def is_of_this_machine(host: str) -> bool:
    """Whether only processes of this machine reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
