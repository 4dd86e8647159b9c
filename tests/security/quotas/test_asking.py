"""The entities that DescribeClientQuotas finds, and its errors with Kafka's messages."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from kwire.cluster.metadata.entities import CLIENT_ID, IP, USER, Entity, entity_key
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.security.quotas.asking import ANY, DEFAULT, EXACT, QuotaFilter, found
from kwire.security.quotas.enforced import begun

Component = tuple[str, int, str | None]

ENTITIES: list[Entity] = [
    {USER: user, CLIENT_ID: client}
    for user, client in itertools.product(("u", "v", None), ("c", "d", None))
]
ENTITIES += [{kind: name} for kind in (USER, CLIENT_ID) for name in ("u", "c", None)]
ENTITIES += [{IP: "10.0.0.1"}, {IP: None}]

FILTERS: list[tuple[Component, ...]] = [
    (),
    *[((kind, EXACT, name),) for kind in (USER, CLIENT_ID) for name in ("u", "c", "")],
    *[((kind, DEFAULT, None),) for kind in (USER, CLIENT_ID, IP)],
    *[((kind, ANY, None),) for kind in (USER, CLIENT_ID, IP)],
    ((IP, EXACT, "10.0.0.1"),),
    *itertools.product(
        [(USER, EXACT, "u"), (USER, DEFAULT, None), (USER, ANY, None)],
        [(CLIENT_ID, EXACT, "c"), (CLIENT_ID, DEFAULT, None), (CLIENT_ID, ANY, None)],
    ),
]


def asked_for(entity: Entity, components: tuple[Component, ...], strict: bool) -> bool:
    """The rule of Kafka's protocol guide, applied to one component after the other."""
    for kind, match_type, name in components:
        if kind not in entity:
            return False
        if match_type != ANY and entity[kind] != name:
            return False
    return not strict or len(entity) == len(components)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("components", FILTERS, ids=str)
def test_quota_filter_matches_entities_of_its_components(
    components: tuple[Component, ...], strict: bool
) -> None:
    quota_filter = QuotaFilter(components, strict)
    for entity in ENTITIES:
        assert quota_filter.matches(entity) == asked_for(entity, components, strict), entity


def test_quota_filter_skips_entities_without_quotas() -> None:
    image = ClusterImage("c").with_all_configs(
        [
            ((2, "topic"), {"retention.ms": "5"}),
            (entity_key({USER: "v"}), {"SCRAM-SHA-256": "x"}),
            (entity_key({USER: "u"}), {"producer_byte_rate": "5", "SCRAM-SHA-256": "x"}),
            (entity_key({USER: "w"}), {"SCRAM-SHA-256": "x"}),
        ]
    )
    assert [*found(image, QuotaFilter([], False))] == [({USER: "u"}, {"producer_byte_rate": 5.0})]


REFUSED: list[tuple[list[Component], ErrorCode, str]] = [
    ([("", EXACT, "u")], ErrorCode.INVALID_REQUEST, "Invalid empty entity type."),
    *[
        (
            [(USER, first, name), (USER, EXACT, "v")],
            ErrorCode.INVALID_REQUEST,
            "Entity type user cannot appear more than once in the filter.",
        )
        for first, name in ((EXACT, "u"), (DEFAULT, None), (ANY, None))
    ],
    ([("group", EXACT, "g")], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group"),
    (
        [(USER, EXACT, None)],
        ErrorCode.INVALID_REQUEST,
        "Request specified MATCH_TYPE_EXACT, but set match string to null.",
    ),
    (
        [(USER, DEFAULT, "u")],
        ErrorCode.INVALID_REQUEST,
        "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
    ),
    (
        [(USER, ANY, "u")],
        ErrorCode.INVALID_REQUEST,
        "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
    ),
    ([(USER, 3, None)], ErrorCode.INVALID_REQUEST, "Unknown match type 3"),
    *[
        (
            [(IP, EXACT, "10.0.0.1"), (kind, ANY, None)],
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be"
            " used with user or clientId filter component.",
        )
        for kind in (USER, CLIENT_ID)
    ],
]


@pytest.mark.parametrize(("components", "error", "message"), REFUSED)
def test_invalid_quota_filter_is_refused_with_kafkas_message(
    components: list[Component], error: ErrorCode, message: str
) -> None:
    with pytest.raises(Refusal) as refusal:
        QuotaFilter(components, False)
    assert (refusal.value.error, refusal.value.message) == (error, message)


def test_quotas_use_the_windows_of_the_settings() -> None:
    config = SimpleNamespace(
        quota_window_num=3,
        quota_window_size_seconds=2,
        controller_quota_window_num=4,
        controller_quota_window_size_seconds=5,
    )
    key = entity_key({USER: "u"})
    image = ClusterImage("c").with_all_configs(
        [(key, {"consumer_byte_rate": "100", "controller_mutation_rate": "1"})]
    )
    assert begun(config, ClusterImage("c"), [key], lambda: 0.0) is None
    quotas = begun(config, image, [key], lambda: 0.0)
    assert quotas is not None
    assert quotas.most_fetched("u", "c") == 100 * (3 - 1) * 2
    budget = quotas.mutations.budget("u", "c", strict=False)
    assert budget is not None
    assert budget.throttle_ms == 0
    budget.spend(4 * 5)
    assert budget.throttle_ms == 0, "a burst of all windows together is paid at once"
    budget.spend(100)
    assert 99_000 <= budget.throttle_ms <= 100_000
    known = quotas.mutations._windows
    assert (known.count, known.size_ms) == (4, 5000)
