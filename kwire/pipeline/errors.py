"""Errors that stop a job; each message says what to do.  Shortens Spark's errors to a sentence."""

from __future__ import annotations

import re

CONDITION = re.compile(r"^((?:[A-Z]\w*: )?)\[[A-Z][A-Z0-9_.]*\] ")
SQLSTATE = re.compile(r"[.\s]*\bSQLSTATE: \w+")
"""Spark's error codes, which stand before and after the readable sentence."""
RAISED = re.compile(r"^(?P<module>(?:\w+\.)*)(?P<name>[A-Z]\w*): (?P<message>.+)$", re.MULTILINE)
"""The last line of a Python traceback; errors of Spark's Python workers contain one."""
SPARK_CLASS = re.compile(r"^(?:[a-z]\w*\.)+([A-Z]\w*(?:Exception|Error)):\s*", re.MULTILINE)

NO_MODULE = re.compile(r"^No module named '(?P<module>[\w.]+)'$")
"""Python's message about a missing package.  The packages exist in this process, so the Python of
Spark's workers lacks it."""

LOST = ("KAFKA_DATA_LOSS", "KafkaIllegalStateException: Some data may have been lost")
"""Errors of Spark's Kafka source with failOnDataLoss: of the driver, and of its tasks."""


class PipelineError(RuntimeError):
    """A job cannot start, or ended before it was done; the message says why and what to do."""


class SparkMissing(PipelineError):
    """PySpark is not installed, or Java is missing or too old for it."""


class QueryFailed(PipelineError):
    """Spark ended a query with an error."""


class RecordsLost(QueryFailed):
    """Records were deleted from the cluster before a query read them."""


def failure(error: BaseException) -> QueryFailed:
    """Convert the Spark error that ended a query."""
    if any(sign in str(error) for sign in LOST):
        return RecordsLost(f"records were removed before they were read: {sentence_of(error)}")
    return QueryFailed(sentence_of(error))


def sentence_of(error: BaseException) -> str:
    """The first line of the innermost cause in a Spark error.

    Spark's errors are pages long: they contain a stack trace for each cause.
    """
    text = str(error)
    causes = [line.split(":", 1)[1] for line in text.splitlines() if line.startswith("Caused by:")]
    if not causes and (message := _raised(text)):
        return message
    line = next(iter((causes[-1:] or [text])[0].strip().splitlines()), type(error).__name__)
    line = CONDITION.sub(r"\1", SPARK_CLASS.sub(r"\1: ", line.strip()))
    return SQLSTATE.sub("", line).strip(" ;")


def _raised(text: str) -> str | None:
    """The message of the last Python error in a text, or None.

    The name of the exception is left out if it is one of kwire's, whose messages are sentences.
    """
    _, _, trace = text.partition("Traceback (most recent call last)")
    raised = list(RAISED.finditer(trace.partition("=== Streaming Query ===")[0]))
    if not raised:
        return None
    last = raised[-1]
    if last["name"] == ModuleNotFoundError.__name__ and (
        missing := NO_MODULE.match(last["message"])
    ):
        return (
            f"the Python of Spark's workers has no {missing['module']}: install it there, or name"
            " a Python that has it in PYSPARK_PYTHON before the session is made"
        )
    return (
        last["message"]
        if last["module"].startswith("kwire.")
        else f"{last['name']}: {last['message']}"
    )
