"""Checks that the topics of a job exist, before Spark starts."""

from __future__ import annotations

from difflib import get_close_matches

from kwire.pipeline.cluster import ClusterAdmin
from kwire.pipeline.errors import PipelineError
from kwire.pipeline.extras import require_spark
from kwire.pipeline.source import Kafka, Topics

PATIENCE_S = 10.0


def must_have(kafka: Kafka, topics: Topics) -> None:
    """Raise PipelineError if the cluster lacks one of the named topics.

    Spark takes longer to report a missing topic, and does not name it.  A pattern is not checked:
    Spark evaluates it as a Java pattern.  Raises SparkMissing if no job can run.
    """
    require_spark()
    try:
        admin = ClusterAdmin(kafka, patience_s=PATIENCE_S)
    except PipelineError:  # librdkafka does not know these properties, but Spark's clients may
        return
    known = admin.names() if topics.names else []
    for name in topics.names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise PipelineError(f"{kafka.bootstrap} has no topic {name}{hint}")
