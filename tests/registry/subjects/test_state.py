"""What the records of the topic amount to."""

from __future__ import annotations

import json

import pytest

from kwire.registry.subjects.records import (
    InvalidRecordError,
    Key,
    KeyKind,
    SchemaVersion,
    Write,
    digest_of,
)
from kwire.registry.subjects.state import Filter, Mode, RecordOutcome, RegistryState
from tests.registry.subjects.toy import Machine


def version(subject: str, number: int, schema_id: int, schema: str = "a") -> SchemaVersion:
    digest = digest_of(schema, (), None, None)
    return SchemaVersion(subject, number, schema_id, schema, digest=digest)


def apply(registry: RegistryState, made: SchemaVersion) -> RecordOutcome:
    return registry.apply(made.key.encoded(), Write(made.key, made.value()).encoded_value())


def test_version_with_another_content_than_the_one_that_exists_is_rejected() -> None:
    registry = RegistryState()
    assert apply(registry, version("s", 1, 1, "a")) is RecordOutcome.APPLIED
    assert apply(registry, version("s", 1, 2, "b")) is RecordOutcome.REJECTED
    assert registry.subjects["s"][1].schema == "a"
    assert registry.by_id(2) is None


def test_id_of_another_schema_is_rejected() -> None:
    registry = RegistryState()
    apply(registry, version("s", 1, 1, "a"))
    assert apply(registry, version("t", 1, 1, "b")) is RecordOutcome.REJECTED
    assert "t" not in registry.subjects
    found = registry.by_id(1)
    assert found is not None
    assert found.schema == "a"


def test_id_of_another_schema_in_another_context_is_applied() -> None:
    registry = RegistryState()
    apply(registry, version("s", 1, 1, "a"))
    assert apply(registry, version(":.lab:t", 1, 1, "b")) is RecordOutcome.APPLIED


def test_rejected_version_is_repaired_by_writing_the_earlier_one_again() -> None:
    registry = RegistryState()
    first = version("s", 1, 1, "a")
    apply(registry, first)
    apply(registry, version("s", 1, 2, "b"))
    assert registry.repairs == {first.key: first}
    assert apply(registry, first) is RecordOutcome.APPLIED
    assert not registry.repairs


def test_rejected_version_of_a_new_key_is_repaired_by_removing_it() -> None:
    registry = RegistryState()
    apply(registry, version("s", 1, 1, "a"))
    wrong = version("t", 1, 1, "b")
    apply(registry, wrong)
    assert registry.repairs == {wrong.key: None}
    assert registry.apply(wrong.key.encoded(), None) is RecordOutcome.APPLIED
    assert not registry.repairs


def test_version_is_replaced_in_import_mode() -> None:
    registry = RegistryState()
    apply(registry, version("s", 1, 1, "a"))
    key = Key(KeyKind.MODE, "s").encoded()
    registry.apply(key, b'{"subject":"s","mode":"IMPORT"}')
    assert apply(registry, version("s", 1, 9, "b")) is RecordOutcome.APPLIED
    assert registry.by_id(1) is None
    assert apply(registry, version("s", 1, 9, "c")) is RecordOutcome.APPLIED
    apply(registry, version("t", 1, 9, "c"))
    assert apply(registry, version("s", 1, 9, "d")) is RecordOutcome.REJECTED


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"{", None),
        (Key(KeyKind.SCHEMA, "s", 1).encoded(), b"{}"),
        (Key(KeyKind.SCHEMA, "s", 1).encoded(), b"["),
        (Key(KeyKind.SCHEMA, "s", 2).encoded(),
         b'{"subject":"s","version":1,"id":1,"schema":"a"}'),
        (Key(KeyKind.DELETE_SUBJECT, "s").encoded(), b'{"subject":"s","version":"x"}'),
        (Key(KeyKind.NOOP).encoded(), b'{"maxIds":{".":"x"}}'),
        (Key(KeyKind.CONFIG).encoded(), b"1"),
    ],
)  # fmt: skip
def test_record_that_cannot_be_read_is_an_error_and_changes_nothing(
    key: bytes, value: bytes | None
) -> None:
    registry = RegistryState()
    apply(registry, version("s", 1, 1))
    with pytest.raises(InvalidRecordError):
        registry.apply(key, value)
    assert registry.versions("s") == [version("s", 1, 1)]


def test_record_of_an_unknown_kind_is_ignored() -> None:
    registry = RegistryState()
    assert registry.apply(b'{"keytype":"EXPORTER"}', b"{}") is RecordOutcome.IGNORED


def test_deleted_version_is_found_by_its_id() -> None:
    machine = Machine()
    made = machine.register("s", "a")
    machine.delete_subject("s")
    found = machine.registry.by_id(made.id)
    assert found is not None
    assert found.schema == "a"
    assert machine.registry.versions("s") == []
    assert [each.version for each in machine.registry.versions("s", Filter.DELETED)] == [1]


def test_id_names_a_live_version_before_a_deleted_one() -> None:
    machine = Machine()
    machine.register("s", "a")
    machine.register("t", "a")
    machine.delete_subject("s")
    found = machine.registry.by_id(1)
    assert found is not None
    assert found.subject == "t"


def test_clearing_a_subject_forgets_its_deleted_versions() -> None:
    machine = Machine()
    machine.register("s", "a")
    machine.register("s", "a b?")
    machine.delete("s", 1)
    key = Key(KeyKind.CLEAR_SUBJECT, "s")
    machine.write([Write(key, {"subject": "s"})])
    assert [each.version for each in machine.registry.versions("s", Filter.ALL)] == [2]
    assert machine.registry.by_id(1) is None


def test_latest_version_is_the_highest_that_is_not_deleted() -> None:
    machine = Machine()
    for schema in ("a", "a b?", "a b? c?"):
        machine.register("s", schema)
    machine.delete("s", 3)
    latest = machine.registry.version("s", None)
    assert latest is not None
    assert latest.version == 2
    assert machine.registry.version("s", 3) is None
    assert machine.registry.version("s", 3, deleted=True) is not None


def test_version_is_found_in_another_context_if_the_default_one_lacks_it() -> None:
    machine = Machine()
    machine.register(":.lab:s", "a")
    found = machine.registry.version("s", None)
    assert found is not None
    assert found.subject == ":.lab:s"
    assert machine.registry.own_version("s", None) is None


def test_subjects_match_by_prefix_within_a_context() -> None:
    machine = Machine()
    for name in ("ab", "ac", "b", ":.lab:ab", ":.lab:b"):
        machine.register(name, "a")
    registry = machine.registry
    assert registry.matching("") == ["ab", "ac", "b"]
    assert registry.matching("a") == ["ab", "ac"]
    assert registry.matching(":.lab:") == [":.lab:ab", ":.lab:b"]
    assert registry.matching(":.lab:a") == [":.lab:ab"]
    assert registry.matching(":*:") == [":.lab:ab", ":.lab:b", "ab", "ac", "b"]
    assert registry.matching(":*:a") == [":.lab:ab", "ab", "ac"]


def test_config_of_a_subject_comes_before_those_of_context_and_registry() -> None:
    machine = Machine()
    machine.configure("", compatibility="none", normalize=True)
    machine.configure(":.lab:", compatibility="full")
    machine.configure(":.lab:s", compatibilityGroup="app")
    registry = machine.registry
    assert registry.config_in_scope(":.lab:s") == {
        "subject": ":.lab:s", "compatibilityLevel": "FULL", "compatibilityGroup": "app",
        "normalize": True,
    }  # fmt: skip
    assert registry.config_in_scope("s")["compatibilityLevel"] == "NONE"


def test_mode_that_overrides_holds_for_subjects_with_another_mode() -> None:
    machine = Machine()
    machine.set_mode("s", "READWRITE")
    machine.set_mode("", "READONLY")
    assert machine.registry.mode_in_scope("s") == Mode.READWRITE
    assert machine.registry.mode_in_scope("t") == Mode.READONLY
    machine.set_mode("", "READONLY_OVERRIDE")
    assert machine.registry.mode_in_scope("s") == Mode.READONLY_OVERRIDE


def test_guid_finds_the_schema_in_every_context() -> None:
    machine = Machine()
    made = machine.register("s", "a")
    machine.register(":.lab:s", "a")
    found = machine.registry.by_guid(made.guid)
    assert [each.subject for each in found] == ["s", ":.lab:s"]
    assert machine.registry.by_guid("nonsense") == []


def test_value_of_an_alias_is_the_subject_for_which_it_stands() -> None:
    machine = Machine()
    machine.configure("old", alias="new")
    assert machine.registry.resolved_alias("old") == "new"
    assert machine.registry.resolved_alias("new") == "new"


def test_compaction_keeps_the_highest_id_of_schemas_that_are_gone() -> None:
    machine = Machine()
    machine.register("s", "a")
    machine.register("t", "b")
    machine.delete_subject("t")
    machine.delete_subject("t", permanent=True)
    again = Machine(machine.compacted())
    assert again.registry.by_id(2) is None
    assert again.register("u", "c").id == 3


def test_values_are_json_without_spaces() -> None:
    machine = Machine()
    machine.register("s", "a")
    assert [json.loads(key)["keytype"] for key, _ in machine.log] == ["SCHEMA"]
    assert machine.log[0][1] == (b'{"subject":"s","version":1,"id":1,"schema":"a","deleted":false}')
