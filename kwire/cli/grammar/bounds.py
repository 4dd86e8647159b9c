"""The numbers that options take, each as large as what carries it.

A number that no request, clock or certificate can hold is refused where it is read, by the name of
its option, and not where it no longer fits.
"""

from __future__ import annotations

import math
from typing import Any, Final

import click

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

PARTITION: Final = click.IntRange(0, INT32_MAX)
"""The number of a partition, an int32 of Kafka's protocol."""
PARTITION_COUNT: Final = click.IntRange(1, INT32_MAX)
REPLICA_COUNT: Final = click.IntRange(1, INT16_MAX)
"""CreateTopics has an int16 for it."""
BROKER: Final = click.IntRange(0, INT32_MAX)
OFFSET: Final = click.IntRange(0, INT64_MAX)
OFFSET_SHIFT: Final = click.IntRange(-INT64_MAX, INT64_MAX)
COUNT: Final = click.IntRange(0, INT64_MAX)
"""Of records, requests or bytes: no log counts further than its offsets go."""
POSITIVE_COUNT: Final = click.IntRange(1, INT64_MAX)
MILLISECONDS: Final = click.IntRange(0, INT32_MAX)
"""An int32, as the throttle_time_ms of each response: 24 days."""
CERTIFICATE_DAYS: Final = click.IntRange(1, 36_500)
"""A hundred years.  Certificates end by the year 9999, and nobody lives to see one of these."""

PARTITIONS_LISTED_MAX: Final = 1_000_000
"""How many partitions a list like 0-999 may hold.  Clusters of Apache Kafka are tried with a
million in all; here that takes 70 MB."""
DURATION_S_MAX: Final = 1000 * 365 * 86_400
"""A thousand years: in milliseconds it fits an int64, also when it is added to today's time."""
TIMEOUT_S_MAX: Final = INT32_MAX // 1000
"""Requests carry the timeout in milliseconds, in an int32: 24 days."""


class Finite(click.FloatRange):
    """A number with a fraction.  `nan` is within every range by comparison, and no number."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - a text, or a default
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


TIMEOUT_S: Final = Finite(0.1, TIMEOUT_S_MAX)
PAUSE_S: Final = Finite(0, TIMEOUT_S_MAX)
SHARE: Final = Finite(0, 1)
"""A part of a whole."""
RATIO_MAX: Final = 1e9
"""How many times faster, larger: by more there is nothing to compare."""

LISTED_COUNT: Final = click.IntRange(0, 100_000)
"""Examples that a report holds in memory and shows a person."""
SAMPLE_COUNT: Final = click.IntRange(1, 100_000)
"""Offsets that are asked for one by one."""
MESSAGE_BYTES: Final = click.IntRange(0, INT32_MAX)
"""The size of a message, an int32 before each."""
