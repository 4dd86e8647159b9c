"""Settings of Apache Kafka's own plug-ins, which Kafka's broker does not define itself.

A plug-in gets all settings of its broker and reads its own, so a file for Apache Kafka has both.
Of these plug-ins kwire has only an authorizer (kwire.security).  The rates of replication
throttles are here too: Apache Kafka reads them if they are set at run time, but not from a file.
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
"""The owner of each setting."""

PREFIXES: Final[Mapping[str, str]] = {
    "config.providers.": PROVIDERS,
    "metrics.context.": "Apache Kafka's metrics reporters",
    "rlmm.config.": TIERED_STORAGE,
    "rsm.config.": TIERED_STORAGE,
}
"""The owner of all settings whose names begin with a prefix."""

CHOSEN_PREFIXES: Final = (
    "remote.log.metadata.manager.impl.prefix",
    "remote.log.storage.manager.impl.prefix",
)
"""Settings whose values are further prefixes, in place of `rlmm.config.` and `rsm.config.`."""


def effect_of(owner: str, *, in_file: bool) -> Effect:
    """Return the effect of a plug-in's setting; `in_file` says it is in the broker's file."""
    if owner == AUTHORIZER:
        return ACTS
    if owner == THROTTLING:
        return AT_RUN_TIME if in_file else ACTS
    return no_meaning(f"{owner} does not run in this broker")


def owner_of(name: str, given: Mapping[str, str]) -> str | None:
    """Return the owner of a plug-in's setting, or None if no plug-in has it.

    `given` may hold settings whose values are prefixes.
    """
    if name.startswith("listener.name."):  # listener.name.<listener>.[<SASL mechanism>.]<setting>
        # behind listener.name.<listener>
        parts = name.split(".")[3:]
        return NAMES.get(".".join(parts)) or NAMES.get(".".join(parts[1:]))
    if name in NAMES:
        return NAMES[name]
    for prefix, owner in PREFIXES.items():
        if name.startswith(prefix):
            return owner
    chosen = [given[each].strip() for each in CHOSEN_PREFIXES if each in given]
    return TIERED_STORAGE if any(each and name.startswith(each) for each in chosen) else None
