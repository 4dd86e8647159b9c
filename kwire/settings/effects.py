"""What a setting does on this broker: it acts, is not served yet, or has no meaning here.

The broker accepts every setting of Apache Kafka, so that Kafka's files and tools work.  It reports
a setting without effect at its start, and so do `kwire configs describe` and docs/settings.md.
tests/settings/test_effects.py searches the code that reads each setting, and fails if a
declaration says otherwise.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Effect(NamedTuple):
    """`note` says why a setting does nothing.  It is empty for a setting that acts."""

    note: str = ""

    @property
    def acts(self) -> bool:
        return not self.note


NOT_SERVED: Final = "not served yet"
NO_MEANING: Final = "no meaning here"


def not_served(what: str) -> Effect:
    """The effect of a setting that will act once the broker serves `what`."""
    return Effect(f"{NOT_SERVED}: {what}")


def no_meaning(why: str) -> Effect:
    """The effect of a setting about something that this broker does not have."""
    return Effect(f"{NO_MEANING}: {why}")


ACTS: Final = Effect()

# Not served yet.
CLUSTER: Final = not_served("more than one broker")
METRICS: Final = not_served("metrics")
PROVIDERS: Final = not_served("values from config providers")
QUOTAS: Final = not_served("quotas")
SASL: Final = not_served("SASL")
SHARE_STATE_PRUNING: Final = not_served("pruning of the share state topic")
TIERED_STORAGE: Final = not_served("tiered storage")
TWO_PHASE_COMMIT: Final = not_served("two-phase commit (KIP-939)")

# No meaning here.
ALL_AT_ONCE: Final = no_meaning("all listeners open together, once the broker is ready")
AT_RUN_TIME: Final = no_meaning("it acts if it is set at run time, not in a file")
JAVA: Final = no_meaning("a Java class cannot be loaded")
KEYS_ARE_A_SET: Final = no_meaning("the cleaner keeps keys in a set, without a load factor")
NO_BUFFERS: Final = no_meaning("coordinators keep no buffers")
NO_DEADLINE: Final = no_meaning("the broker's start has no deadline")
NO_MIGRATION: Final = no_meaning("there is no KRaft quorum to migrate to")
NO_LINGER: Final = no_meaning("a coordinator writes its records at once")
NO_PURGING: Final = no_meaning("a delayed request is removed as soon as it is answered")
NO_QUEUE: Final = no_meaning("requests are handled when they are read, without a queue")
NO_QUORUM: Final = no_meaning("it is for KRaft controllers")
ONE_CONNECTION: Final = no_meaning("the number of requests in flight to ZooKeeper is fixed")
ONE_LOOP: Final = no_meaning("one event loop does all the work")
ONE_ASSIGNOR: Final = no_meaning("share groups have one assignor, `simple`")
ONE_INTERVAL: Final = no_meaning("each periodic task first runs one interval after the start")
PYTHON_TLS: Final = no_meaning("Python's TLS decides this, and checks certificates by their chain")
NO_WARMUP: Final = no_meaning("streams groups get no warm-up tasks")
UNKNOWN: Final = no_meaning("there is no setting of this name")
STABLE: Final = no_meaning("no unstable version is served")
