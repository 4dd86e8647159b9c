"""Whether the topics that a job names are there, asked before Spark is started."""

from __future__ import annotations

from difflib import get_close_matches

from kwire.pipeline.cluster import ClusterAdmin
from kwire.pipeline.errors import PipelineError
from kwire.pipeline.extras import require_spark
from kwire.pipeline.source import Kafka, Topics

PATIENCE_S = 10.0


def must_have(kafka: Kafka, topics: Topics) -> None:
    """Raise PipelineError where the cluster has no topic of a name.

    Spark takes a while to say that there is none, and does not say which.  What a pattern finds is
    for Spark to tell, whose patterns are Java's.  Raises SparkMissing where a job could not run.
    """
    require_spark()
    try:
        admin = ClusterAdmin(kafka, patience_s=PATIENCE_S)
    except PipelineError:  # only Spark's own clients know these properties
        return
    known = admin.names() if topics.names else []
    for name in topics.names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise PipelineError(f"{kafka.bootstrap} has no topic {name}{hint}")
