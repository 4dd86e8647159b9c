"""Findings about clocks and timestamps.  No I/O.

No request asks a broker for its time, but some answers contain it:

- The leader of the quorum of controllers reports, in DescribeQuorum, the time of the answer as the
  time at which it had caught up with itself.
- The metrics of a broker of kwire have its time.  Other endpoints may send the HTTP header Date.
- Coordinators write the records of internal topics with the time of their broker.  If the newest
  one is in our future, the clock of that broker is ahead of ours, or was.

The newest timestamp of other topics is the time of a producer.  If it is far in the future, no
retention by time deletes the segment that has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kwire.client.checkup.finding import CheckGrade, ClusterFinding, brokers_text, named
from kwire.client.metrics.scrape import BrokerScrape

SKEW_S: Final = 2.0
"""NTP keeps clocks within some ms; seconds change the order of records by time."""
SKEW_RISK_S: Final = 30.0
"""From so far apart, tokens and certificates may be refused, and retention be visibly wrong."""
FUTURE_S: Final = 3600.0
"""How far ahead of us timestamps of records may be: Kafka's default of
message.timestamp.after.max.ms."""
DAY_S: Final = 86_400.0
TIME: Final = "kwire_time_seconds"
"""The metric with the clock of a broker."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The clock of one broker or controller, relative to this machine's.

    `ahead_s` is its time minus ours, in the middle of the request, which took `taken_s`.
    """

    who: str
    ahead_s: float
    taken_s: float = 0.0


def reading_of(who: str, scraped: BrokerScrape) -> ClockReading | None:
    """The clock of a broker by its metrics, or else by the header Date; None without both."""
    at_s = scraped.total(TIME)
    if at_s is not None:
        return ClockReading(who, at_s - scraped.middle_s, scraped.taken_s)
    if scraped.server_ahead_s is None:
        return None
    # The header has whole seconds, so it is uncertain by half a second each way.
    return ClockReading(who, scraped.server_ahead_s, scraped.taken_s + 1.0)


@dataclass(frozen=True, slots=True)
class NewestRecord:
    """How far the newest timestamp of a partition is ahead of this machine's clock."""

    topic: str
    ahead_s: float
    leader_id: int
    is_internal: bool = False


def clock_findings(
    readings: Sequence[ClockReading], newest: Sequence[NewestRecord]
) -> Iterator[ClusterFinding]:
    """Yield findings about clocks that differ from ours, and about timestamps in the future."""
    for each in readings:
        # Half of the time of the request is uncertain: the answer may be of its start or its end.
        apart_s = abs(each.ahead_s) - each.taken_s / 2
        if apart_s >= SKEW_S:
            yield _skew(each.who, each.ahead_s)
    read = {each.who for each in readings}
    for broker_id, ahead_s in _ahead_by_broker(newest).items():
        who = f"broker {broker_id}"
        if ahead_s >= SKEW_S and who not in read:
            yield _skew(who, ahead_s)
    yield from _future(newest)


def _skew(who: str, ahead_s: float) -> ClusterFinding:
    way = "ahead of" if ahead_s > 0 else "behind"
    return ClusterFinding(
        CheckGrade.RISK if abs(ahead_s) >= SKEW_RISK_S else CheckGrade.NOTE,
        "clock",
        who,
        f"its clock is {duration_text(abs(ahead_s))} {way} this machine's: timestamps of records,"
        " retention by time, and the expiry of tokens depend on it",
        "start a time service on both machines: chronyc tracking, timedatectl set-ntp true",
    )


def _ahead_by_broker(newest: Sequence[NewestRecord]) -> dict[int, float]:
    """By how much the records of a broker's own coordinators are in our future, at most."""
    found: dict[int, float] = {}
    for each in newest:
        if each.is_internal:
            found[each.leader_id] = max(found.get(each.leader_id, each.ahead_s), each.ahead_s)
    return found


def _future(newest: Sequence[NewestRecord]) -> Iterator[ClusterFinding]:
    """Yield a finding about topics with timestamps of the future."""
    ahead_s: dict[str, float] = {}
    for each in newest:
        if not each.is_internal and each.ahead_s >= FUTURE_S:
            ahead_s[each.topic] = max(ahead_s.get(each.topic, 0.0), each.ahead_s)
    if not ahead_s:
        return
    worst = max(ahead_s, key=lambda topic: ahead_s[topic])
    yield ClusterFinding(
        CheckGrade.RISK,
        "future-timestamps",
        named(sorted(ahead_s), "topic"),
        f"the newest timestamp of {worst} is {duration_text(ahead_s[worst])} in the future:"
        " retention by time keeps its segment until then; a producer has a wrong clock, or writes"
        " microseconds instead of milliseconds",
        f"kwire topics alter {worst} --set message.timestamp.after.max.ms=3600000 refuses such"
        " records from now on",
    )


def duration_text(seconds: float) -> str:
    """`2.5 s`, `12 min`, `3.0 h`, `8 days`, `55 years`."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * DAY_S:
        return f"{seconds / 3600:.1f} h"
    if seconds < 730 * DAY_S:
        return f"{seconds / DAY_S:.0f} days"
    return f"{seconds / (365.25 * DAY_S):.0f} years"


def unknown_clocks(
    brokers: Sequence[int], readings: Sequence[ClockReading]
) -> Iterator[ClusterFinding]:
    """Yield one entry about the brokers whose clocks could not be read."""
    read = {each.who for each in readings}
    unknown = [each for each in brokers if f"broker {each}" not in read]
    if unknown:
        yield ClusterFinding(
            CheckGrade.UNCHECKED,
            "clock",
            brokers_text(unknown),
            "no answer has told the time of its clock" if len(unknown) == 1
            else "no answer has told the time of their clocks",
            "kwire serve --metrics PORT has an endpoint that tells it",
        )  # fmt: skip
