"""Streaming SQL over topics, with results in a topic, in Parquet files or passed to a function.

Each topic in the SQL is a view of the same name.  Its columns are the fields of the values, and
`_key`, `_partition`, `_offset`, `_timestamp` and `_headers` of the record.
"""

from __future__ import annotations

from kwire.pipeline.querying.query_settings import (
    FORMATS,
    MODES,
    Form,
    Query,
    SchemaRegistry,
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
    "SchemaRegistry",
    "ToFunction",
    "ToParquet",
    "ToTopic",
    "View",
    "frame",
    "query",
]
