"""Decisions to register schemas, and look-ups."""

from __future__ import annotations

import pytest

from kwire.registry.subjects.errors import RegistryError
from kwire.registry.subjects.proposals import read_proposal
from kwire.registry.subjects.state import Filter
from tests.registry.subjects.toy import Machine


def refused(code: int) -> pytest.RaisesExc[RegistryError]:
    """Expect a refusal with this code."""
    return pytest.RaisesExc(RegistryError, check=lambda error: error.code == code)


def test_first_schema_gets_version_and_id_one() -> None:
    made = Machine().register("s", "a")
    assert (made.version, made.id) == (1, 1)


def test_same_schema_is_registered_once() -> None:
    machine = Machine()
    machine.register("s", "a  b")
    length = len(machine.log)
    assert machine.register("s", "a b").version == 1
    assert len(machine.log) == length


def test_same_schema_has_one_id_in_all_subjects_of_a_context() -> None:
    machine = Machine()
    assert machine.register("s", "a").id == 1
    assert machine.register("t", "b").id == 2
    assert machine.register("u", "a").id == 1
    assert machine.register(":.lab:s", "b").id == 1


def test_deleted_version_does_not_hinder_and_is_removed_when_its_schema_returns() -> None:
    machine = Machine()
    machine.register("s", "a")
    machine.register("s", "a b?")
    machine.delete("s", 1)
    again = machine.register("s", "a")
    assert (again.version, again.id) == (3, 1)
    assert [each.version for each in machine.registry.versions("s", Filter.ALL)] == [2, 3]


def test_incompatible_schema_is_refused_with_its_reasons() -> None:
    machine = Machine()
    machine.register("s", "a")
    with pytest.raises(RegistryError) as caught:
        machine.register("s", "a b")
    assert (caught.value.code, caught.value.status) == (409, 409)
    assert caught.value.message == (
        'Schema being registered is incompatible with an earlier schema for subject "s", '
        "details: [b is missing, {oldSchemaVersion: 1}]"
    )


def test_schema_is_compared_with_the_latest_version_unless_the_level_is_transitive() -> None:
    machine = Machine()
    machine.register("s", "a")
    machine.register("s", "a b?")
    machine.register("s", "a b")
    machine.configure("s", compatibility="backward_transitive")
    with refused(409):
        machine.register("s", "a b c?")
    machine.configure("s", compatibility="none")
    assert machine.register("s", "z").version == 4


def test_deleted_versions_are_not_compared() -> None:
    machine = Machine()
    machine.register("s", "a")
    machine.delete("s", 1)
    assert machine.register("s", "b").version == 2


def test_versions_of_another_group_are_not_compared() -> None:
    machine = Machine()
    machine.configure("s", compatibility="BACKWARD", compatibilityGroup="major")
    machine.register("s", "a", metadata={"properties": {"major": "1"}})
    machine.register("s", "b", metadata={"properties": {"major": "2"}})
    with refused(409):
        machine.register("s", "c", metadata={"properties": {"major": "2"}})


def test_normalized_schema_is_equal_in_another_order() -> None:
    machine = Machine()
    made = machine.register("s", "b a", normalize=True)
    assert made.schema == "a b"
    assert machine.register("s", "b a", normalize=True).version == 1
    assert machine.find("s", "b a") is None
    machine.configure("", normalize=True)
    assert machine.find("s", "b a") is not None


@pytest.mark.parametrize("subject", ["", "\x01", "__GLOBAL", ":.lab:"])
def test_invalid_subject_is_refused(subject: str) -> None:
    with refused(42208):
        Machine().register(subject, "a")


@pytest.mark.parametrize("schema", ["bad", "", "   ", "\ud800"])
def test_text_that_is_no_schema_is_refused(schema: str) -> None:
    with refused(42201):
        Machine().register("s", schema)


def test_unknown_type_is_refused() -> None:
    with refused(42201):
        Machine().register("s", "a", schemaType="XML")


@pytest.mark.parametrize(
    "fields",
    [
        {"schema": 1},
        {"schema": "a", "schemaType": 1},
        {"schema": "a", "references": [1]},
        {"schema": "a", "references": {"name": "x"}},
        {"schema": "a", "references": [{"name": "x", "subject": "y"}]},
        {"schema": "a", "version": "1"},
        {"schema": "a", "version": True},
        {"schema": "a", "id": 1 << 31},
        {"schema": "a", "metadata": []},
        {"schema": "a", "ruleSet": "x"},
    ],
)
def test_request_with_a_field_of_the_wrong_type_is_refused(fields: dict[str, object]) -> None:
    with refused(422):
        read_proposal(fields)


def test_given_version_must_be_the_next() -> None:
    machine = Machine()
    machine.register("s", "a")
    with refused(42201):
        machine.register("s", "a b?", version=3)
    assert machine.register("s", "a b?", version=2).version == 2
    assert machine.register("s", "a b? c?", version=-1).version == 3


def test_read_only_subject_takes_no_schema() -> None:
    machine = Machine()
    machine.set_mode("s", "READONLY")
    with refused(42205):
        machine.register("s", "a")
    machine.register("t", "a")


def test_import_mode_takes_ids_and_versions() -> None:
    machine = Machine()
    with refused(42205):
        machine.register("s", "a", id=7)
    machine.set_mode("s", "IMPORT")
    with refused(42205):
        machine.register("s", "a")
    made = machine.register("s", "a", id=7, version=3)
    assert (made.id, made.version) == (7, 3)
    assert machine.register("s", "z", id=8, version=4).id == 8, "import compares nothing"
    with refused(42205):
        machine.register("s", "y", id=7, version=5)
    machine.set_mode("s", "READWRITE")
    assert machine.register("t", "x").id == 9


def test_import_mode_needs_a_subject_without_schemas() -> None:
    machine = Machine()
    machine.register("s", "a")
    with refused(42205):
        machine.set_mode("s", "IMPORT")
    with refused(42205):
        machine.set_mode("", "IMPORT")
    machine.set_mode("s", "IMPORT", force=True)
    machine.set_mode("s", "READWRITE")
    machine.delete_subject("s")
    machine.set_mode("s", "IMPORT")
    assert machine.registry.versions("s", Filter.ALL) == []


def test_empty_schema_takes_that_of_the_previous_version() -> None:
    machine = Machine()
    machine.register("s", "a")
    made = machine.register("s", "", metadata={"properties": {"owner": "me"}})
    assert (made.version, made.schema, made.id) == (2, "a", 2)


def test_metadata_of_the_previous_version_is_kept() -> None:
    machine = Machine()
    machine.register("s", "a", metadata={"properties": {"owner": "me"}})
    assert machine.register("s", "a").version == 1
    made = machine.register("s", "a b?")
    assert made.metadata == {"properties": {"owner": "me"}}


def test_config_adds_default_and_override_metadata() -> None:
    machine = Machine()
    machine.configure(
        "s",
        defaultMetadata={"properties": {"a": "default", "b": "default"}},
        overrideMetadata={"properties": {"c": "override"}},
        defaultRuleSet={"domainRules": [{"name": "r", "kind": "CONDITION"}]},
    )
    made = machine.register(
        "s", "x", metadata={"properties": {"b": "own", "c": "own"}},
        ruleSet={"domainRules": [{"name": "r", "kind": "TRANSFORM"}, {"name": "q"}]},
    )  # fmt: skip
    assert made.metadata == {"properties": {"a": "default", "b": "own", "c": "override"}}
    assert made.rule_set == {"domainRules": [{"name": "r", "kind": "TRANSFORM"}, {"name": "q"}]}


def reference(subject: str, version: int = 1) -> dict[str, object]:
    return {"name": f"name of {subject}", "subject": subject, "version": version}


def test_reference_must_exist() -> None:
    machine = Machine()
    with refused(42201):
        machine.register("s", "a", references=[reference("t")])
    machine.register("t", "b")
    machine.register("s", "a", references=[reference("t")])
    with refused(42201):
        machine.register("s", "a", references=[reference("t", 2)])


def test_referenced_texts_are_passed_to_the_parser_innermost_first() -> None:
    machine = Machine()
    machine.register("inner", "i")
    machine.register("middle", "m", references=[reference("inner")])
    made = machine.register("s", "a", references=[reference("middle"), reference("inner")])
    found = machine.schemas.resolved("s", made.references)
    assert list(found.items()) == [("name of inner", "i"), ("name of middle", "m")]


def test_reference_to_the_latest_version_is_kept_with_its_number() -> None:
    machine = Machine()
    machine.register("t", "b")
    machine.register("t", "b c?")
    made = machine.register("s", "a", references=[reference("t", -1)])
    assert made.references[0].version == 2
    with refused(42201):
        machine.register("s", "a", references=[reference("u", -1)])


def test_same_text_with_other_references_is_another_schema() -> None:
    machine = Machine()
    machine.register("t", "b")
    assert machine.register("s", "a").id == 2
    assert machine.register("s", "a", references=[reference("t")]).id == 3


def test_cycle_of_references_is_refused() -> None:
    machine = Machine()
    machine.set_mode("", "IMPORT")
    machine.register("s", "a", id=1, version=1)
    machine.register("t", "b", id=2, version=1, references=[reference("s")])
    with refused(42201):
        machine.register("s", "c", id=3, version=1, references=[reference("t")])
    with refused(42201):
        machine.register("s", "c", id=3, version=1, references=[reference("s")])


def test_references_of_which_one_is_named_twice_are_no_cycle() -> None:
    machine = Machine()
    machine.register("base", "b")
    for name in ("left", "right"):
        machine.register(name, name, references=[reference("base")])
    made = machine.register("s", "a", references=[reference("left"), reference("right")])
    assert len(machine.schemas.resolved("s", made.references)) == 3


def test_schema_that_another_registry_wrote_in_another_form_is_found() -> None:
    machine = Machine()
    key = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    machine.append(key, b'{"subject":"s","version":1,"id":4,"schema":"a   b","deleted":false}')
    assert machine.register("s", "a b").version == 1
    found = machine.find("s", "a b")
    assert found is not None
    assert found.id == 4


def test_look_up_returns_the_version_of_the_subject() -> None:
    machine = Machine()
    machine.register("s", "a")
    machine.register("t", "b")
    assert machine.find("s", "b") is None
    found = machine.find("t", "b")
    assert found is not None
    assert (found.version, found.id) == (1, 2)


def test_look_up_finds_deleted_versions_only_on_request() -> None:
    machine = Machine()
    machine.register("s", "a")
    machine.delete("s", 1)
    assert machine.find("s", "a") is None
    assert machine.find("s", "a", deleted=True) is not None
