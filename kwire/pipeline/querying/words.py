"""Replaces Spark's errors about a query by sentences that say what to do."""

from __future__ import annotations

import re

from kwire.pipeline.errors import sentence_of

WATERMARK = "give a stream a watermark (TOPIC.COLUMN and how late rows may come)"
ADVICE: tuple[tuple[str, str], ...] = (
    (
        r"NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING|Non-time-based windows",
        "OVER (...) ranks all rows, and a stream has no end: group by"
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
"""(pattern of Spark's message, what to do); the first match counts."""


INSTEAD: tuple[tuple[str, str], ...] = (
    (
        r"UnknownTopicOrPartition",
        "the topic does not exist (`kwire topics list` shows all topics)",
    ),
    (
        r"OffsetOutOfRange|Some data may have been lost|KAFKA_DATA_LOSS",
        "records were deleted before they were read: start again with another checkpoint",
    ),
)
"""(pattern of Spark's message, sentence that replaces it); the first match counts."""


def explanation_of(error: BaseException) -> str:
    """Spark's sentence with advice, or a sentence that replaces it."""
    text = str(error)
    for pattern, instead in INSTEAD:
        if re.search(pattern, text):
            return instead
    sentence = sentence_of(error)
    for pattern, advice in ADVICE:
        if re.search(pattern, text):
            return f"{sentence.rstrip('.')}: {advice}"
    return sentence
