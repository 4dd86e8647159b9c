"""Spark jobs that archive, mirror, replay, query and audit topics; also the command kwire pipeline.

Every job works with any Kafka cluster, through Spark's built-in source and sink, and with any Spark
master.  The functions take the caller's SparkSession and return Spark's own objects, so that a
program can use all of Spark with them; `session` makes a session if the program has none.

    from kwire import pipeline

    with pipeline.session("orders") as spark:
        pipeline.follow(pipeline.archive(spark, pipeline.Archive(...)))

PySpark is imported only when a session is made: `pip install '.[spark]'` in kwire's folder
installs it.
"""

from __future__ import annotations

from kwire.pipeline import audit
from kwire.pipeline.archiving import (
    Archive,
    Lost,
    Published,
    archive,
    archive_files,
    archived,
    compact,
    lost,
    publish,
)
from kwire.pipeline.errors import PipelineError, RecordsLost
from kwire.pipeline.following import Ended, follow
from kwire.pipeline.mirroring import GroupState, Mirror, Mirrored, Mirroring, Rename, mirror
from kwire.pipeline.querying import (
    Form,
    Query,
    Running,
    SchemaRegistry,
    ToFunction,
    ToParquet,
    ToTopic,
    View,
    frame,
    query,
)
from kwire.pipeline.replaying import Range, Replay, Replayed, replay
from kwire.pipeline.session import SparkOptions, session
from kwire.pipeline.source import Kafka, Topics, read, read_stream

__all__ = [
    "Archive",
    "Ended",
    "Form",
    "GroupState",
    "Kafka",
    "Lost",
    "Mirror",
    "Mirrored",
    "Mirroring",
    "PipelineError",
    "Published",
    "Query",
    "Range",
    "RecordsLost",
    "Rename",
    "Replay",
    "Replayed",
    "Running",
    "SchemaRegistry",
    "SparkOptions",
    "ToFunction",
    "ToParquet",
    "ToTopic",
    "Topics",
    "View",
    "archive",
    "archive_files",
    "archived",
    "audit",
    "compact",
    "follow",
    "frame",
    "lost",
    "mirror",
    "publish",
    "query",
    "read",
    "read_stream",
    "replay",
    "session",
]
