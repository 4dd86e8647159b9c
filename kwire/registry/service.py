"""One instance of the registry: its topic, its part in elections, and how a change is made."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from kwire.client.cluster import Cluster
from kwire.registry.primary import GROUP_DEFAULT, InstanceIdentity, PrimaryElection
from kwire.registry.subjects.changing import max_ids_write
from kwire.registry.subjects.errors import RegistryError, store_failed
from kwire.registry.subjects.proposals import Compare, Parse, Schemas
from kwire.registry.subjects.records import Write
from kwire.registry.topic import TOPIC_DEFAULT, Contradicted, RegistryTopic

T = TypeVar("T")

ATTEMPTS_MAX: Final = 5
"""How often a change is decided anew, because another instance wrote before."""
STOP_S: Final = 3.0
"""How long the instance has to leave its group."""
CHANGED_S: Final = 1.0

log = logging.getLogger("kwire.registry")


class NotPrimary(Exception):
    """This instance is not the primary now."""


@dataclass(frozen=True)
class RegistrySettings:
    """What the instances of one registry have in common."""

    topic: str = TOPIC_DEFAULT
    group_id: str = GROUP_DEFAULT


class RegistryService:
    """An instance of the registry."""

    def __init__(
        self,
        connect: Callable[[], Cluster],
        identity: InstanceIdentity,
        parse: Parse,
        compare: Compare,
        settings: RegistrySettings | None = None,
    ) -> None:
        """`connect` makes a Cluster for one thread.  Nothing is sent yet."""
        self.settings = settings or RegistrySettings()
        self.topic = RegistryTopic(connect, self.settings.topic)
        self.registry = self.topic.registry
        self.schemas = Schemas(self.registry, parse, compare)
        self.election = PrimaryElection(
            connect, self.settings.group_id, identity, before_join=self._end_of_writes
        )
        self.cluster_id: str | None = None
        self._connect = connect
        self._write_lock = threading.Lock()
        self._prepared_for = 0
        """The generation of the election for which this primary is prepared."""
        self._threads: list[threading.Thread] = []
        self._stopped = threading.Event()

    def start(self) -> None:
        """Load the topic, and start to follow it and to take part in elections.

        Raises ClientError if the topic cannot be loaded.
        """
        with self._connect() as cluster:
            cluster.refresh([])
            self.cluster_id = cluster.cluster_id
        self.topic.load()
        for name, work in (
            ("registry-topic", self.topic.follow),
            ("registry-election", self.election.run),
            ("registry-primary", self._prepare_often),
        ):
            thread = threading.Thread(target=work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Leave the group, so that another instance takes over at once, and end the threads."""
        self._stopped.set()
        self.election.stop()
        self.topic.stop()
        for thread in self._threads:
            thread.join(STOP_S)

    def change(self, decide: Callable[[], tuple[T, list[Write]]]) -> T:
        """Make a change: `decide` returns the answer, and the records to write.

        It is called again if another instance wrote before.  Returns when the records are applied.
        Raises NotPrimary, and RegistryError, also that of `decide`.
        """
        with self._write_lock:
            self._prepare()
            for _ in range(ATTEMPTS_MAX):
                with self.topic.lock:
                    answer, writes = decide()
                if not writes:
                    return answer
                try:
                    self._write(writes)
                except Contradicted:
                    self._repair()
                    continue
                return answer
            raise store_failed("other instances of the registry write at the same time")

    def peek(self, decide: Callable[[], tuple[T, list[Write]]]) -> T | None:
        """The answer of a decision that changes nothing; None if it would, or if it is refused."""
        try:
            with self.topic.lock:
                answer, writes = decide()
        except RegistryError:
            return None  # the primary knows better
        return None if writes else answer

    def _write(self, writes: list[Write]) -> None:
        """Write records as the primary."""
        if not self.election.is_primary:
            raise NotPrimary
        try:
            self.topic.write(writes)
        except RegistryError:
            # The records may be in the topic, or come later: read it before the next decision.
            self._prepared_for = 0
            raise

    def _prepare(self) -> None:
        """Be up to date as the primary: all that was written before is applied.

        The record that is written has the highest ids.  When it is applied, so are all before it,
        also those of an earlier primary that were not replicated yet.
        """
        if not self.election.is_primary:
            raise NotPrimary
        generation = self.election.generation
        if generation != self._prepared_for:
            self.topic.catch_up()
            max_ids: dict[str, int] | None = None
            while max_ids != self.registry.max_ids():
                max_ids = self.registry.max_ids()
                self._write([max_ids_write(self.registry)])
            self._prepared_for = generation
        if self.registry.repairs:
            self._repair()

    def _repair(self) -> None:
        """Write again what rejected records have replaced."""
        with self.topic.lock:
            repairs = list(self.registry.repairs.items())
        if not repairs:
            return
        log.warning("writing %d versions again that another instance replaced", len(repairs))
        self._write([Write(key, None if old is None else old.value()) for key, old in repairs])

    def _prepare_often(self) -> None:
        """Prepare soon after each election that this instance wins, and repair soon."""
        while not self._stopped.is_set():
            is_prepared = self.election.generation == self._prepared_for
            if self.election.is_primary and (not is_prepared or self.registry.repairs):
                try:
                    with self._write_lock:
                        self._prepare()
                except (NotPrimary, Contradicted):
                    log.info("another instance took over")
                except RegistryError as error:
                    log.warning("cannot begin as the primary: %s; trying again", error)
            self.election.await_change(CHANGED_S)

    def _end_of_writes(self) -> None:
        """Wait for the write that is under way, before another election."""
        with self._write_lock:
            self._prepared_for = 0
