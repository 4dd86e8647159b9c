"""Metadata and rules of a schema, merged with those that a config has for all schemas.

Source: Confluent Schema Registry's documentation, Data contracts, Configuration enhancements: the
default comes first, then what the schema has, then the override.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

from kwire.registry.subjects.records import JsonObject


def merged_metadata(*given: JsonObject | None) -> JsonObject | None:
    """Metadata of which later ones win; None if there are none."""
    return _merged(given, _merge_metadata)


def merged_rule_set(*given: JsonObject | None) -> JsonObject | None:
    """Rules, of which a later one replaces an earlier one of its name; None if there are none."""
    return _merged(given, _merge_rules)


def _merged(
    given: Iterable[JsonObject | None], merge: Callable[[JsonObject, JsonObject], JsonObject]
) -> JsonObject | None:
    """All that is given, merged one after another; None if nothing is."""
    there = [each for each in given if each is not None]
    return reduce(merge, there) if there else None


def _merge_metadata(old: JsonObject, new: JsonObject) -> JsonObject:
    """The metadata of both, of which the new ones win."""
    fields: JsonObject = {**old, **new}
    for name in ("tags", "properties"):
        if isinstance(old.get(name), dict) and isinstance(new.get(name), dict):
            fields[name] = {**old[name], **new[name]}
    if isinstance(old.get("sensitive"), list) and isinstance(new.get("sensitive"), list):
        fields["sensitive"] = sorted({*old["sensitive"], *new["sensitive"]})
    return fields


def _merge_rules(old: JsonObject, new: JsonObject) -> JsonObject:
    """The rules of both rule sets. A new rule replaces the old one of the same name."""
    fields: JsonObject = {**old, **new}
    for name in ("migrationRules", "domainRules", "encodingRules"):
        before, after = old.get(name), new.get(name)
        if isinstance(before, list) and isinstance(after, list):
            names = [rule.get("name") for rule in after if isinstance(rule, dict)]
            fields[name] = [rule for rule in before if rule.get("name") not in names] + after
    return fields
