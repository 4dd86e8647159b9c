"""`kwire consume --share`: what members of a share group print, and what becomes of it."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Kwire

pytestmark = pytest.mark.slow

RECORDS = 30


def values(printed: str) -> set[int]:
    return {int(line) for line in printed.splitlines()}


def test_share_consume_prints_each_record_once_and_released_ones_again(
    kwire: Kwire, unique: str
) -> None:
    kwire("topics", "create", unique, "--partitions", "3")
    kwire("produce", unique, stdin="".join(f"{number}\n" for number in range(RECORDS)))
    kwire("configs", "alter", "group", unique, "--set", "share.auto.offset.reset=earliest")
    reading = ["consume", unique, "--share", unique]
    first = values(kwire(*reading, "-n", "5").stdout)
    assert len(first) == 5
    given_back = [json.loads(line) for line in kwire(*reading, "--release", "-n", "7", "-f", "json")
                  .stdout.splitlines()]  # fmt: skip
    assert len(given_back) == 7
    rejected = values(kwire(*reading, "--reject", "-n", "10").stdout)
    rest = values(kwire(*reading, "--exit").stdout)
    assert first | rejected | rest == set(range(RECORDS))
    assert len(first) + len(rejected) + len(rest) == RECORDS
    assert {int(record["value"]) for record in given_back} <= rejected | rest
    assert kwire(*reading, "--exit").stdout == ""
    described = json.loads(kwire("groups", "describe", unique, "--json").stdout)
    assert described["state"] == "Empty"
    assert sum(each["lag"] or 0 for each in described["partitions"]) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--share", "g", "--from-beginning"], "share.auto.offset.reset"),
        (["--share", "g", "--group", "other"], "kwire configs alter group g"),
        (["--reject"], "--release and --reject need --share"),
    ],
)
def test_share_consume_refuses_options_of_other_consumers(
    kwire: Kwire, options: list[str], said: str
) -> None:
    assert said in kwire("consume", "t", *options, status=2).stderr
