"""What every round is asked: who was answered, with what, and how the broker ended.

`error` in any answer is the name of Kafka's error code, or a client's own words.
`fault` {kind, ...}: the nemesis brings one, from invoke to ok; in its answer `ended` is the status
of a broker that ended without being told to.
`broker_log` {} -> {unhandled: [...]}: lines that a broker may not have logged.
`stop` {} -> {status, clean}: the broker's end after SIGTERM at the end of the round.
`client_fatal` {error}: a client that says that it cannot go on.
`create_topic` {topic}, `init_producer_id` {} -> {producer_id}; `topics` {} -> {topics} at the end.
`kill_member` {member}: a client that nobody hears of again.
`stuck` {what, error}: the faults are over, and the broker does not do this all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import History, Operation

NEVER = frozenset({"UNKNOWN_SERVER_ERROR", "CORRUPT_MESSAGE", "OFFSET_OUT_OF_RANGE", "SILENT"})
"""No fault excuses these: an inner error, damaged bytes, positions that were there and are not, and
no answer on an open connection."""
STARVED = frozenset({"KAFKA_STORAGE_ERROR"})
"""Only a broker without disk or descriptors says that."""
STARVING_FAULTS = frozenset({"descriptors", "disk"})

STARTING_FAULTS = frozenset({"kill", "restart"})
"""They are over once the broker answers again."""


def errors_are_kafkas(history: History) -> Iterator[Violation]:
    """Each fault has the error codes that Kafka has for it, and no others."""
    starved = any(each.asked["kind"] in STARVING_FAULTS for each in history.operations("fault"))
    refused = NEVER if starved else NEVER | STARVED
    starts = [each for each in history.operations("fault") if each.asked["kind"] in STARTING_FAULTS]
    for operation in history.all_operations():
        error = operation.answered.get("error")
        if error == "SILENT" and any(_overlap(operation, start) for start in starts):
            continue  # its kernel takes connections before it serves, which may take long
        if error in refused:
            yield Violation(
                "answer", f"{operation.process}: {operation.f} {operation.asked} gave {error}"
            )


def _overlap(one: Operation, other: Operation) -> bool:
    if one.ended_ns is None or other.ended_ns is None:
        return False
    return one.invoked_ns <= other.ended_ns and other.invoked_ns <= one.ended_ns


def everybody_is_answered(history: History) -> Iterator[Violation]:
    """Once the faults are over, what was begun comes to its end, but for who was killed."""
    killed = {each.asked["member"] for each in history.operations("kill_member")}
    for operation in history.all_operations():
        if operation.ended_ns is None and operation.process not in killed:
            yield Violation("no answer", f"{operation.process}: {operation.f} {operation.asked}")
    for fatal in history.operations("client_fatal"):
        yield Violation("client", f"{fatal.process}: {fatal.asked['error']}")
    for stuck in history.operations("stuck"):
        yield Violation("stuck", f"{stuck.asked['what']}: {stuck.asked['error']}")


def idempotent_records_are_accepted(history: History) -> Iterator[Violation]:
    """A client that may repeat itself until all is well again has no reason to give up."""
    for produce in history.operations("produce"):
        if produce.asked.get("idempotent") and not produce.ok and produce.ended_ns is not None:
            yield Violation(
                "given up",
                f"{produce.process}: {produce.asked['partition']} {produce.asked['number']}:"
                f" {produce.answered.get('error')}",
            )


def the_broker_lives(history: History) -> Iterator[Violation]:
    """It ends when it is told to, cleanly, and logs nothing that it did not expect."""
    for fault in history.operations("fault"):
        if "ended" in fault.answered and not fault.answered.get("may_end"):
            kind, status = fault.asked["kind"], fault.answered["ended"]
            yield Violation("died", f"the broker ended with status {status} under {kind}")
    for look in history.operations("broker_log"):
        for line in look.answered.get("unhandled", ()):
            yield Violation("unhandled", line)
    for stop in history.operations("stop"):
        if not stop.answered.get("clean"):
            yield Violation("stop", f"status {stop.answered.get('status')}")


def topics_and_producer_ids_last(history: History) -> Iterator[Violation]:
    """What a broker keeps besides its logs."""
    given = [each for each in history.operations("init_producer_id") if each.ok]
    ids = [each.answered["producer_id"] for each in given]
    for producer_id in sorted({each for each in ids if ids.count(each) > 1}):
        yield Violation("producer id", f"{producer_id} was given out twice")
    looks = [look for look in history.operations("topics") if look.ok]
    there = {name for look in looks for name in look.answered["topics"]}
    for create in history.operations("create_topic"):
        if looks and create.ok and create.asked["topic"] not in there:
            yield Violation("topic lost", create.asked["topic"])


COMMON_CHECKS = (
    errors_are_kafkas,
    everybody_is_answered,
    idempotent_records_are_accepted,
    the_broker_lives,
    topics_and_producer_ids_last,
)
