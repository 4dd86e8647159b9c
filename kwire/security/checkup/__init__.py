"""What a broker's settings leave open, or broken, of its security: `findings` has it all."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from kwire.security.checkup.certificates import of_certificates
from kwire.security.checkup.finding import Finding, Grade
from kwire.security.checkup.listeners import of_listeners
from kwire.security.checkup.rights import of_rights
from kwire.security.checkup.secrets import of_secrets
from kwire.settings import BrokerConfig

__all__ = ["Finding", "Grade", "findings"]


def findings(config: BrokerConfig, now: datetime.datetime) -> Iterator[Finding]:
    """In the order of listeners, certificates, rights and secrets.  Reads the files named there."""
    yield from of_listeners(config)
    yield from of_certificates(config, now)
    yield from of_rights(config)
    yield from of_secrets(config)
