"""Known differences of single cases from Apache Kafka, with the reason for each.

Differences that are allowed in every case are in the table of kwire.testing.comparing.rules. A
difference that neither list explains is an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from kwire.codecs.api_keys import ApiKey


class CaseExcuse(NamedTuple):
    """An allowed difference of one case. `where` is a pattern for its path without list indexes.

    The path is empty if one broker answered and the other did not.
    """

    api_key: ApiKey
    case: str
    where: str
    reason: str


_NO_TIME = "Apache Kafka says REQUEST_TIMED_OUT but does the work; kwire reports success"
_FAILS_INSIDE = "Apache Kafka fails inside (UNKNOWN_SERVER_ERROR, no message)"
EXCUSED = (
    CaseExcuse(
        ApiKey.PRODUCE,
        "null records",
        "",
        "Apache Kafka fails inside and never answers; kwire answers INVALID_RECORD",
    ),
    *(
        CaseExcuse(
            ApiKey.PRODUCE,
            f"batch header: {claim}",
            "*",
            "kwire believes a header whose checksum holds and whose claims fit together, and reads"
            " the records only where the answer depends on them: a producer that lies about its own"
            " records hurts its own readers, and a batch costs the same whatever it holds",
        )
        for claim in ("compressed, it says", "another base timestamp")
    ),
    *(
        CaseExcuse(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            case,
            "",
            "a broker that asks for no transaction at all: Apache Kafka never answers; kwire does",
        )
        for case in (
            "every field at its default",
            "null client id",
            "client ids that are odd",
            "bytes after the message",
            "unknown tagged field",
        )
    ),
    CaseExcuse(
        ApiKey.WRITE_TXN_MARKERS,
        "a partition twice",
        "",
        "Apache Kafka writes one marker and never answers; kwire answers",
    ),
    CaseExcuse(
        ApiKey.JOIN_GROUP,
        "the same protocol twice",
        "",
        "Apache Kafka fails inside and never answers; kwire takes the protocol once",
    ),
    CaseExcuse(
        ApiKey.ALTER_CONFIGS,
        "the same resource twice",
        "",
        "Apache Kafka fails inside and never answers; kwire says INVALID_REQUEST, as"
        " IncrementalAlterConfigs does in both",
    ),
    CaseExcuse(
        ApiKey.CREATE_PARTITIONS,
        "too many",
        "results.error_*",
        f"{_FAILS_INSIDE}; kwire says POLICY_VIOLATION, as CreateTopics does in both",
    ),
    CaseExcuse(
        ApiKey.OFFSET_FETCH,
        "as nobody, with an epoch, of a consumer group",
        "groups.error_code",
        f"{_FAILS_INSIDE}; kwire says UNKNOWN_MEMBER_ID",
    ),
    CaseExcuse(ApiKey.ELECT_LEADERS, "no time", "*error_*", _NO_TIME),
    CaseExcuse(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "no time", "*error_*", _NO_TIME),
    CaseExcuse(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "operations that do not exist",
        "responses.error_*",
        f"{_FAILS_INSIDE}; kwire says INVALID_REQUEST",
    ),
)


BESIDE_CONTROLLERS = tuple(
    CaseExcuse(
        ApiKey.UPDATE_FEATURES,
        case,
        "error_message",
        "the controllers refuse it in any case; a kwire broker supports no metadata.version of"
        " Apache Kafka before 3.9, and they name the first reason that they find",
    )
    for case in ("lower levels, as an upgrade", "downgrades, only validated")
)
"""More differences that are allowed between brokers beside controllers of Apache Kafka."""

_INDEX = re.compile(r"\[\d+\]")


def excuse_of(
    api_key: int, case: str, path: str, more: Sequence[CaseExcuse] = ()
) -> CaseExcuse | None:
    """Return the entry that allows a difference of a case at `path`, or None.

    `more` are entries that hold beside EXCUSED.
    """
    path_without_indexes = _INDEX.sub("", path)
    for excuse in (*EXCUSED, *more):
        same_case = excuse.api_key == api_key and fnmatchcase(case, excuse.case)
        if same_case and fnmatchcase(path_without_indexes, excuse.where):
            return excuse
    return None
