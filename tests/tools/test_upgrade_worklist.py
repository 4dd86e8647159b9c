"""The work list of an upgrade has what is new in a release, and says what kwire has of it."""

from __future__ import annotations

import json

import pytest

from kwire.settings.broker import BrokerConfig
from kwire.settings.definition import Definition
from tools.upgrade.facts import Api, Error, Facts, FeatureLevel, Setting, parse_facts
from tools.upgrade.item import Item, list_text
from tools.upgrade.jars import JsonSchema, comments_in, parse_json
from tools.upgrade.release import Release
from tools.upgrade.serving import Serving, Status
from tools.upgrade.worklist import work_list

SERVED, TO_DO, GATED = Status
NOTHING = Facts([], [], [], [])


def schema(**members: object) -> JsonSchema:
    """The schema of a request of API key 7 in versions 0-1, or with other members."""
    given = {"type": "request", "apiKey": 7, "validVersions": "0-1", "flexibleVersions": "none"}
    return JsonSchema("kafka-clients", {**given, "name": "OneRequest", "fields": [], **members})


def field(name: str, versions: str = "0+", **members: object) -> dict[str, object]:
    return {"name": name, "type": "int32", "versions": versions, **members}


def setting(name: str, *, resource: str = "broker", default: str = "1") -> Setting:
    return Setting(resource, name, "INT", default, "", "LOW", "read-only", False, "", "It counts.")


def declared(name: str) -> Definition:
    return BrokerConfig.DEFINITIONS[name]


def serving(
    *,
    versions: dict[int, tuple[int, int]] | None = None,
    settings: dict[tuple[str, str], Definition] | None = None,
    features: dict[str, tuple[int, int]] | None = None,
    names: tuple[str, ...] = (),
) -> Serving:
    return Serving(
        versions or {}, settings or {}, frozenset({"retries"}), features or {}, frozenset(names)
    )


def items(
    before: Facts | list[JsonSchema], after: Facts | list[JsonSchema], has: Serving
) -> list[tuple[str, Status, str]]:
    """Text, status and note of the items between two releases."""
    found = work_list(release(before), release(after), has)
    return [(item.text, item.status, item.note) for item in found]


def release(given: Facts | list[JsonSchema]) -> Release:
    """A release with these facts, or with these messages of API key 7."""
    if isinstance(given, Facts):
        return Release("9.9.0", [], given)
    return Release("9.9.0", given, NOTHING._replace(apis=[api(7, 0, 1)]))


def api(
    key: int, low: int, high: int, *, stable: int | None = None, on: tuple[str, ...] = ("broker",)
) -> Api:
    return Api(key, f"Api{key}", low, high, high if stable is None else stable, on)


def test_new_api_key_is_served_if_the_route_has_all_stable_versions() -> None:
    after = NOTHING._replace(apis=[api(1, 0, 3), api(2, 0, 2), api(3, 0, 0)])
    has = serving(versions={1: (0, 3), 2: (0, 1)})
    assert items(NOTHING, after, has) == [
        ("new: 1 Api1, versions 0-3, broker", SERVED, ""),
        ("new: 2 Api2, versions 0-2, broker", TO_DO, "the route has 0-1"),
        ("new: 3 Api3, versions 0-0, broker", TO_DO, "no route"),
    ]


def test_unstable_versions_and_requests_of_controllers_are_gated() -> None:
    before = NOTHING._replace(apis=[api(1, 0, 3), api(2, 0, 0, on=("controller",))])
    after = NOTHING._replace(
        apis=[api(1, 0, 4, stable=3), api(2, 0, 1, on=("controller",)), api(3, 0, 0, stable=-1)]
    )
    assert items(before, after, serving()) == [
        ("1 Api1: version 4", GATED, "unstable version"),
        ("2 Api2: versions 0-0 → 0-1", GATED, "for controllers"),
        ("new: 3 Api3, versions none, broker", GATED, "unstable version"),
        ("3 Api3: version 0", GATED, "unstable version"),
    ]


def test_removed_key_and_versions_are_items_until_kwire_has_removed_them() -> None:
    before = NOTHING._replace(apis=[api(1, 0, 3), api(2, 0, 0), api(3, 0, 0)])
    after = NOTHING._replace(apis=[api(1, 1, 3)])
    assert items(before, after, serving(versions={1: (0, 3), 2: (0, 0)})) == [
        ("2 Api2 is gone", TO_DO, ""),
        ("3 Api3 is gone", SERVED, ""),
        ("1 Api1: versions 0-3 → 1-3", TO_DO, "the route has 0-3"),
    ]


def test_field_is_served_if_its_version_is_and_code_names_it() -> None:
    before = [schema(fields=[field("Old")])]
    fields = [field("Old", default="-1"), field("NewOne", "1+"), field("NoOne")]
    after = [schema(fields=fields)]
    names = ("old", "new_one")
    assert items(before, after, serving(versions={7: (0, 1)}, names=names)) == [
        ("OneRequest: Old: int32 → int32 = -1", SERVED, ""),
        ("OneRequest: new NewOne: int32, 1+", SERVED, ""),
        ("OneRequest: new NoOne: int32", TO_DO, "no code names no_one"),
    ]
    assert [status for _, status, _ in items(before, after, serving(versions={7: (0, 0)}))] == [
        TO_DO
    ] * 3


def test_renamed_field_is_one_item_and_a_removed_one_another() -> None:
    before = [schema(fields=[field("Id"), field("Gone", "0"), field("Kept")])]
    after = [schema(fields=[field("Number"), field("Kept", mapKey=True)])]
    has = serving(versions={7: (0, 1)}, names=("number", "kept"))
    assert items(before, after, has) == [
        ("OneRequest: Id is renamed Number: int32", SERVED, ""),
        ("OneRequest: Kept: int32 → int32, map key", SERVED, ""),
        ("OneRequest: Gone: int32, 0 is gone", SERVED, ""),
    ]


def test_new_record_is_one_item_with_its_fields() -> None:
    pair = {"name": "Pair", "fields": [field("Key")]}
    record = schema(
        name="OneRecord",
        type="metadata",
        fields=[field("Pairs", type="[]Pair")],
        commonStructs=[pair],
    )
    (found,) = work_list(
        Release("1", [], NOTHING), Release("2", [record], NOTHING), serving(names=("OneRecord",))
    )
    assert found.text == "new message: metadata 7 OneRecord, versions 0-1"
    assert found.status is SERVED
    assert found.details == ["Pairs: []Pair", "Pair.Key: int32"]


def test_new_comments_and_descriptions_of_fields_are_in_the_list() -> None:
    text = """// A licence.
    { "apiKey": 7, "type": "request", "name": "OneRequest",
      // Version 1 is new.
      //
      "validVersions": "0-1", "flexibleVersions": "none", "fields": [
        // Why it is there.
        {"name": "Id", "type": "int32", "versions": "0+", "about": "The id."} ] }"""
    after = JsonSchema("kafka-clients", parse_json(text), comments_in(text))
    before = JsonSchema("kafka-clients", after.json, ("Why it is there.",))
    described = schema(fields=[field("Id", about="An id.")])
    api_facts = NOTHING._replace(apis=[api(7, 0, 1)])
    has = serving(versions={7: (0, 1)})

    def details(old: JsonSchema) -> list[list[str]]:
        found = work_list(Release("1", [old], api_facts), Release("2", [after], api_facts), has)
        return [list(item.details) for item in found]

    assert details(before) == [["Version 1 is new."]]
    assert details(described) == [["Version 1 is new.", "Why it is there.", "Id: The id."]]
    assert details(after) == []


def test_error_code_is_served_if_code_names_it() -> None:
    before = NOTHING._replace(errors=[Error(1, "OLD", False), Error(2, "LOST", False)])
    after = NOTHING._replace(
        errors=[Error(1, "OLD", True), Error(3, "USED", False), Error(4, "UNUSED", True)]
    )
    assert items(before, after, serving(names=("OLD", "USED"))) == [
        ("2 LOST is gone", TO_DO, ""),
        ("1 OLD → OLD, retriable", SERVED, ""),
        ("3 USED, not retriable", SERVED, ""),
        ("4 UNUSED, retriable", TO_DO, "no code names it"),
    ]


def test_new_setting_is_served_if_it_acts_or_has_no_meaning() -> None:
    acts, later, never = "num.partitions", "broker.rack", "num.io.threads"
    assert declared(acts).effect.acts
    declarations = {("broker", name): declared(name) for name in (acts, later, never)}
    after = NOTHING._replace(
        settings=[setting(name) for name in (acts, never)]
        + [setting("no.such"), setting("its.own")._replace(internal=True)]
    )
    found = items(NOTHING, after, serving(settings=declarations))
    assert [(text.split()[2], status) for text, status, _ in found] == [
        ("its.own:", GATED),
        ("no.such:", TO_DO),
        ("num.io.threads:", SERVED),
        ("num.partitions:", SERVED),
    ]
    assert found[2][2] == declared(never).effect.note


def test_changed_default_is_to_be_done_until_it_is_declared() -> None:
    before = NOTHING._replace(settings=[setting("num.partitions", default="0")])
    after = NOTHING._replace(settings=[setting("num.partitions", default="1")])
    is_declared = {("broker", "num.partitions"): declared("num.partitions")}
    (found,) = items(before, after, serving(settings=is_declared))
    assert found[:2] == ("broker: num.partitions: default 0 → 1", TO_DO)
    assert found[2].startswith("declared with INT 1 ")
    importance = declared("num.partitions").importance.name
    after.settings[0] = after.settings[0]._replace(importance=importance)
    before.settings[0] = before.settings[0]._replace(importance=importance)
    assert items(before, after, serving(settings=is_declared)) == [
        ("broker: num.partitions: default 0 → 1", SERVED, "")
    ]


def test_setting_that_several_clients_have_is_one_item() -> None:
    clients = ("admin", "consumer", "streams")
    after = NOTHING._replace(settings=[setting("retries", resource=name) for name in clients])
    assert items(NOTHING, after, serving()) == [
        ("admin, consumer, streams: new: retries: INT = 1, read-only", SERVED, "")
    ]


def test_setting_of_streams_alone_is_gated_and_an_unknown_one_of_clients_is_not() -> None:
    after = NOTHING._replace(
        settings=[setting("its.own", resource="streams"), setting("other", resource="producer")]
    )
    assert items(NOTHING, after, serving()) == [
        ("producer: new: other: INT = 1, read-only", TO_DO, ""),
        ("streams: new: its.own: INT = 1, read-only", GATED, "Kafka Streams' own"),
    ]


def test_changed_documentation_of_a_setting_is_an_item() -> None:
    before = NOTHING._replace(settings=[setting("retries", resource="admin")])
    changed = before.settings[0]._replace(documentation="It\n counts <b>all</b>.")
    after = NOTHING._replace(settings=[changed])
    (found,) = work_list(Release("1", [], before), Release("2", [], after), serving())
    assert found.text == "admin: documentation of retries"
    assert found.details == ["It counts <b>all</b>."]


def level(number: int, *, production: bool = True, **abilities: str) -> FeatureLevel:
    return FeatureLevel("f.version", number, f"F{number}", production, "{}", "4.0", abilities)


def test_level_of_a_feature_is_served_if_it_is_supported() -> None:
    before = NOTHING._replace(features=[level(0), level(1, production=False)])
    levels = [level(0), level(1, isOn="false"), level(2, isOn="true"), level(3, production=False)]
    after = NOTHING._replace(features=levels)
    assert items(before, after, serving(features={"f.version": (0, 1)})) == [
        ("f.version 1 F1", SERVED, ""),
        ("new: f.version 2 F2", TO_DO, "kwire supports 0 to 1"),
        ("new: f.version 3 F3", GATED, "not for production"),
    ]
    found = work_list(Release("1", [], before), Release("2", [], after), serving())
    assert [list(item.details) for item in found[:2]] == [
        ["now for production"],
        ["isOn=true", "new clusters have it from metadata.version 4.0"],
    ]


def test_list_counts_the_items_of_each_section_and_status() -> None:
    found = [
        Item("Features", "one", SERVED),
        Item("Features", "two", TO_DO, "why", ["what"]),
        Item("Error codes", "three", GATED),
    ]
    assert list_text(found, "1.0", "2.0") == (
        "# From Apache Kafka 1.0 to 2.0\n\n"
        "3 items: 1 served, 1 to be done, 1 gated.\n\n"
        "## Error codes\n\n1 items: 0 served, 0 to be done, 1 gated.\n\n- gated: three\n\n"
        "## Features\n\n2 items: 1 served, 1 to be done, 0 gated.\n\n"
        "- served: one\n- to be done: two (why)\n  - what\n"
    )


def test_releases_without_changes_have_an_empty_list() -> None:
    facts = Facts([api(7, 0, 1)], [Error(1, "OLD", True)], [setting("one")], [level(0)])
    one = Release("1", [schema(fields=[field("Id")])], facts)
    assert work_list(one, one, serving()) == []


@pytest.mark.parametrize("listeners", [["broker", "controller"], ["controller", "broker"]])
def test_facts_are_parsed_from_json(listeners: list[str]) -> None:
    row = {"key": 1, "name": "Fetch", "min": 4, "max": 18, "stable": 18, "listeners": listeners}
    text = json.dumps({"apis": [row], "errors": [], "settings": [], "features": []})
    assert parse_facts(text).apis == [Api(1, "Fetch", 4, 18, 18, ("broker", "controller"))]
