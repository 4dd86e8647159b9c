"""Single cases whose difference from Apache Kafka is known, with the reason.

What may differ everywhere is the table of kwire.testing.comparing.rules; what neither explains is a
finding.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import NamedTuple

from kwire.codecs.api_keys import ApiKey


class Excuse(NamedTuple):
    """A known difference of one case: `where` is a pattern over its path without indexes.

    The path is empty where one broker answered and the other did not.
    """

    api_key: ApiKey
    case: str
    where: str
    reason: str


_NO_TIME = "Apache Kafka says REQUEST_TIMED_OUT, and it is done; kwire says that it is done"
_FAILS_INSIDE = "Apache Kafka fails inside (UNKNOWN_SERVER_ERROR, no message)"
EXCUSED = (
    Excuse(
        ApiKey.PRODUCE,
        "null records",
        "",
        "Apache Kafka fails inside and never answers; kwire answers INVALID_RECORD",
    ),
    *(
        Excuse(
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
        Excuse(
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
    Excuse(
        ApiKey.WRITE_TXN_MARKERS,
        "a partition twice",
        "",
        "Apache Kafka writes one marker and never answers; kwire answers",
    ),
    Excuse(
        ApiKey.JOIN_GROUP,
        "the same protocol twice",
        "",
        "Apache Kafka fails inside and never answers; kwire takes the protocol once",
    ),
    Excuse(
        ApiKey.ALTER_CONFIGS,
        "the same resource twice",
        "",
        "Apache Kafka fails inside and never answers; kwire says INVALID_REQUEST, as"
        " IncrementalAlterConfigs does in both",
    ),
    Excuse(
        ApiKey.CREATE_PARTITIONS,
        "too many",
        "results.error_*",
        f"{_FAILS_INSIDE}; kwire says POLICY_VIOLATION, as CreateTopics does in both",
    ),
    Excuse(
        ApiKey.JOIN_GROUP,
        "a subscription to a consumer group that cannot be read",
        "error_code",
        f"{_FAILS_INSIDE}; kwire says INCONSISTENT_GROUP_PROTOCOL",
    ),
    Excuse(
        ApiKey.OFFSET_FETCH,
        "as nobody, with an epoch, of a consumer group",
        "groups.error_code",
        f"{_FAILS_INSIDE}; kwire says UNKNOWN_MEMBER_ID",
    ),
    Excuse(ApiKey.ELECT_LEADERS, "no time", "*error_*", _NO_TIME),
    Excuse(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "no time", "*error_*", _NO_TIME),
    Excuse(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "operations that do not exist",
        "responses.error_*",
        f"{_FAILS_INSIDE}; kwire says INVALID_REQUEST",
    ),
)


_INDEX = re.compile(r"\[\d+\]")


def excuse_of(api_key: int, case: str, path: str) -> Excuse | None:
    """Why a case may differ at `path`; None if nothing says so."""
    place = _INDEX.sub("", path)
    for excuse in EXCUSED:
        same_case = excuse.api_key == api_key and fnmatchcase(case, excuse.case)
        if same_case and fnmatchcase(place, excuse.where):
            return excuse
    return None
