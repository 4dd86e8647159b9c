"""Replaces Spark's errors about a query by sentences that say what to do."""

from __future__ import annotations

import re

from kwire.pipeline.errors import sentence_of

WATERMARK = "give a stream a watermark (TOPIC.COLUMN and how late rows may come)"
MENDS: tuple[tuple[str, str], ...] = (
    (
        r"NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING|Non-time-based windows",
        "OVER (...) ranks rows among each other, which a stream does not end: group by"
        " window(COLUMN, '10 minutes') instead",
    ),
    (
        r"Sorting is not supported",
        "a stream has no last row to sort before: leave ORDER BY out, or sort groups in mode"
        " complete",
    ),
    (
        r"[Ll]imit.*not supported|LIMIT",
        "a stream's first rows change with each batch: leave LIMIT out, or limit groups in mode"
        " complete",
    ),
    (
        r"Distinct aggregations are not supported",
        "count(DISTINCT x) would keep every x: take approx_count_distinct(x)",
    ),
    (
        r"join.*(without a watermark|watermark in the join keys|event-time|not supported)"
        r"|LeftOuter|RightOuter|FullOuter|Stream-stream",
        "two streams are joined by an equality and a range of time, each with a watermark; or read"
        " one of them as a table",
    ),
    (
        r"does not support (Update|Complete) output mode|OUTPUT_MODE.UNSUPPORTED_DATASOURCE",
        f"files only grow: {WATERMARK} and group by a window of it, so that groups end",
    ),
    (
        r"streaming aggregations without watermark|aggregation.*watermark",
        f"groups that never end cannot be appended: {WATERMARK} and group by a window of it, or"
        " take mode update or complete",
    ),
    (
        r"no streaming aggregations",
        "mode complete shows all groups each time, and this query has none: take mode append",
    ),
    (
        r"[Mm]ultiple streaming aggregations|stateful operator.*watermark",
        f"an aggregation over an aggregation needs mode append: {WATERMARK}",
    ),
)
"""(what Spark's message has, what to do), the first that fits."""


INSTEAD: tuple[tuple[str, str], ...] = (
    (
        r"UnknownTopicOrPartition",
        "there is no such topic (`kwire topics list` names those there are)",
    ),
    (
        r"OffsetOutOfRange|Some data may have been lost|KAFKA_DATA_LOSS",
        "records were deleted before they were read: begin anew with another checkpoint",
    ),
)
"""(what Spark's message has, what is said instead of it), the first that fits."""


def told(error: BaseException) -> str:
    """Spark's sentence, and the mend where one is known."""
    text = str(error)
    for pattern, instead in INSTEAD:
        if re.search(pattern, text):
            return instead
    sentence = sentence_of(error)
    for pattern, mend in MENDS:
        if re.search(pattern, text):
            return f"{sentence.rstrip('.')}: {mend}"
    return sentence
