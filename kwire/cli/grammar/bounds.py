"""The ranges of numeric options, as large as the fields that carry the numbers.

A number that does not fit into a request, a clock or a certificate is refused when the option is
parsed, so that the error message names the option.
"""

from __future__ import annotations

import math
from typing import Any, Final

import click

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

PARTITION: Final = click.IntRange(0, INT32_MAX)
"""The number of a partition, an int32 in Kafka's protocol."""
PARTITION_COUNT: Final = click.IntRange(1, INT32_MAX)
REPLICA_COUNT: Final = click.IntRange(1, INT16_MAX)
"""The number of replicas, an int16 in CreateTopics."""
BROKER: Final = click.IntRange(0, INT32_MAX)
OFFSET: Final = click.IntRange(0, INT64_MAX)
OFFSET_SHIFT: Final = click.IntRange(-INT64_MAX, INT64_MAX)
COUNT: Final = click.IntRange(0, INT64_MAX)
"""A number of records, requests or bytes, in the range of offsets."""
POSITIVE_COUNT: Final = click.IntRange(1, INT64_MAX)
MILLISECONDS: Final = click.IntRange(0, INT32_MAX)
"""A time in ms, an int32 as throttle_time_ms of responses: up to 24 days."""
CERTIFICATE_DAYS: Final = click.IntRange(1, 36_500)
"""The validity of a certificate, up to a hundred years.  Certificates cannot end after 9999."""

PARTITIONS_LISTED_MAX: Final = 1_000_000
"""The most partitions that a list like 0-999 may name.  Apache Kafka is tested with a million per
cluster; a list of so many takes 70 MB here."""
DURATION_S_MAX: Final = 1000 * 365 * 86_400
"""A thousand years.  In ms, this plus the time of today fits an int64."""
TIMEOUT_S_MAX: Final = INT32_MAX // 1000
"""24 days.  Requests carry the timeout in ms as an int32."""


class Finite(click.FloatRange):
    """A finite number in a range.  click itself accepts `nan`, which no comparison excludes."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - a text, or a default
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Converts an option to a number, and refuses nan and inf, which float() accepts."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


TIMEOUT_S: Final = Finite(0.1, TIMEOUT_S_MAX)
PAUSE_S: Final = Finite(0, TIMEOUT_S_MAX)
SHARE: Final = Finite(0, 1)
"""A part of a whole."""
RATIO_MAX: Final = 1e9
"""The largest factor between two sizes or speeds."""

LISTED_COUNT: Final = click.IntRange(0, 100_000)
"""The number of examples in a report, which holds them in memory."""
SAMPLE_COUNT: Final = click.IntRange(1, 100_000)
"""The number of offsets that are requested one by one."""
MESSAGE_BYTES: Final = click.IntRange(0, INT32_MAX)
"""The size of a message, an int32 in the frame."""
