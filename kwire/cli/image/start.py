"""What a start in the container does besides serving: notes, topics, users and scripts."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kwire.cli.declared_state.state import (
    Declared,
    DeclaredTopic,
    DeclaredUser,
    Secret,
    SecretSource,
)
from kwire.cli.image.init_scripts import ScriptFailed, pending, run_scripts
from kwire.cli.image.reading import ImageUser, VariableReading
from kwire.cli.image.settings import adopt_cluster_id, own_address, settings_of
from kwire.cli.image.translating import ignored_sentences, translate
from kwire.cli.image.volumes import check_writable
from kwire.settings.error import ConfigError

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.cli.declared_state.files import Declaration
    from kwire.settings import BrokerConfig

FORMATTED: Final = Path("/etc/kafka/docker/formatted")
"""What the command kafka-storage was given: lines `cluster.id=ID` and `scram=MECHANISM=[...]`."""
RUNNING: Final = (
    "Transitioning from RECOVERY to RUNNING.",
    "[KafkaServer id={id}] started (kafka.server.KafkaServer)",
    "[KafkaRaftServer nodeId={id}] Kafka Server started (kafka.server.KafkaRaftServer)",
)
"""What Apache Kafka logs when it is ready; modules of Testcontainers wait for one of them."""
DECLARED_WITHIN_S: Final = 60.0
"""How long a member of a cluster tries to create its topics: other brokers may still be missing."""
RETRY_S: Final = 1.0

log = logging.getLogger("kwire.image")


class ImageStart:
    """The start of a broker in a container, by its variables."""

    def __init__(self, environ: Mapping[str, str], formatted: Path = FORMATTED) -> None:
        """Reads the variables.  Raises ConfigError."""
        self.reading = translate(environ)
        if formatted.is_file():
            _read_formatted(self.reading, formatted.read_text("utf-8"))
        self.failure = ""
        """Why the broker stops: a script has failed."""
        self._declaration: Declaration | None = None

    def settings(
        self, overrides: Mapping[str, str]
    ) -> tuple[Path | None, dict[str, str], dict[str, str]]:
        """Return file, overrides and environment to load the configuration from.

        Raises ConfigError.
        """
        return settings_of(self.reading, overrides)

    def prepare(self, config: BrokerConfig) -> Declaration | None:
        """Log what has no effect, check the data folder, and name the cluster.

        Returns what has to be applied before clients connect.  Raises ConfigError.
        """
        for sentence in ignored_sentences(self.reading):
            log.info("%s", sentence)
        check_writable(config.log_dirs)
        if self.reading.cluster_id:
            adopt_cluster_id(config.log_dirs, config.node_id, self.reading.cluster_id)
        declaration = declaration_of(self.reading, self.reading.given("KWIRE_APPLY"))
        if not config.is_member:
            return declaration
        if declaration is not None and own_protocol(config) != "PLAINTEXT":
            raise ConfigError(
                "KAFKA_CREATE_TOPICS, KAFKA_CLIENT_USERS and KWIRE_APPLY need a listener with the "
                "protocol PLAINTEXT in a cluster of several: add one, or leave them out and run "
                "kwire apply when the cluster is ready"
            )
        self._declaration = declaration
        return None

    def when_ready(self, broker: Broker, log_ready: Callable[[str], None]) -> None:
        """Say that the broker is ready, at once or when topics of a cluster and scripts are done.

        `log_ready` gets the words of Apache Kafka for which tools wait.
        """
        said = " ".join(text.format(id=broker.node_id) for text in RUNNING)
        log_dir = broker.config.log_dirs[0]
        scripts = pending(log_dir)
        if self._declaration is None and not scripts:
            log_ready(said)
            return
        host, port = own_address(broker.config)

        def work() -> None:
            if self._declaration is not None:
                _declare(f"{host}:{port}", self._declaration)
            try:
                if scripts:
                    run_scripts(scripts, log_dir, f"{host}:{port}")
            except ScriptFailed as problem:
                self.failure = str(problem)
                log.error("%s", problem)
                os.kill(os.getpid(), signal.SIGTERM)
                return
            log_ready(said)

        threading.Thread(target=work, name="image", daemon=True).start()


def own_protocol(config: BrokerConfig) -> str:
    """The security protocol of the listener at which the container reaches its own broker."""
    port = own_address(config)[1]
    return next(each.security_protocol for each in config.listeners if each.port == port)


def declaration_of(reading: VariableReading, file: str) -> Declaration | None:
    """What variables and the file of KWIRE_APPLY declare; None if they declare nothing.

    Raises ConfigError, also if both declare a topic or a user.
    """
    if not (file or reading.topics or reading.users):
        return None
    from kwire.cli.declared_state.document import DeclarationError
    from kwire.cli.declared_state.files import Declaration, load

    declaration = Declaration(Declared(), Path())
    if file:
        try:
            declaration = load(Path(file))
        except OSError as problem:
            raise ConfigError(
                f"KWIRE_APPLY: cannot read {file}: {problem.strerror}. Mount it there"
            ) from None
        except DeclarationError as problem:
            raise ConfigError(f"KWIRE_APPLY: {problem}") from None
    of_file = declaration.declared
    topics = {
        name: DeclaredTopic(topic.partitions, topic.replicas, topic.configs)
        for name, topic in reading.topics.items()
    }
    users = {name: _user(login) for name, login in reading.users.items()}
    for what, mine, theirs in (
        ("topic", topics, of_file.topics),
        ("user", users, of_file.users),
    ):
        for name in set(mine) & set(theirs or {}):
            raise ConfigError(
                f"the {what} {name} is in a variable and in the file of KWIRE_APPLY: leave it out "
                "of one of them"
            )
    declared = dataclasses.replace(
        of_file,
        topics={**topics, **(of_file.topics or {})} if topics else of_file.topics,
        users={**users, **(of_file.users or {})} if users else of_file.users,
    )
    return Declaration(declared, declaration.folder)


def _user(login: ImageUser) -> DeclaredUser:
    return DeclaredUser(
        Secret(SecretSource.TEXT, login.password), dict.fromkeys(login.mechanisms, None)
    )


def _read_formatted(reading: VariableReading, text: str) -> None:
    """Take what `kafka-storage format` was given; CLUSTER_ID wins over its cluster id."""
    import re

    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name == "cluster.id" and not reading.cluster_id:
            reading.identify(value, "kafka-storage format")
        elif name == "scram":
            match = re.fullmatch(r"(SCRAM-SHA-\d+)=\[name=([^,]+),password=(.+)\]", value)
            if match is None:
                raise ConfigError(
                    "kafka-storage format --add-scram: write "
                    "SCRAM-SHA-256=[name=USER,password=PASSWORD]"
                )
            known = reading.users.get(match[2])
            mechanisms = {*(known.mechanisms if known else ()), match[1]}
            reading.users[match[2]] = ImageUser(match[3], tuple(sorted(mechanisms)))


def _declare(bootstrap: str, declaration: Declaration) -> None:
    """Apply the declaration to the cluster that this broker has joined, and log the outcome."""
    from kwire.cli.declared_state.carrying import carry_out, planned
    from kwire.cli.declared_state.words import sign, title
    from kwire.client.cluster import Cluster
    from kwire.client.errors import ClientError

    deadline = time.monotonic() + DECLARED_WITHIN_S
    while True:
        try:
            with Cluster(bootstrap, client_id="kwire-image") as cluster:
                plan = planned(cluster, declaration)
                problems = list(plan.conflicts)
                if not problems:
                    done = carry_out(
                        cluster,
                        plan.changes,
                        declaration.folder,
                        lambda change: log.info("%s %s", sign(change), title(change)),
                    )
                    problems = list(done.failures)
        except ClientError as problem:
            problems = [str(problem)]
        if not problems:
            return
        if time.monotonic() >= deadline:
            log.error(
                "cannot apply what the variables declare: %s. Run kwire apply, or kwire topics "
                "create, when the cluster is complete",
                "; ".join(problems),
            )
            return
        time.sleep(RETRY_S)
