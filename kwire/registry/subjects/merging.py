"""Metadata and rules of a schema, merged with those that a config has for all schemas.

Source: Confluent Schema Registry's documentation, Data contracts, Configuration enhancements: the
default comes first, then what the schema has, then the override.
"""

from __future__ import annotations

from kwire.registry.subjects.records import JsonObject


def merged_metadata(*given: JsonObject | None) -> JsonObject | None:
    """Metadata of which later ones win; None if there are none."""
    merged: JsonObject | None = None
    for each in given:
        if each is None:
            continue
        if merged is None:
            merged = each
            continue
        fields: JsonObject = {**merged, **each}
        for name in ("tags", "properties"):
            if isinstance(merged.get(name), dict) and isinstance(each.get(name), dict):
                fields[name] = {**merged[name], **each[name]}
        if isinstance(merged.get("sensitive"), list) and isinstance(each.get("sensitive"), list):
            fields["sensitive"] = sorted({*merged["sensitive"], *each["sensitive"]})
        merged = fields
    return merged


def merged_rule_set(*given: JsonObject | None) -> JsonObject | None:
    """Rules, of which a later one replaces an earlier one of its name; None if there are none."""
    merged: JsonObject | None = None
    for each in given:
        if each is None:
            continue
        if merged is None:
            merged = each
            continue
        fields: JsonObject = {**merged, **each}
        for name in ("migrationRules", "domainRules", "encodingRules"):
            old, new = merged.get(name), each.get(name)
            if isinstance(old, list) and isinstance(new, list):
                names = [rule.get("name") for rule in new if isinstance(rule, dict)]
                fields[name] = [rule for rule in old if rule.get("name") not in names] + new
        merged = fields
    return merged
