"""`kwire serve --secure`: a broker for this machine that lets nobody in without a password.

Beside the data lies a folder with an authority of the broker's own, its certificate, and the files
by which clients of each kind log in as its one user, who may do everything.  It is not within the
data directory, for Apache Kafka takes no folder there but those of partitions.
"""

from __future__ import annotations

import datetime
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kwire.cli.securing.client_files import MECHANISM, Login, files
from kwire.controller.scram_changes import CredentialChange, Upsertion
from kwire.metadata.credentials import MECHANISMS, credentials_of
from kwire.security.authority import STANDARD
from kwire.security.sasl.scram import MIN_ITERATIONS, salted_password
from kwire.security.tls.making import DevelopmentAuthority, certificates_in, write_secret

if TYPE_CHECKING:
    from kwire.broker import Broker

USER: Final = "admin"
PASSWORD_FILE: Final = "password"
KEYSTORE: Final = "broker.pem"
HOSTS: Final = ("localhost", "127.0.0.1", "::1")
RENEWED_BEFORE: Final = datetime.timedelta(days=30)
LISTENER: Final = "SASL_SSL://localhost"
DEFAULT_PORT: Final = 9092
_OWN: Final = ("listeners", "authorizer.class.name", "super.users", "sasl.enabled.mechanisms")

log = logging.getLogger("kwire.serve")


@dataclass(slots=True)
class Secured:
    """The folder of a secured broker."""

    folder: Path
    has_new_password: bool = False
    """Whether it was drawn just now: then it is the user's, whatever it was before."""

    @classmethod
    def beside(cls, data: str) -> Secured:
        """That of the broker whose (first) log directory is `data`."""
        path = Path(data.partition(",")[0].strip()).absolute()
        return cls(path.with_name(f"{path.name}-secure"))

    def prepare(self) -> dict[str, str]:
        """Have a certificate that holds, and a password; the settings that use them.  OSError."""
        authority = DevelopmentAuthority(self.folder)
        keystore = self.folder / KEYSTORE
        if not keystore.exists() or _ends_soon(keystore):
            authority.broker(keystore.stem, HOSTS)
        password = self.folder / PASSWORD_FILE
        if not password.exists():
            write_secret(password, secrets.token_urlsafe(24).encode())
            self.has_new_password = True
        return {
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "sasl.enabled.mechanisms": MECHANISM,
            "authorizer.class.name": STANDARD,
            "super.users": f"User:{USER}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keystore),
        }

    async def add_user(self, broker: Broker) -> None:
        """Let the user in; who was given another password since keeps that.  Raises StoreError."""
        if credentials_of(broker.image, USER) and not self.has_new_password:
            return
        number = next(key for key, name in MECHANISMS.items() if name == MECHANISM)
        salt = os.urandom(24)
        salted = salted_password(MECHANISM, self._password(), salt, MIN_ITERATIONS)
        upsertion = Upsertion(number, MIN_ITERATIONS, salt, salted)
        await broker.commit([CredentialChange(USER, [upsertion]).decide])

    def write_client_files(self, bootstrap: str) -> None:
        """How clients log in; only their owner may read it."""
        login = Login(bootstrap, self.folder / "ca.pem", USER, self._password())
        for name, content in files(login).items():
            write_secret(self.folder / name, content.encode())
            log.info("%s logs in by %s", USER, self.folder / name)

    def _password(self) -> str:
        return (self.folder / PASSWORD_FILE).read_text().strip()


def secured_settings(
    given: Mapping[str, str], data: str, port: int | None
) -> tuple[Secured, dict[str, str]]:
    """The folder, and all settings of the broker.  Raises UsageError."""
    for name in _OWN:
        if name in given:
            raise click.UsageError(f"--secure sets {name}: leave out --set {name}")
    secured = Secured.beside(data)
    listeners = {"listeners": f"{LISTENER}:{DEFAULT_PORT if port is None else port}"}
    return secured, {**secured.prepare(), **listeners, **given}


def preparing(secured: Secured) -> Callable[[Broker], Awaitable[None]]:
    """What is done before clients are let in."""

    async def prepare(broker: Broker) -> None:
        await secured.add_user(broker)
        address = broker.config.advertised_listeners[0]
        secured.write_client_files(f"{address.host}:{address.port}")

    return prepare


def _ends_soon(keystore: Path) -> bool:
    own = certificates_in(keystore)[0]
    return own.not_valid_after_utc - datetime.datetime.now(datetime.UTC) < RENEWED_BEFORE
