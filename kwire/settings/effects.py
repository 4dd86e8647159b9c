"""What a setting does on this broker: it acts, is not served yet, or has no meaning here.

Every setting of Apache Kafka is taken, so that its files and tools work.  Whoever gives one that
does nothing is told: at the start, by `kwire configs describe`, and in docs/settings.md.
tests/settings/test_effects.py looks for the code that reads each, and fails where a declaration
says otherwise.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Effect(NamedTuple):
    """`note` says why a setting does nothing; it is empty for one that acts."""

    note: str = ""

    @property
    def acts(self) -> bool:
        return not self.note


NOT_SERVED: Final = "not served yet"
NO_MEANING: Final = "no meaning here"


def not_served(what: str) -> Effect:
    """It acts once `what` is served."""
    return Effect(f"{NOT_SERVED}: {what}")


def no_meaning(why: str) -> Effect:
    """What it is about does not exist in this broker."""
    return Effect(f"{NO_MEANING}: {why}")


ACTS: Final = Effect()

# Not served yet.
CLUSTER: Final = not_served("more than one broker")
CORDONED: Final = not_served("cordoned log directories (KIP-1066)")
METRICS: Final = not_served("metrics")
PROVIDERS: Final = not_served("values from config providers")
QUOTAS: Final = not_served("quotas")
SASL: Final = not_served("SASL")
SHARE_STATE_PRUNING: Final = not_served("a shorter topic of share state")
TIERED_STORAGE: Final = not_served("tiered storage")
TWO_PHASE_COMMIT: Final = not_served("two-phase commit (KIP-939)")

# No meaning here.
ALL_AT_ONCE: Final = no_meaning("every listener is opened once everything is ready")
AT_RUN_TIME: Final = no_meaning("it acts when it is set at run time, not from a file")
JAVA: Final = no_meaning("a Java class cannot be loaded")
KEYS_ARE_A_SET: Final = no_meaning("the cleaner's keys are a set")
NO_BUFFERS: Final = no_meaning("coordinators keep no buffers")
NO_DEADLINE: Final = no_meaning("a start is not given up")
NO_MIGRATION: Final = no_meaning("there is no KRaft quorum to migrate to")
NO_LINGER: Final = no_meaning("a coordinator's records are written at once")
NO_PURGING: Final = no_meaning("what waits is let go of as soon as it is answered")
NO_QUEUE: Final = no_meaning("a request is answered as it is read")
NO_QUORUM: Final = no_meaning("there is no KRaft quorum")
ONE_CONNECTION: Final = no_meaning("what is asked of ZooKeeper at once has a bound of its own")
ONE_LOOP: Final = no_meaning("one event loop does all the work")
ONE_ASSIGNOR: Final = no_meaning("share groups have one assignor, `simple`")
ONE_INTERVAL: Final = no_meaning("each task's first round comes one interval after the start")
PYTHON_TLS: Final = no_meaning("Python's TLS chooses, and checks certificates by their chain")
UNKNOWN: Final = no_meaning("nobody knows this name")
STABLE: Final = no_meaning("nothing unstable is served")
