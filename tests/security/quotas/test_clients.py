"""The most specific quota applies to a client, and the clients of a quota share its rate."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from kwire.cluster.metadata.entities import CLIENT_ID, IP, USER, Entity, entity_key
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.security.quotas import addresses, clients, mutations
from kwire.security.quotas.addresses import AddressRates
from kwire.security.quotas.clients import Bound, ClientRates, Who, bound_of
from kwire.security.quotas.enforced import ClientQuotas, any_set
from kwire.security.quotas.mutations import budget_of, owed_ms
from kwire.security.quotas.rates import Windows

QUOTA = "producer_byte_rate"
LEVELS: list[tuple[Entity, Who]] = [
    ({USER: "u", CLIENT_ID: "c"}, Who("u", "c")),
    ({USER: "u", CLIENT_ID: None}, Who("u", "c")),
    ({USER: "u"}, Who("u", None)),
    ({USER: None, CLIENT_ID: "c"}, Who("u", "c")),
    ({USER: None, CLIENT_ID: None}, Who("u", "c")),
    ({USER: None}, Who("u", None)),
    ({CLIENT_ID: "c"}, Who(None, "c")),
    ({CLIENT_ID: None}, Who(None, "c")),
]
"""Quota entities in the order of Kafka's documentation, and the clients that share a rate."""


def image_of(*quotas: tuple[Entity, Mapping[str, str]]) -> ClusterImage:
    image = ClusterImage("test")
    return image.with_all_configs((entity_key(entity), values) for entity, values in quotas)


@pytest.fixture
def few_rates(monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of rates that are kept, low enough for a fast test."""
    rates_max = 5
    for module in (addresses, clients, mutations):
        monkeypatch.setattr(module, "RATES_MAX", rates_max)
    return rates_max


def rates_of(*quotas: tuple[Entity, Mapping[str, str]]) -> ClientRates:
    rates = ClientRates(QUOTA, Windows(11, 1000))
    rates.follow(image_of(*quotas))
    return rates


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_most_specific_quota_applies(first: int) -> None:
    left = [(entity, {QUOTA: str(at)}) for at, (entity, _) in enumerate(LEVELS)][first:]
    assert bound_of(image_of(*left), QUOTA, "u", "c") == Bound(float(first), LEVELS[first][1])


def test_quotas_of_other_clients_do_not_apply() -> None:
    image = image_of(
        ({USER: "u", CLIENT_ID: "c"}, {"consumer_byte_rate": "5", "SCRAM-SHA-256": "x"}),
        ({USER: "u"}, {QUOTA: "no number"}),
        ({USER: "v"}, {QUOTA: "5"}),
        ({CLIENT_ID: "d"}, {QUOTA: "5"}),
    )
    assert bound_of(image, QUOTA, "u", "c") is None


def test_client_ids_of_a_user_share_its_rate() -> None:
    rates = rates_of(({USER: "u"}, {QUOTA: "1000"}))
    assert rates.record("u", "a", 10_000, 0) == 0
    assert rates.record("u", "b", 500, 0) == 500
    assert rates.record("v", "a", 50_000, 0) == 0


def test_default_quota_measures_each_client_separately() -> None:
    rates = rates_of(({CLIENT_ID: None}, {QUOTA: "1000"}))
    assert rates.record("u", "a", 10_500, 0) == 500
    assert rates.record("u", "b", 9_000, 0) == 0


def test_changed_quota_applies_to_the_next_request() -> None:
    rates = rates_of(({USER: "u"}, {QUOTA: "1000"}))
    assert rates.record("u", "", 20_000, 0) == 10_000
    rates.follow(image_of(({USER: "u"}, {QUOTA: "2000"})))
    assert rates.record("u", "", 500, 0) == 250
    rates.follow(image_of())
    assert rates.record("u", "", 1e9, 0) == 0


def test_rates_of_invented_client_ids_are_limited(few_rates: int) -> None:
    rates = rates_of(({CLIENT_ID: None}, {QUOTA: "1000"}))
    rates.record("u", "first", 10_500, 0)
    for number in range(few_rates):
        rates.record("u", f"c{number}", 1, 0)
    assert rates.record("u", "first", 9_000, 0) == 0, "it is forgotten"
    assert rates.record("u", f"c{few_rates - 1}", 10_500, 0) > 500, "it is not"


def test_rate_is_removed_an_hour_after_the_last_request() -> None:
    """Kafka removes a sensor after an hour without records; windows of a day show it."""
    hour_ms = 3_600_000
    rates = ClientRates(QUOTA, Windows(11, 24 * hour_ms))
    rates.follow(image_of(({USER: "u"}, {QUOTA: "1"})))
    assert rates.record("u", "c", 1e9, 0) > 0
    assert rates.record("u", "c", 0, hour_ms - 1) > 0
    assert rates.record("u", "c", 0, 2 * hour_ms - 2) > 0, "each request counts as one"
    assert rates.record("u", "c", 0, 3 * hour_ms) == 0


def test_throttled_fetch_does_not_count() -> None:
    now_ms = 0.0
    quotas = ClientQuotas(Windows(11, 1000), Windows(11, 1000), lambda: now_ms)
    quotas.follow(image_of(({USER: "u"}, {"consumer_byte_rate": "1000"})))
    assert quotas.most_fetched("u", "c") == 10_000
    assert quotas.most_fetched("v", "c") is None
    assert quotas.fetched("u", "c", 10_500) == 500
    assert quotas.fetched("u", "c", 10_000) == 0
    assert quotas.fetched("u", "c", 500) == 500


@pytest.mark.parametrize("rate", [2.0**31, 1e12])
def test_fetch_quota_above_an_int32_allows_an_int32_of_bytes(rate: float) -> None:
    quotas = ClientQuotas(Windows(11, 1000), Windows(11, 1000), lambda: 0.0)
    quotas.follow(image_of(({USER: "u"}, {"consumer_byte_rate": str(rate)})))
    assert quotas.most_fetched("u", "c") == 2**31 - 1


def test_null_client_id_uses_the_budget_of_the_empty_id() -> None:
    quotas = ClientQuotas(Windows(11, 1000), Windows(2, 1000), lambda: 0.0)
    quotas.follow(image_of(({CLIENT_ID: ""}, {"controller_mutation_rate": "5"})))
    budgets = [
        budget_of(quotas, SimpleNamespace(user="u", client_id=client_id), strict=True)
        for client_id in (None, "", "c")
    ]
    assert [budget is not None for budget in budgets] == [True, True, False]
    assert budget_of(None, SimpleNamespace(user="u", client_id=None), strict=True) is None
    assert [owed_ms(budget) for budget in budgets] == [0, 0, 0]


def test_request_quota_is_a_percentage_of_one_thread() -> None:
    quotas = ClientQuotas(Windows(11, 1000), Windows(11, 1000), lambda: 0.0)
    quotas.follow(image_of(({USER: "u"}, {"request_percentage": "50"})))
    assert quotas.requested("u", "c", 5e9) == 0  # all that ten windows have
    assert quotas.requested("u", "c", 0.1e9) == 200
    assert quotas.requested("u", "c", 5e9) == 1000, "no longer than a window"
    assert quotas.concern("u", "c", produces=False)
    assert not quotas.concern("v", "c", produces=True)


def test_connection_quota_delays_an_address_above_its_rate() -> None:
    now_ms = 0.0
    rates = AddressRates(Windows(11, 1000), lambda: now_ms)
    rates.follow(image_of(({IP: None}, {"connection_creation_rate": "1"}), (HOST, LESS)))
    assert [rates.throttle_ms("10.0.0.1") for _ in range(11)] == [0] * 10 + [1000]
    assert rates.throttle_ms("10.0.0.2") == 0, "each has its own"
    assert rates.throttle_ms("10.0.0.1") == 1000, "who was turned away does not count"
    now_ms = 11_000.0
    assert rates.throttle_ms("10.0.0.1") == 0
    assert rates.names == {"host"}
    rates.resolve({"10.0.0.3": "host"})
    assert [rates.throttle_ms("10.0.0.3") for _ in range(21)] == [0] * 20 + [500]
    rates.follow(image_of())
    assert rates.throttle_ms("10.0.0.3") == 0


def test_refused_connections_do_not_count_against_an_address() -> None:
    now_ms = 0.0
    rates = AddressRates(Windows(3, 1000), lambda: now_ms)
    rates.follow(image_of(({IP: "10.0.0.1"}, {"connection_creation_rate": "2"})))
    accepted = 0
    for step in range(400):
        now_ms = step * 50.0
        accepted += rates.throttle_ms("10.0.0.1") == 0
    assert 36 <= accepted <= 44, "two a second over 20 s, about"


def test_hosts_are_resolved_again_after_each_change_of_quotas() -> None:
    rates = AddressRates(Windows(11, 1000), lambda: 0.0)
    states = [rates.unresolved]
    rates.follow(image_of((HOST, LESS)))
    states.append(rates.unresolved)
    rates.resolve({"10.0.0.3": "host"})
    assert [*states, rates.unresolved] == [False, True, False]


def test_oldest_address_rates_are_removed_above_the_limit(few_rates: int) -> None:
    rates = AddressRates(Windows(11, 1000), lambda: 0.0)
    rates.follow(image_of(({IP: None}, {"connection_creation_rate": "0.1"})))
    assert rates.throttle_ms("first") == 0
    assert rates.throttle_ms("first") > 0
    for number in range(few_rates - 1):
        rates.throttle_ms(f"a{number}")
    assert rates.throttle_ms("first") > 0, "one of the limit's number is remembered"
    for number in range(few_rates):
        rates.throttle_ms(f"b{number}")
    assert rates.throttle_ms("first") == 0


HOST, LESS = {IP: "host"}, {"connection_creation_rate": "2"}


def test_partitions_of_a_client_share_one_token_bucket() -> None:
    quotas = ClientQuotas(Windows(11, 1000), Windows(2, 1000), lambda: 0.0)
    quotas.follow(image_of(({USER: "u"}, {"controller_mutation_rate": "5"})))
    assert quotas.mutations.budget("v", "c", strict=True) is None
    first = quotas.mutations.budget("u", "a", strict=True)
    assert first is not None
    first.spend(12)
    assert first.throttle_ms == 0, "what overdraws is made"
    second = quotas.mutations.budget("u", "b", strict=False)
    assert second is not None
    second.spend(3)
    assert second.throttle_ms == 1000


def test_changed_mutation_quota_fills_the_bucket_at_its_new_rate() -> None:
    now_ms = 0.0
    quotas = ClientQuotas(Windows(11, 1000), Windows(2, 1000), lambda: now_ms)

    def throttle_ms(partitions: int) -> int:
        budget = quotas.mutations.budget("u", "c", strict=False)
        assert budget is not None
        budget.spend(partitions)
        return budget.throttle_ms

    quotas.follow(image_of(({USER: "u"}, {"controller_mutation_rate": "5"})))
    assert throttle_ms(12) == 400, "2 tokens at 5 a second"
    quotas.follow(image_of(({USER: "u"}, {"controller_mutation_rate": "20"})))
    assert throttle_ms(0) == 100, "2 tokens at 20 a second"
    now_ms = 10_000.0
    assert throttle_ms(40) == 0, "the bucket holds two windows of the new rate"
    now_ms = 20_000.0
    quotas.follow(image_of(({USER: "u"}, {"controller_mutation_rate": "1"})))
    assert throttle_ms(5) == 3000, "a lower rate takes away what its bucket cannot hold"


def test_any_set_says_whether_an_entity_has_a_quota() -> None:
    user = {USER: "u"}
    key = entity_key(user)
    assert any_set(image_of((user, {QUOTA: "5"})), [key])
    assert not any_set(image_of((user, {"SCRAM-SHA-256": "x"})), [key])
    assert not any_set(image_of((user, {QUOTA: "5"})), [(2, "users/u")])


def test_concern_is_true_only_with_a_quota_for_the_request() -> None:
    quotas = ClientQuotas(Windows(11, 1000), Windows(11, 1000), lambda: 0.0)
    quotas.follow(
        image_of(
            ({USER: "writer"}, {"producer_byte_rate": "1000"}),
            ({USER: "reader"}, {"consumer_byte_rate": "1000"}),
        )
    )
    assert quotas.concern("writer", "c", produces=True)
    assert not quotas.concern("writer", "c", produces=False)
    assert not quotas.concern("reader", "c", produces=True), "a Fetch counts its own bytes"


def test_produced_bytes_are_measured_with_the_clock() -> None:
    now_ms = 0.0
    quotas = ClientQuotas(Windows(11, 1000), Windows(11, 1000), lambda: now_ms)
    quotas.follow(image_of(({USER: "u"}, {"producer_byte_rate": "1000"})))
    assert quotas.produced("u", "c", 10_500) == 500
    assert quotas.produced("v", "c", 10_500) == 0
    now_ms = 11_000.0
    assert quotas.produced("u", "c", 10_000) == 0, "what was produced before is over"
    assert quotas.produced("u", "c", 500) == 500
    assert quotas.requested("u", "c", 1e12) == 0
    assert quotas.fetched("u", "c", 10**9) == 0


def test_oldest_rates_and_bounds_are_removed_above_the_limit(few_rates: int) -> None:
    rates = rates_of(({CLIENT_ID: None}, {QUOTA: "1000"}))
    rates.record("u", "first", 10_500, 0)
    for number in range(few_rates - 1):
        rates.record("u", f"a{number}", 1, 0)
    assert rates.record("u", "first", 0, 0) == 500, "one of the limit's number is remembered"
    rates.record("u", "another", 1, 0)
    assert rates.record("u", "a0", 10_500, 0) == 500, "it was the oldest, and is forgotten"
    assert rates.record("u", "a2", 10_499, 0) == 500, "it is not"
    assert len(rates._rates) == few_rates
    assert len(rates._bounds) <= few_rates


def test_take_back_subtracts_from_the_same_rate() -> None:
    rates = rates_of(({USER: "u"}, {QUOTA: "1000"}))
    assert rates.record("u", "a", 10_500, 0) == 500
    rates.take_back("v", "a", 10_500, 0)
    assert rates.record("u", "b", 0, 0) == 500
    rates.take_back("u", "b", 400, 0)
    assert rates.record("u", "a", 0, 0) == 100


def test_strict_budget_refuses_without_charging_while_overdrawn() -> None:
    now_ms = 0.0
    quotas = ClientQuotas(Windows(11, 1000), Windows(2, 1000), lambda: now_ms)
    quotas.follow(image_of(({USER: "u"}, {"controller_mutation_rate": "5"})))
    budget = quotas.mutations.budget("u", "c", strict=True)
    assert budget is not None
    budget.spend(10)
    budget.spend(15)
    for _ in range(2):
        with pytest.raises(Refusal) as refusal:
            budget.spend(1)
        assert refusal.value.error == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert (budget.throttle_ms, owed_ms(budget)) == (3000, 3000)
    now_ms = 2_999.0
    with pytest.raises(Refusal):
        budget.spend(1)
    now_ms = 3_000.0
    budget.spend(1)
    assert budget.throttle_ms == 0


def test_oldest_buckets_are_removed_above_the_limit(few_rates: int) -> None:
    quotas = ClientQuotas(Windows(11, 1000), Windows(2, 1000), lambda: 0.0)
    quotas.follow(image_of(({CLIENT_ID: None}, {"controller_mutation_rate": "1"})))

    def owes_ms(client_id: str, partitions: int) -> int:
        budget = quotas.mutations.budget("u", client_id, strict=False)
        assert budget is not None
        budget.spend(partitions)
        return budget.throttle_ms

    assert owes_ms("first", 3) == 1000
    for number in range(few_rates - 1):
        owes_ms(f"a{number}", 3)
    assert owes_ms("first", 0) == 1000, "one of the limit's number is remembered"
    assert owes_ms("another", 3) == 1000
    assert owes_ms("a0", 0) == 0, "it was the oldest, and is forgotten"
    assert owes_ms("first", 0) == 1000


def test_address_rates_follow_the_image() -> None:
    image = image_of(
        ({USER: "10.0.0.1"}, {"producer_byte_rate": "1"}),
        ({IP: "10.0.0.2"}, {"producer_byte_rate": "1"}),
        ({IP: "10.0.0.3"}, {"connection_creation_rate": "1"}),
    ).with_all_configs([((2, "topic"), {"connection_creation_rate": "1"})])
    rates = AddressRates(Windows(11, 1000), lambda: 0.0)
    rates.follow(image)
    assert rates.names == {"10.0.0.3"}
    assert [rates.throttle_ms("10.0.0.3") for _ in range(12)] == [0] * 10 + [1000] * 2
    assert [rates.throttle_ms("10.0.0.1") for _ in range(12)] == [0] * 12
    rates.follow(image_of(({IP: "10.0.0.3"}, {"connection_creation_rate": "2"})))
    assert [rates.throttle_ms("10.0.0.3") for _ in range(11)] == [0] * 10 + [500], "it is kept"


@pytest.mark.parametrize("quota", ["connection_creation_rate", "controller_mutation_rate"])
def test_each_kind_of_quota_is_enforced(quota: str) -> None:
    entity = {IP: "::1"} if quota.startswith("connection") else {CLIENT_ID: None}
    other = {USER: "u"}
    image = image_of((entity, {quota: "5"}))
    assert any_set(image, [entity_key(other), entity_key(entity)])
    assert not any_set(image, [entity_key(other)])
    assert not any_set(image, [])
