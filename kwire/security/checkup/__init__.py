"""Checks the security of a broker's settings.  Start with `findings`."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from kwire.security.checkup.certificates import of_certificates
from kwire.security.checkup.finding import Grade, SecurityFinding
from kwire.security.checkup.listeners import of_listeners
from kwire.security.checkup.rights import of_rights
from kwire.security.checkup.secrets import of_secrets
from kwire.settings import BrokerConfig

__all__ = ["Grade", "SecurityFinding", "findings"]


def findings(config: BrokerConfig, now: datetime.datetime) -> Iterator[SecurityFinding]:
    """Yield all findings about listeners, certificates, rights and secrets, in this order.

    Reads the files that the settings name.
    """
    yield from of_listeners(config)
    yield from of_certificates(config, now)
    yield from of_rights(config)
    yield from of_secrets(config)
