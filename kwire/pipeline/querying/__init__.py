"""Streaming SQL over topics: to topics, to Parquet, or to a function of the caller.

Each topic that the SQL names is a view of its name: the fields of its values, and of each record
`_key`, `_partition`, `_offset`, `_timestamp` and `_headers`.
"""

from __future__ import annotations

from kwire.pipeline.querying.query_settings import (
    FORMATS,
    MODES,
    Form,
    Query,
    ToFunction,
    ToParquet,
    ToTopic,
    View,
)
from kwire.pipeline.querying.running import Running, frame, query

__all__ = [
    "FORMATS",
    "MODES",
    "Form",
    "Query",
    "Running",
    "ToFunction",
    "ToParquet",
    "ToTopic",
    "View",
    "frame",
    "query",
]
