"""Legal topic names, and the broker's internal topics (Kafka's class `Topic`)."""

from __future__ import annotations

import re

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
TELEMETRY_TOPIC = "__client_telemetry"
"""Metrics that clients push (KIP-714); Apache Kafka needs a plug-in for them."""

INTERNAL_TOPICS = frozenset(
    {GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC}
)
"""Topics with the state of coordinators: clients can read but not change them."""

NAME_SIZE_MAX = 249
"""A partition's folder is named after the topic, `-`, its index, and up to `.<32 hex>-delete`."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def why_invalid(name: str) -> str | None:
    """Kafka's error message for an invalid topic name; None if the name is valid."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > NAME_SIZE_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {NAME_SIZE_MAX}"
    elif _LEGAL.fullmatch(name) is None:
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_'"
            " and '-'"
        )
    else:
        return None
    return f"Topic name is invalid: {reason}"
