"""Checks for every round: the errors in answers, operations without an end, the broker's exit.

They read these operations:

`error` in any result is the name of Kafka's error code, or a client's own text. `fault` {kind,
...}: an injected fault, from its begin to its end; `ended` in its result is the exit status of a
broker that ended by itself. `broker_log` {} -> {unhandled: [...]}: lines of the broker's log that
must not occur. `stop` {} -> {status, clean}: the broker's end after SIGTERM at the end of the
round. `client_fatal` {error}: a client reports an error after which it cannot go on. `create_topic`
{topic}, `init_producer_id` {} -> {producer_id}; `topics` {} -> {topics} at the end. `kill_member`
{member}: a client that was killed. `stuck` {what, error}: something that the broker does not do
although the faults are over.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import History, HistoryOperation

NEVER = frozenset({"UNKNOWN_SERVER_ERROR", "CORRUPT_MESSAGE", "OFFSET_OUT_OF_RANGE", "SILENT"})
"""Errors that no fault explains: an internal error, damaged bytes, an offset that is gone, and
no response on an open connection."""
STARVED = frozenset({"KAFKA_STORAGE_ERROR"})
"""Errors of a broker without disk space or descriptors only."""
STARVING_FAULTS = frozenset({"descriptors", "disk"})

STARTING_FAULTS = frozenset(
    {"kill", "restart", "controller kill", "controller pause", "controllers kill"}
)
"""Faults that are over once the broker answers again.

Without a controller, a broker keeps a request that it forwards for longer than clients wait.
"""


def errors_are_kafkas(history: History) -> Iterator[Violation]:
    """Check that each fault causes only the error codes that it causes in Apache Kafka."""
    starved = any(each.arguments["kind"] in STARVING_FAULTS for each in history.operations("fault"))
    refused = NEVER if starved else NEVER | STARVED
    starts = [
        fault for fault in history.operations("fault") if fault.arguments["kind"] in STARTING_FAULTS
    ]
    for operation in history.all_operations():
        error = operation.result.get("error")
        if error == "SILENT" and any(_overlap(operation, start) for start in starts):
            continue  # the kernel accepts connections before the broker serves, which may take long
        if error in refused:
            yield Violation(
                "answer", f"{operation.process}: {operation.f} {operation.arguments} gave {error}"
            )


def _overlap(one: HistoryOperation, other: HistoryOperation) -> bool:
    if one.ended_ns is None or other.ended_ns is None:
        return False
    return one.invoked_ns <= other.ended_ns and other.invoked_ns <= one.ended_ns


def everybody_is_answered(history: History) -> Iterator[Violation]:
    """Check that every operation ends when the faults are over, except those of killed clients."""
    killed = {each.arguments["member"] for each in history.operations("kill_member")}
    for operation in history.all_operations():
        if operation.ended_ns is None and operation.process not in killed:
            yield Violation(
                "no answer", f"{operation.process}: {operation.f} {operation.arguments}"
            )
    for fatal in history.operations("client_fatal"):
        yield Violation("client", f"{fatal.process}: {fatal.arguments['error']}")
    for stuck in history.operations("stuck"):
        yield Violation("stuck", f"{stuck.arguments['what']}: {stuck.arguments['error']}")


def idempotent_records_are_accepted(history: History) -> Iterator[Violation]:
    """Check that no idempotent producer fails if it may retry until the faults are over."""
    for produce in history.operations("produce"):
        if produce.arguments.get("idempotent") and not produce.ok and produce.ended_ns is not None:
            yield Violation(
                "given up",
                f"{produce.process}: {produce.arguments['partition']}"
                f" {produce.arguments['number']}: {produce.result.get('error')}",
            )


def the_broker_lives(history: History) -> Iterator[Violation]:
    """Check that the broker ends only when it is stopped, cleanly, and logs no unexpected error."""
    for fault in history.operations("fault"):
        if "ended" in fault.result and not fault.result.get("may_end"):
            kind, status = fault.arguments["kind"], fault.result["ended"]
            yield Violation("died", f"the broker ended with status {status} under {kind}")
    for look in history.operations("broker_log"):
        for line in look.result.get("unhandled", ()):
            yield Violation("unhandled", line)
    for stop in history.operations("stop"):
        if not stop.result.get("clean"):
            yield Violation("stop", f"status {stop.result.get('status')}")


def topics_and_producer_ids_last(history: History) -> Iterator[Violation]:
    """Check that topics remain, and no producer id is given out twice."""
    inits = [init for init in history.operations("init_producer_id") if init.ok]
    ids = [init.result["producer_id"] for init in inits]
    for producer_id in sorted({number for number in ids if ids.count(number) > 1}):
        yield Violation("producer id", f"{producer_id} was given out twice")
    looks = [look for look in history.operations("topics") if look.ok]
    existing = {name for look in looks for name in look.result["topics"]}
    for create in history.operations("create_topic"):
        if looks and create.ok and create.arguments["topic"] not in existing:
            yield Violation("topic lost", create.arguments["topic"])


COMMON_CHECKS = (
    errors_are_kafkas,
    everybody_is_answered,
    idempotent_records_are_accepted,
    the_broker_lives,
    topics_and_producer_ids_last,
)
