"""The last rebalances of groups, as the endpoints of kwire's brokers tell them in `/slow`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class LastRebalance(NamedTuple):
    """The begin of the last rebalance of a group, and why it began."""

    at_ms: int
    reason: str


def last_rebalances(answers: Iterable[Mapping[str, Any]]) -> dict[str, LastRebalance]:
    """The last rebalance of each group, by group, from the answers of brokers to `/slow`.

    A group that got another coordinator may be known to several brokers.  Raises KeyError,
    TypeError or ValueError if an answer is not that of a broker of kwire.
    """
    found: dict[str, LastRebalance] = {}
    for answer in answers:
        for each in answer.get("rebalances", ()):
            own = LastRebalance(int(each["at_ms"]), str(each["reason"]))
            known = found.get(each["group_id"])
            if known is None or known.at_ms < own.at_ms:
                found[str(each["group_id"])] = own
    return found
