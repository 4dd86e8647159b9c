"""Questions of an operator that only pages of the console answer.

Those that metrics and `kwire top` answer, too, are in tests/operations.
"""

from __future__ import annotations

import pytest

from tests.console import hostile
from tests.console.consoles import ConsoleProcess, ask
from tests.console.lively import GROUPS, RELEASED
from tests.console.tables import PageText

pytestmark = pytest.mark.slow


def shown(console: ConsoleProcess, target: str) -> PageText:
    """A page of the console."""
    answer = ask(console.origin, target)
    assert answer.status == 200, answer.text
    return PageText(answer.text)


def number(text: str) -> int:
    """A count as a page shows it."""
    return int(text.split()[0].replace(",", ""))


# -- groups


def test_who_reads_a_partition_for_a_group_and_how_far(console: ConsoleProcess) -> None:
    page = shown(console, f"/groups/one?id={GROUPS.classic}")
    row = next(row for row in page.rows() if row["Partition"] == "orders 3")
    assert number(row["Committed"]) == 63
    assert number(row["Lag"]) == number(row["End"]) - 63 > 0
    assert row["Member"].startswith("billing-1")


def test_which_tasks_a_streams_application_has(console: ConsoleProcess) -> None:
    members = shown(console, f"/groups/one?id={GROUPS.streams}&tab=members").rows()
    tasks = " ".join(row["Assignment"] for row in members)
    for task in ("0_0", "0_5", "1_0", "1_5"):
        assert task in tasks
    topology = shown(console, f"/groups/one?id={GROUPS.streams}&tab=topology").words
    assert "orders" in topology
    assert f"{GROUPS.streams}-counts" in topology


def test_how_often_did_a_share_group_deliver_records(console: ConsoleProcess) -> None:
    page = shown(console, f"/groups/one?id={GROUPS.share}")
    delivered = page.row("payments")["Delivered"]
    assert delivered == f"0\N{EN DASH}{RELEASED - 1} available, delivered 1\N{MULTIPLICATION SIGN}"


def test_what_would_a_reset_of_offsets_do(console: ConsoleProcess) -> None:
    target = f"/groups/reset?id={GROUPS.empty}&target=earliest&value="
    page = shown(console, target)
    assert number(page.figures["Read again"]) == sum(10 * each for each in range(6))
    assert "kwire groups reset" in page.words
    # It is a preview: nothing has changed.
    assert shown(console, target).figures == page.figures


# -- topics


def test_which_configs_of_a_topic_differ_from_the_default_and_what_they_mean(
    console: ConsoleProcess,
) -> None:
    rows = {
        row["Config"]: row
        for row in shown(console, "/topics/page-views/configs?changed=yes").rows()
    }
    assert rows.keys() == {"retention.bytes", "segment.bytes"}
    assert rows["segment.bytes"]["Value"] == "1048576"
    assert "segment" in rows["segment.bytes"]["Meaning"]


# -- who may do what


def test_who_may_read_this_topic(console: ConsoleProcess) -> None:
    rows = [row for row in shown(console, "/acls").rows() if "topic orders" in row["Resource"]]
    assert [(row["Principal"], row["Operation"]) for row in rows] == [("User:alice", "read")]


def test_which_client_is_limited_and_to_what(console: ConsoleProcess) -> None:
    rows = shown(console, "/quotas").rows()
    limits = {row["Quota"]: row["Value"] for row in rows if row["Of"] == "client crawler"}
    assert limits == {"request_percentage": "12.5 %"}


def test_which_users_have_a_password(console: ConsoleProcess) -> None:
    words = shown(console, "/users").words
    assert "alice" in words
    assert hostile.SCRIPT[:30] in words
    assert "SCRAM-SHA-256" in words
