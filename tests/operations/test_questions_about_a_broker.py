"""Questions of an operator about one broker.

They are answered by its metrics, by `kwire top`, and by the console.

`kwire top` runs while clients go on, because it shows rates.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from kwire.conformance.metrics.load import GREEDY, QUOTA_BYTES_PER_S
from kwire.conformance.metrics.scrape import Labels
from tests.operations.scenes import (
    BUSY_REQUESTS,
    COMMITTED,
    RECORDS_IN_ORDERS,
    SLOW_MS,
    UNKNOWN,
    Pages,
    Top,
    TroubledBroker,
    console_of,
    largest,
    largest_row,
    of_group,
    shown_number,
    top_of,
)
from tests.polling import until

pytestmark = pytest.mark.slow

TOPICS = "kafka_server_brokertopicmetrics_"
REQUESTS = "kafka_network_requestmetrics_"


@pytest.fixture(scope="module")
def top(scene: TroubledBroker) -> Top:
    """What the screen shows while a producer writes to one topic, and a client asks a lot."""

    def go_on() -> None:
        scene.write_to_orders()
        scene.send_many_requests(10)
        scene.make_mistakes(2)

    return top_of(scene.operator, go_on)


@pytest.fixture(scope="module")
def pages(
    scene: TroubledBroker, top: Top, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pages]:
    """The pages of a console, which starts when `top` has ended."""
    del top
    with console_of(scene.operator, tmp_path_factory.mktemp("console")) as found:
        yield found


def test_which_group_is_behind(scene: TroubledBroker, top: Top, pages: Pages) -> None:
    (group,), lag = largest(scene.after, "kafka_consumergroup_lag", ["consumergroup"])
    assert group == scene.billing
    assert lag == RECORDS_IN_ORDERS - COMMITTED

    worst = largest_row(top.rows("groups"), "lag")
    assert worst["group"] == scene.billing
    assert worst["lag"] >= RECORDS_IN_ORDERS - COMMITTED

    assert pages.rows("/groups?sort=-lag")[0][0] == scene.billing


def test_in_which_partition_is_a_group_behind(
    scene: TroubledBroker, top: Top, pages: Pages
) -> None:
    place, lag = largest(
        scene.after, "kafka_consumergroup_lag", ["topic", "partition"], of_group(scene.billing)
    )
    assert place == (scene.orders.name, "0")
    assert lag == RECORDS_IN_ORDERS - COMMITTED

    group = top.row("groups", "group", scene.billing)
    assert scene.orders.name in group["worst"]
    assert group["worst_lag"] == group["lag"]

    (place_shown, committed, *_, member) = pages.rows(f"/groups/one?id={scene.billing}")[0]
    assert (place_shown, committed) == (f"{scene.orders.name} 0", str(COMMITTED))
    assert member == "nobody"


def test_which_groups_have_no_members(scene: TroubledBroker, top: Top, pages: Pages) -> None:
    members = scene.after.sums("kafka_consumergroup_members", ["consumergroup"])
    without = {group for (group,), count in members.items() if not count}
    assert without == {scene.billing, scene.load.idle}

    empty = {row["group"] for row in top.rows("groups") if row["members"] == 0}
    assert empty == without

    assert {row[0] for row in pages.rows("/groups") if row[3] == "0"} == without


def test_why_did_this_group_rebalance(scene: TroubledBroker, top: Top, pages: Pages) -> None:
    """Its epoch grew with each of its members, the last of which was c."""
    keep = of_group(scene.restless)
    (group,), epochs = largest(scene.after, "kwire_group_epoch", ["group"], keep)
    members = scene.after.sums("kafka_consumergroup_members", ["consumergroup"], keep)
    assert group == scene.restless
    assert epochs >= members[group,] == 3
    begun_s = scene.after.sums("kwire_group_last_rebalance_timestamp_seconds", [], keep)[()]
    assert scene.begun_s <= begun_s <= time.time()

    row = top.row("groups", "group", scene.restless)
    assert row["rebalance_reason"] == "member c joins"
    assert 0 <= row["rebalanced_s_ago"] <= time.time() - scene.begun_s

    page = pages.text(f"/groups/one?id={scene.restless}")
    assert "member c joins" in page
    assert "Members3" in page


def test_in_which_state_is_each_group(scene: TroubledBroker, top: Top, pages: Pages) -> None:
    def current(labels: Labels) -> bool:
        return bool(labels["state"])

    states = scene.after.sums("kwire_group_state", ["group", "type", "state"], current)
    found = {(group, kind): state for (group, kind, state), value in states.items() if value}
    load = scene.load
    assert found[load.classic, "classic"] == "Stable"
    assert found[load.idle, "classic"] == "Empty"
    assert found[load.consumers, "consumer"] == "Stable"
    assert found[load.sharers, "share"] == "Stable"
    assert load.streamers in {group for group, _ in found}

    shown = {row["group"]: (row["type"], row["state"]) for row in top.rows("groups")}
    assert {kind.lower() for kind, _ in shown.values()} >= {"classic", "consumer", "share"}
    assert shown[load.classic][1] == shown[load.consumers][1] == "Stable"
    assert shown[load.idle][1] == "Empty"

    listed = {row[0]: (row[1], row[2]) for row in pages.rows("/groups")}
    assert listed[load.classic] == ("classic", "Stable")
    assert listed[load.consumers] == ("consumer", "Stable")
    assert listed[load.sharers] == ("share", "Stable")


def test_what_fills_the_disk(scene: TroubledBroker, top: Top, pages: Pages) -> None:
    (topic,), size = largest(scene.after, "kafka_log_log_size", ["topic"])
    assert topic == scene.orders.name
    assert size > RECORDS_IN_ORDERS * 200

    assert largest_row(top.rows("topics"), "size_bytes")["topic"] == scene.orders.name

    assert pages.rows("/topics?sort=-size&internal=yes")[0][0] == scene.orders.name


def test_how_much_room_is_left_on_the_disk(scene: TroubledBroker, top: Top, pages: Pages) -> None:
    usable = scene.after.sums("kwire_log_directory_usable_bytes", ["logDirectory"])
    total = scene.after.sums("kwire_log_directory_total_bytes", ["logDirectory"])
    assert usable.keys() == total.keys() != set()
    assert all(0 < usable[directory] <= total[directory] for directory in usable)

    (broker,) = top.rows("brokers")
    assert broker["usable_bytes"] > 0

    ((*_, disks),) = pages.tables("/brokers")[0]
    assert re.search(r"\d [kMGTP]?B free", disks)


def test_which_topic_grows_fastest(scene: TroubledBroker, top: Top) -> None:
    grown = scene.grown("kafka_log_log_size", ["topic"])
    assert max(grown, key=grown.__getitem__) == (scene.orders.name,)

    growing = largest_row(top.rows("topics"), "growth_bytes_per_s")
    assert growing["topic"] == scene.orders.name


def test_which_topic_gets_the_most_records(scene: TroubledBroker, top: Top, pages: Pages) -> None:
    records = scene.grown(f"{TOPICS}messagesin_total", ["topic"], lambda each: "topic" in each)
    (busiest,) = max(records, key=records.__getitem__)
    assert busiest in {scene.orders.name, scene.load.plain.name}
    assert records[scene.orders.name,] == RECORDS_IN_ORDERS

    assert largest_row(top.rows("topics"), "records_in_per_s")["topic"] == scene.orders.name

    def shows_orders_first() -> bool:
        """Go on with writing, until the console has taken two samples of it."""
        scene.write_to_orders()
        first = pages.rows("/topics?sort=-rate")[0]
        return first[0] == scene.orders.name and first[5] not in ("0", UNKNOWN)

    until(shows_orders_first, "the topic with the most records is not the first")


def test_which_client_is_throttled(scene: TroubledBroker, top: Top, pages: Pages) -> None:
    rates = scene.after.sums("kafka_server_quota_byte_rate", ["resource", "clientId"])
    limits = scene.after.sums("kwire_quota_limit", ["resource", "clientId"])
    assert limits["Produce", GREEDY] == QUOTA_BYTES_PER_S
    assert rates["Produce", GREEDY] >= 0  # 0 when the samples of the rate have passed

    def throttled() -> set[str]:
        """The clients that were throttled; a throttle time counts when it has passed."""
        clients = scene.operator.slow()["clients"]
        return {each["client_id"] for each in clients if each["throttle_ns"]}

    until(lambda: bool(throttled()), "no client was throttled")
    assert throttled() == {GREEDY}

    row = largest_row(top.rows("clients"), "throttled_ms_per_s")
    assert row["client"] == GREEDY
    assert row["throttled_ms_per_s"] > 0

    (limit, delayed) = pages.rows("/quotas")
    assert limit[:2] == [f"client {GREEDY}", "producer_byte_rate"]
    assert delayed[0] == GREEDY


def test_which_client_sends_the_most_requests(
    scene: TroubledBroker, top: Top, pages: Pages
) -> None:
    clients = {each["client_id"]: each for each in scene.operator.slow()["clients"]}
    assert clients["busy"]["requests"] >= BUSY_REQUESTS
    assert clients["busy"]["client_host"] == "127.0.0.1"

    assert largest_row(top.rows("clients"), "requests_per_s")["client"] == "busy"

    rates = {client: shown_number(rate) for client, _, _, rate, *_ in pages.tables("/clients")[0]}
    assert max(rates, key=rates.__getitem__) == "busy"


def test_which_requests_are_the_slowest(scene: TroubledBroker, top: Top, pages: Pages) -> None:
    """Each has its client, and where its time went; the wait for records is no slowness."""
    requests = scene.operator.slow()["requests"]
    times = [each["blamed"] for each in requests]
    assert times == sorted(times, reverse=True)
    for each in requests:
        assert each["name"]
        assert each["client_host"] == "127.0.0.1"
        assert each["local"] + each["remote"] + each["queue"] <= each["total"]
        if each["client_id"] == "patient":
            assert each["remote"] > each["blamed"]

    for row in top.rows("slow"):
        assert row["api"]
        assert row["address"] == "127.0.0.1"
        assert row["total_ms"] > 0
    assert {"wire"} <= {row["client"] for row in top.rows("slow")}

    shown = pages.tables("/clients")[1]
    slow_ms = [shown_number(row[3]) for row in shown]
    assert slow_ms == sorted(slow_ms, reverse=True)
    assert slow_ms[0] > 0
    assert "wire" in {row[1] for row in shown}


def test_where_does_the_time_of_a_request_go(scene: TroubledBroker, top: Top, pages: Pages) -> None:
    """A fetch that waits for records spends its time outside of the loop."""

    def longest(labels: Labels) -> bool:
        return labels == {"request": "FetchConsumer", "quantile": "0.999"}

    remote = scene.after.sums(f"{REQUESTS}remotetimems", [], longest)[()]
    local = scene.after.sums(f"{REQUESTS}localtimems", [], longest)[()]
    assert remote > SLOW_MS * 0.9
    assert remote > local

    slowest = largest_row(top.rows("slow"), "total_ms")
    phases = slowest["phases_ms"]
    assert "local" in phases
    assert 0 < sum(phases.values()) <= slowest["total_ms"] * 1.01

    longest_shown = max(pages.tables("/clients")[1], key=lambda row: shown_number(row[4]))
    assert re.fullmatch(r"((queue|local|remote|throttle) [\d,.]+(, )?)+", longest_shown[5])


def test_which_errors_do_clients_get(scene: TroubledBroker, top: Top, pages: Pages) -> None:
    errors = scene.grown(
        f"{REQUESTS}errors_total", ["request", "error"], lambda each: each["error"] != "NONE"
    )
    assert errors["Produce", "MESSAGE_TOO_LARGE"] == 10
    assert errors["Produce", "INVALID_RECORD"] == 10
    assert errors["Fetch", "OFFSET_OUT_OF_RANGE"] == 10

    assert largest_row(top.rows("requests"), "errors_per_s")["api"] == "Produce"

    def shows_errors() -> bool:
        """Go on with mistakes, until the console has taken two samples of them."""
        scene.make_mistakes(2)
        rates = {api: errors for api, _, errors, *_ in pages.tables("/clients")[2]}
        return rates.get("Produce", UNKNOWN) not in ("0", UNKNOWN)

    until(shows_errors, "the errors of Produce are not shown")


def test_which_versions_do_clients_use(scene: TroubledBroker) -> None:
    """Before an upgrade: which clients would no longer be served?"""
    versions = scene.grown(f"{REQUESTS}requests_total", ["request", "version"])
    assert versions["Produce", "3"] > 0
    assert versions["Metadata", "0"] > 0


def test_how_many_requests_wait_and_for_what(scene: TroubledBroker) -> None:
    waiting = scene.after.sums(
        "kafka_server_delayedoperationpurgatory_numdelayedoperations", ["delayedOperation"]
    )
    assert waiting["Fetch",] == 1
    assert waiting["Produce",] == 0


def test_who_fails_to_log_in(scene: TroubledBroker) -> None:
    failed = scene.grown(
        "kafka_server_socket_server_metrics_failed_authentication_total", ["listener"]
    )
    assert failed["SASL",] == 1
    assert not failed.get(("PLAINTEXT",), 0)


def test_how_many_clients_are_connected(scene: TroubledBroker, top: Top) -> None:
    connections = scene.after.sums(
        "kafka_server_socket_server_metrics_connection_count", ["listener"]
    )
    created = scene.grown(
        "kafka_server_socket_server_metrics_connection_creation_total", ["listener"]
    )
    assert connections["PLAINTEXT",] >= 5
    assert created["SASL",] == 1

    (broker,) = top.rows("brokers")
    assert broker["connections"] >= 5


def test_does_a_transaction_hang(scene: TroubledBroker) -> None:
    waiting = scene.after.sums("kafka_cluster_partition_laststableoffsetlag", ["topic"])
    topics = {topic for (topic,), lag in waiting.items() if lag}
    assert topics == {scene.load.transactional.name}
    assert scene.after.sums("kwire_transactions", ["state"])["Ongoing",] == 1
    assert scene.after.sums("kwire_transaction_oldest_open_seconds", [])[()] > 0


def test_do_members_of_a_share_group_fail(scene: TroubledBroker) -> None:
    """They hold records, and released some, which were delivered more than once."""
    keep = of_group(scene.load.sharers)
    states = scene.after.sums("kwire_share_partition_records", ["topic", "state"], keep)
    assert {topic for topic, _ in states} == {scene.load.queue.name}
    assert sum(states.values()) > 0
    deliveries = scene.after.sums("kwire_share_partition_deliveries_max", ["topic"], keep)
    assert deliveries[scene.load.queue.name,] >= 1


def test_does_a_group_catch_up(scene: TroubledBroker, top: Top, pages: Pages) -> None:
    group = top.row("groups", "group", scene.billing)
    assert group["lag_per_s"] > 0
    assert group["seconds_left"] is None

    def shows_that_it_does_not() -> bool:
        """Go on with writing, until the console has taken two samples of it."""
        scene.write_to_orders()
        return "does not catch up" in pages.text(f"/groups/one?id={scene.billing}")

    until(shows_that_it_does_not, "the page does not say that the group falls behind")


def test_is_the_cluster_well(scene: TroubledBroker, top: Top, pages: Pages) -> None:
    for metric in (
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "kafka_server_replicamanager_underreplicatedpartitions",
    ):
        assert scene.after.sums(metric, [])[()] == 0

    assert top.view["totals"]["offline"] == 0
    assert top.view["totals"]["under_replicated"] == 0
    assert top.view["problems"] == []

    assert "all is well" in pages.text("/health")
