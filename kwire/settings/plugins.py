"""Settings that no broker defines: those of Apache Kafka's own pluggable classes.

A class is handed all settings of its broker and looks for its own, so a file written for Apache
Kafka has them beside the broker's.  Of these classes only the
authorizer has its like here (kwire.security).  Replication throttles are no
broker's either: Apache Kafka reads them where they are set at run time, and not in a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kwire.settings.effects import ACTS, AT_RUN_TIME, Effect, no_meaning

AUTHORIZER = "Apache Kafka's StandardAuthorizer"
JMX = "Apache Kafka's JmxReporter"
OAUTH = "Apache Kafka's client of an OAuth server"
THROTTLING = "replication throttles, which act when they are set at run time"
TIERED_STORAGE = "tiered storage"
PROVIDERS = "Apache Kafka's config providers"

NAMES: Final[Mapping[str, str]] = {
    "super.users": AUTHORIZER,
    "allow.everyone.if.no.acl.found": AUTHORIZER,
    "metrics.jmx.include": JMX,
    "metrics.jmx.exclude": JMX,
    "sasl.oauthbearer.header.urlencode": OAUTH,
    "leader.replication.throttled.rate": THROTTLING,
    "follower.replication.throttled.rate": THROTTLING,
    "replica.alter.log.dirs.io.max.bytes.per.second": THROTTLING,
}
"""Each with whose it is."""

PREFIXES: Final[Mapping[str, str]] = {
    "config.providers.": PROVIDERS,
    "metrics.context.": "Apache Kafka's metrics reporters",
    "rlmm.config.": TIERED_STORAGE,
    "rsm.config.": TIERED_STORAGE,
}
"""What any name may follow."""

CHOSEN_PREFIXES: Final = (
    "remote.log.metadata.manager.impl.prefix",
    "remote.log.storage.manager.impl.prefix",
)
"""Settings whose values are prefixes too, instead of `rlmm.config.` and `rsm.config.`."""


def effect_of(owner: str, *, in_file: bool) -> Effect:
    if owner == AUTHORIZER:
        return ACTS
    if owner == THROTTLING:
        return AT_RUN_TIME if in_file else ACTS
    return no_meaning(f"{owner} does not run in this broker")


def owner_of(name: str, given: Mapping[str, str]) -> str | None:
    """Whose setting it is, beside the other settings that are given; None if it is nobody's."""
    if name.startswith("listener.name."):  # listener.name.<listener>.[<SASL mechanism>.]<setting>
        parts = name.split(".")[3:]
        return NAMES.get(".".join(parts)) or NAMES.get(".".join(parts[1:]))
    if name in NAMES:
        return NAMES[name]
    for prefix, owner in PREFIXES.items():
        if name.startswith(prefix):
            return owner
    chosen = [given[each].strip() for each in CHOSEN_PREFIXES if each in given]
    return TIERED_STORAGE if any(each and name.startswith(each) for each in chosen) else None
