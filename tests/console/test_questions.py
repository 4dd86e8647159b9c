"""Questions of an operator, each answered by a page of the console.

The same questions are answered by metrics in tests/operations.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.testing import SharedClusterProcess
from kwire.testing.topics import connected
from tests.console import hostile
from tests.console.consoles import ConsoleProcess, ask
from tests.console.lively import GROUPS, RELEASED
from tests.console.tables import PageText
from tests.polling import until

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


def test_which_groups_are_behind(console: ConsoleProcess) -> None:
    rows = shown(console, "/groups?sort=-lag").rows()
    lags = {row["Group"]: number(row["Lag"]) for row in rows if row["Lag"][0].isdigit()}
    assert list(lags.values()) == sorted(lags.values(), reverse=True)
    assert {GROUPS.consumer, GROUPS.classic, GROUPS.empty} <= set(list(lags)[:4])
    assert lags[GROUPS.empty] == 600 - sum(10 * partition for partition in range(6))


def test_in_which_partition_is_a_group_behind_and_who_reads_it(console: ConsoleProcess) -> None:
    page = shown(console, f"/groups/one?id={GROUPS.classic}")
    row = next(row for row in page.rows() if row["Partition"] == "orders 3")
    assert number(row["Committed"]) == 63
    assert number(row["Lag"]) == number(row["End"]) - 63 > 0
    assert row["Member"].startswith("billing-1")


def test_which_groups_have_no_members(console: ConsoleProcess) -> None:
    rows = shown(console, "/groups").rows()
    without = {row["Group"] for row in rows if row["Members"] == "0"}
    assert GROUPS.empty in without
    assert not {GROUPS.classic, GROUPS.consumer, GROUPS.share, GROUPS.streams} & without


def test_of_which_kind_and_in_which_state_is_each_group(console: ConsoleProcess) -> None:
    page = shown(console, "/groups?per=100")
    for name, kind in zip(GROUPS[:4], ("classic", "consumer", "share", "streams"), strict=True):
        row = page.row(name)
        assert (row["Type"], row["State"]) == (kind, "Stable")
    assert page.row(GROUPS.empty)["State"] == "Empty"


def test_why_did_this_group_rebalance(console: ConsoleProcess) -> None:
    """Its epoch is that of its assignment and of its members, each of which is shown."""
    page = shown(console, f"/groups/one?id={GROUPS.consumer}&tab=members")
    assert page.figures["Members"] == "2"
    epoch = page.figures["Epoch"].split()[0]
    members = page.rows()
    assert {row["Epoch"].split()[0] for row in members} == {epoch}
    assert {row["Member"].split()[0] for row in members} == {"shipping-1", "shipping-2"}
    assert sum(number(row["Partitions"]) for row in members) == 18


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


# -- topics and the disk


def test_what_fills_the_disk(console: ConsoleProcess) -> None:
    rows = {row["Topic"]: row["Size"] for row in shown(console, "/topics").rows()}
    assert rows["hostile"].endswith("MB")
    assert rows["orders"].endswith("kB")
    assert shown(console, "/brokers").row("1")["Size"].endswith("MB")


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


# -- a cluster that has lost a broker

REPLICATED, SINGLE = "replicated", "single"


@pytest.fixture(scope="module")
def wounded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """A console of a cluster of three brokers, the third of which was killed.

    It had the only replica of one topic, and one of three replicas of another.
    """
    from kwire.client.topics import create_topic

    folder = tmp_path_factory.mktemp("wounded")
    with SharedClusterProcess(folder / "cluster", 3) as cluster:
        third = cluster.brokers[3]
        with connected(cluster.bootstrap) as client:
            create_topic(client, REPLICATED, assignment=[[1, 2, 3], [2, 3, 1]])
            create_topic(client, SINGLE, assignment=[[3]])
        third.kill()
        console = ConsoleProcess(cluster.bootstrap, folder / "console.log")
        console.start()
        yield console
        console.finish()


def health_with(console: ConsoleProcess, text: str) -> PageText:
    """The page of what is not well, as soon as the controller has noticed it."""
    seen: list[PageText] = []

    def has_text() -> bool:
        seen.append(shown(console, "/health"))
        return text in seen[-1].words

    until(has_text, f"the page does not name {text}")
    return seen[-1]


def test_which_partition_has_no_leader_and_why(wounded: ConsoleProcess) -> None:
    page = health_with(wounded, f"{SINGLE}-0")
    assert "not well" in page.words
    assert "What to do" in page.words
    assert page.figures["Brokers"] == "2 of 3"


def test_which_replicas_are_not_in_sync(wounded: ConsoleProcess) -> None:
    page = health_with(wounded, f"{REPLICATED}-1")
    assert number(page.figures["Under-replicated"]) >= 2
