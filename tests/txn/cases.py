"""Cases: each state of a transactional id, each request, each relation of producer and epoch.

Each case writes the state of a transactional id of its own to the log as a record, then sends one
request.  answers.txt has Apache Kafka's answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kwire.conformance.txn_script import TransactionScript, TransactionTarget
from kwire.txn.records import TransactionRecord
from kwire.txn.transaction import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    IDLE,
    LAST_EPOCH_OF_CLIENTS,
    MAX_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    Transaction,
    TransactionState,
)

TIMEOUT_MS = 600_000
GROUP_ID = "d"  # its partition of __consumer_offsets is 0
EPOCH = 3
FIRST_PRODUCER_ID = 1_000_000_000
"""Far from the ids that a broker gives."""


class Standing(NamedTuple):
    """How a transactional id stands when it is asked."""

    name: str
    state: TransactionState | None
    version: int = 0
    epoch: int = EPOCH
    rotates: bool = False
    """It is about to get another producer id, or has just got it."""

    def transaction(self, number: int, now_ms: int) -> Transaction | None:
        """Of the case with this number: no two have a producer id in common."""
        if self.state is None:
            return None
        own = FIRST_PRODUCER_ID + number * 10
        partitions = NO_PARTITIONS
        if self.state not in IDLE:
            partitions = {"far" if self.state in PREPARED else "t": frozenset({0})}
        prepares = self.rotates and self.state in PREPARED
        return Transaction(
            producer_id=own,
            producer_epoch=self.epoch,
            timeout_ms=TIMEOUT_MS,
            state=self.state,
            last_update_timestamp_ms=now_ms,
            partitions=partitions,
            start_timestamp_ms=NO_TIMESTAMP if self.state is EMPTY else now_ms,
            client_transaction_version=self.version,
            previous_producer_id=own + 1 if self.rotates and not prepares else own,
            next_producer_id=own + 2 if prepares else NO_PRODUCER_ID,
        )


STANDINGS = [
    Standing("unknown", None),
    Standing("empty", EMPTY),
    Standing("empty-2", EMPTY, 2),
    Standing("empty-last", EMPTY, 2, LAST_EPOCH_OF_CLIENTS),
    Standing("ongoing", ONGOING),
    Standing("ongoing-2", ONGOING, 2),
    Standing("ongoing-2-first", ONGOING, 2, 0),
    Standing("ongoing-last", ONGOING, 0, LAST_EPOCH_OF_CLIENTS),
    Standing("ongoing-2-last", ONGOING, 2, LAST_EPOCH_OF_CLIENTS),
    Standing("committing", PREPARE_COMMIT),
    Standing("committing-2", PREPARE_COMMIT, 2),
    Standing("committing-2-rotates", PREPARE_COMMIT, 2, MAX_EPOCH, rotates=True),
    Standing("aborting", PREPARE_ABORT),
    Standing("aborting-2", PREPARE_ABORT, 2),
    Standing("committed", COMPLETE_COMMIT),
    Standing("committed-2", COMPLETE_COMMIT, 2),
    Standing("committed-2-rotated", COMPLETE_COMMIT, 2, 0, rotates=True),
    Standing("committed-last", COMPLETE_COMMIT, 0, LAST_EPOCH_OF_CLIENTS),
    Standing("aborted", COMPLETE_ABORT),
    Standing("aborted-2", COMPLETE_ABORT, 2),
    Standing("aborted-2-rotated", COMPLETE_ABORT, 2, 0, rotates=True),
    Standing("aborted-2-last", COMPLETE_ABORT, 2, LAST_EPOCH_OF_CLIENTS),
]


class Case(NamedTuple):
    standing: Standing
    line: str

    def __str__(self) -> str:
        return f"{self.standing.name}: {self.line}"

    def answer(self, number: int, transactional_id: str, target: TransactionTarget) -> str:
        """What the request is told, and how the id stands then."""
        script = TransactionScript(target, transactional_id)
        own = FIRST_PRODUCER_ID + number * 10
        for place, name in enumerate(("own", "before", "next")):
            script.name_producer(name, own + place)
        (told,) = script.run(self.line)
        (after,) = script.run("describe")
        return f"{told or '-'}; {after.replace(f' timeout={TIMEOUT_MS}', '')}"


def relations(standing: Standing) -> Iterator[str]:
    """Who asks: the id's own producer, in its epoch or another, or someone else."""
    epochs = [standing.epoch, standing.epoch - 1, standing.epoch + 1]
    for epoch in (epoch for epoch in epochs if 0 <= epoch <= MAX_EPOCH):
        yield f"producer=own epoch={epoch}"
    yield f"producer=before epoch={standing.epoch}"
    if standing.rotates or standing.epoch == 0:
        yield f"producer=before epoch={LAST_EPOCH_OF_CLIENTS}"
        yield f"producer=own epoch={LAST_EPOCH_OF_CLIENTS}"
        yield f"producer=next epoch={standing.epoch}"


def lines(standing: Standing) -> Iterator[str]:
    """Versions are those with which something changes."""
    yield from (f"init a v={version}" for version in (0, 5))
    yield "init a timeout=0"
    yield "init a timeout=900001"
    yield from (f"init a producer={who}" for who in ("own epoch=-1", "-1 epoch=3", "-1 epoch=-1"))
    for relation in relations(standing):
        yield from (f"init a v={version} {relation}" for version in (3, 4))
        yield from (f"offsets a {GROUP_ID} v={version} {relation}" for version in (1, 2, 4))
        for places in ("t:0", "t:1", "t:0 t:1"):
            yield f"verify a {places} v=4 {relation}"
        for version in (1, 2, 3, 4, 5):
            yield f"add a t:1 v={version} {relation}"
        yield f"add a t:0 v=4 {relation}"
        for version in (1, 2, 4, 5):
            yield f"commit a v={version} {relation}"
            yield f"abort a v={version} {relation}"


CASES = [Case(standing, line) for standing in STANDINGS for line in lines(standing)]


def records(prefix: str, now_ms: int) -> Iterator[TransactionRecord]:
    """What has to be in the log before the cases are asked."""
    for number, case in enumerate(CASES):
        transaction = case.standing.transaction(number, now_ms)
        if transaction is not None:
            yield TransactionRecord(f"{prefix}{number}", transaction)
