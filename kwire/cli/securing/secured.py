"""`kwire serve --secure`: brokers on this machine that require TLS and a password.

A folder next to the data holds an authority, the broker's certificate, and files with which each
kind of client logs in as the user admin, who may do everything.  It is not in the data directory,
where Apache Kafka accepts only folders of partitions.

Several brokers (`--brokers N`) connect to each other at a listener of their own, BROKERS, with
mutual TLS.  Passwords would not work there: they are in the metadata, which a broker can read only
after it has connected.  The principal of the brokers' certificate is `User:CN=broker`; only the
owner of the files can read its key.
"""

from __future__ import annotations

import datetime
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kwire.cli.securing.client_files import MECHANISM, ClientFileLogin, files
from kwire.cluster.decisions.scram_changes import CredentialChange, CredentialUpsertion
from kwire.cluster.metadata.credentials import MECHANISMS, credentials_of
from kwire.security.authority import STANDARD
from kwire.security.sasl.scram import MIN_ITERATIONS, salted_password
from kwire.security.tls.making import (
    AUTHORITY,
    DevelopmentAuthority,
    certificates_in,
    properties_text,
    write_secret,
)

if TYPE_CHECKING:
    from kwire.broker.broker import Broker

USER: Final = "admin"
PASSWORD_FILE: Final = "password"
TOKEN_SECRET_FILE: Final = "delegation-token-secret"
BROKER_FILE: Final = "broker.properties"
KEYSTORE: Final = "broker.pem"
HOSTS: Final = ("localhost", "127.0.0.1", "::1")
RENEWED_BEFORE: Final = datetime.timedelta(days=30)
LISTENER: Final = "SASL_SSL://localhost"
DEFAULT_PORT: Final = 9092
BROKERS: Final = "BROKERS"
"""The listener that brokers use between each other."""
_ENABLED: Final = "SCRAM-SHA-512,SCRAM-SHA-256"
"""Kafka's examples use the second mechanism, and it is the default of `kwire users add` and
`kwire tokens create`."""
OWN: Final = ("listeners", "authorizer.class.name", "super.users", "sasl.enabled.mechanisms")
"""The settings that --secure sets itself."""
OWN_OF_SEVERAL: Final = (
    *OWN,
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
    "listener.security.protocol.map",
)
"""The settings that --secure sets itself with --brokers."""

log = logging.getLogger("kwire.serve")


@dataclass(slots=True)
class Secured:
    """The folder with the secrets of secured brokers."""

    folder: Path
    has_new_password: bool = False
    """Whether the password was just generated, so that the user gets it in place of any other."""

    @classmethod
    def beside(cls, data: str) -> Secured:
        """The folder next to the broker's log directory `data`, the first one of several."""
        path = Path(data.partition(",")[0].strip()).absolute()
        return cls(path.with_name(f"{path.name}-secure"))

    def prepare(self) -> dict[str, str]:
        """Create a valid certificate and a password if needed; returns the settings that use them.

        Raises OSError.
        """
        authority = DevelopmentAuthority(self.folder)
        keystore = self.folder / KEYSTORE
        if not keystore.exists() or _ends_soon(keystore):
            authority.broker(keystore.stem, HOSTS)
        password = self.folder / PASSWORD_FILE
        if not password.exists():
            write_secret(password, secrets.token_urlsafe(24).encode())
            self.has_new_password = True
        token_secret = self.folder / TOKEN_SECRET_FILE
        if not token_secret.exists():
            write_secret(token_secret, secrets.token_urlsafe(48).encode())
        return {
            "sasl.enabled.mechanisms": _ENABLED,
            "authorizer.class.name": STANDARD,
            "super.users": f"User:{USER}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keystore),
            "delegation.token.secret.key": token_secret.read_text().strip(),
        }

    @staticmethod
    def listeners_at(port: int) -> str:
        """`listeners` of one broker of several: clients at this port, brokers at a free port."""
        return f"{LISTENER}:{port},{BROKERS}://localhost:0"

    def write_broker_files(self, settings: Mapping[int, Mapping[str, str]]) -> None:
        """Write the settings of each broker of several to broker-N.properties."""
        (self.folder / BROKER_FILE).unlink(missing_ok=True)  # A single broker has written it.
        for number, of_broker in settings.items():
            self.write_broker_file(f"broker-{number}.properties", of_broker)

    def write_broker_file(self, name: str, settings: Mapping[str, str]) -> None:
        """Write the settings of a broker to a properties file that only its owner can read."""
        write_secret(self.folder / name, properties_text(settings).encode())

    async def add_user(self, broker: Broker) -> None:
        """Add the user admin with the password, unless it has one.  Raises StoreError."""
        if credentials_of(broker.image, USER) and not self.has_new_password:
            return
        number = next(key for key, name in MECHANISMS.items() if name == MECHANISM)
        salt = os.urandom(24)
        salted = salted_password(MECHANISM, self._password(), salt, MIN_ITERATIONS)
        upsertion = CredentialUpsertion(number, MIN_ITERATIONS, salt, salted)
        await broker.membership.commit([CredentialChange(USER, [upsertion]).decide])

    def write_client_files(self, bootstrap: str) -> None:
        """Write the files with which clients log in, which only their owner can read."""
        login = ClientFileLogin(bootstrap, self.folder / AUTHORITY, USER, self._password())
        for name, content in files(login).items():
            write_secret(self.folder / name, content.encode())
            log.info("clients log in as %s with %s", USER, self.folder / name)

    def _password(self) -> str:
        return (self.folder / PASSWORD_FILE).read_text().strip()


def secured_settings(
    given: Mapping[str, str], data: str, port: int | None
) -> tuple[Secured, dict[str, str]]:
    """The folder of secrets and all settings of the broker.  Raises UsageError."""
    refuse_own(given, OWN)
    secured = Secured.beside(data)
    own = {
        "listeners": f"{LISTENER}:{DEFAULT_PORT if port is None else port}",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
    }
    return secured, {**secured.prepare(), **own, **given}


def refuse_own(given: Iterable[str], own: Iterable[str]) -> None:
    """Raise UsageError if a given setting, of all brokers or of one, is one of `own`."""
    for name in given:
        if name.rpartition(":")[2] in own:
            raise click.UsageError(f"--secure sets {name} itself: leave out --set {name}")


def settings_of_several(secured: Secured) -> dict[str, str]:
    """The settings of each broker of a secured cluster, without its `listeners`."""
    wanted = secured.prepare()
    of_brokers = f"listener.name.{BROKERS.lower()}"
    return {
        **wanted,
        "super.users": f"{wanted['super.users']};User:CN={Path(KEYSTORE).stem}",
        "inter.broker.listener.name": BROKERS,
        "listener.security.protocol.map": f"SASL_SSL:SASL_SSL,{BROKERS}:SSL",
        f"{of_brokers}.ssl.client.auth": "required",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.folder / AUTHORITY),
    }


def preparing(secured: Secured) -> Callable[[Broker], Awaitable[None]]:
    """The function that adds the user and writes the client files before clients connect."""

    async def prepare(broker: Broker) -> None:
        await secured.add_user(broker)
        address = broker.config.advertised_listeners[0]
        secured.write_client_files(f"{address.host}:{address.port}")

    return prepare


def _ends_soon(keystore: Path) -> bool:
    own = certificates_in(keystore)[0]
    return own.not_valid_after_utc - datetime.datetime.now(datetime.UTC) < RENEWED_BEFORE
