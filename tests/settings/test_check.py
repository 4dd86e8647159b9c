"""Dynamic configs that a broker refuses together, with the messages of Apache Kafka 4.4.0."""

from __future__ import annotations

import pytest

from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.settings import CLUSTER_DEFAULT, BrokerConfig
from kwire.settings.check import check_broker

TOTAL, LOCAL, LAG = "log.retention", "log.local.retention", "log.remote.copy.lag"


START = "Invalid value org.apache.kafka.common.config.ConfigException: Invalid value "
END = " for configuration Invalid dynamic configuration"


def problem(static: dict[str, str], dynamic: dict[str, str]) -> str | None:
    """The part of Kafka's message that differs, None if the configs are accepted."""
    try:
        check_broker(BrokerConfig(static), dynamic, {}, CLUSTER_DEFAULT)
    except Refusal as refused:
        refusal = refused
    else:
        return None
    said = refusal.message or ""
    assert (refusal.error, said[: len(START)]) == (ErrorCode.INVALID_REQUEST, START)
    return said.removeprefix(START).removesuffix(END)


@pytest.mark.parametrize("unit", ["ms", "bytes"])
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({LOCAL: "-1", TOTAL: "-1"}, None),
        ({LOCAL: "2000", TOTAL: "-1"}, None),
        ({LOCAL: "2000", TOTAL: "2000"}, None),
        ({LAG: "1000", TOTAL: "-1"}, None),
        ({LAG: "1000", TOTAL: "1000"}, None),
        ({LAG: "1000", TOTAL: "-1", LOCAL: "-1"}, None),
        ({LAG: "-1", TOTAL: "5"}, None),
        (
            {LOCAL: "-1", TOTAL: "1000"},
            "-1 for configuration log.local.retention.UNIT: Value must not be -1 as "
            "log.retention.UNIT value is set as 1000.",
        ),
        (
            {LOCAL: "2001", TOTAL: "2000"},
            "2001 for configuration log.local.retention.UNIT: Value must not be more than "
            "log.retention.UNIT property value: 2000",
        ),
        (
            {LAG: "1000", TOTAL: "999"},
            "1000 for configuration log.remote.copy.lag.UNIT: Value must not exceed "
            "log.local.retention.UNIT (effective value: 999)",
        ),
        (
            {LAG: "1", LOCAL: "0"},
            "1 for configuration log.remote.copy.lag.UNIT: Value must not exceed "
            "log.local.retention.UNIT (effective value: 0)",
        ),
        (
            {LAG: "1000", LOCAL: "1000", TOTAL: "999"},
            "1000 for configuration log.local.retention.UNIT: Value must not be more than "
            "log.retention.UNIT property value: 999",
        ),
    ],
)
def test_local_retention_and_copy_lag_must_fit_the_retention(
    values: dict[str, str], said: str | None, unit: str
) -> None:
    dynamic = {f"{name}.{unit}": value for name, value in values.items()}
    expected = None if said is None else said.replace("UNIT", unit)
    assert problem({}, dynamic) == expected


def test_copy_lag_in_the_file_is_checked_when_a_setting_of_logs_changes() -> None:
    static = {"log.remote.copy.lag.ms": "5000", "log.retention.ms": "4000"}
    assert problem(static, {"num.io.threads": "9"}) is None
    said = problem(static, {"log.cleaner.min.compaction.lag.ms": "9"})
    assert said is not None
    assert "(effective value: 4000)" in said
