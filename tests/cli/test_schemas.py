"""`kwire schemas`, and records that `produce` and `consume` write and read by a registry."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kwire.cli.grammar.asking import NO_TERMINAL
from tests.registry.double import RegistryDouble, registry_double

Kwire = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.slow

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "raw", "type": "bytes", "default": ""},
    ],
}
PERSON = 'syntax = "proto3"; import "city.proto"; message Person { City at = 1; } message Pet {}'
CITY = 'syntax = "proto3"; message City { string name = 1; int64 people = 2; }'
BILL = {"title": "Bill", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryDouble]:
    """A registry that the commands use."""
    with registry_double() as found:
        monkeypatch.setenv("KWIRE_SCHEMA_REGISTRY", found.url)
        yield found


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    (tmp_path / "person.proto").write_text(PERSON)
    (tmp_path / "city.proto").write_text(CITY)
    (tmp_path / "bill.json").write_text(json.dumps(BILL))
    return tmp_path


def test_schemas_are_registered_listed_described_and_deleted(
    kwire: Kwire, double: RegistryDouble, files: Path
) -> None:
    assert kwire("schemas", "register", "orders-value", str(files / "order.avsc")).stdout == "1\n"
    city = kwire("schemas", "register", "city", str(files / "city.proto"), "--normalize").stdout
    assert city == "2\n"
    person = str(files / "person.proto")
    refers = ("--reference", "city.proto=city:1")
    assert kwire("schemas", "register", "people", person, *refers).stdout == "3\n"
    listed = kwire("schemas", "list").stdout.splitlines()
    assert listed[0].split() == ["SUBJECT", "VERSION", "ID", "TYPE"]
    assert [line.split() for line in listed[1:]] == [
        ["city", "1", "2", "PROTOBUF"],
        ["orders-value", "1", "1", "AVRO"],
        ["people", "1", "3", "PROTOBUF"],
    ]
    found = json.loads(kwire("schemas", "list", "order", "--json").stdout)
    assert found == [{"subject": "orders-value", "version": 1, "id": 1, "type": "AVRO"}]
    described = kwire("schemas", "describe", "orders-value")
    assert json.loads(described.stdout) == ORDER
    assert described.stderr == "orders-value version 1, id 1, AVRO\n"
    by_id = kwire("schemas", "describe", "--id", "3")
    assert by_id.stdout == f"{PERSON}\n"
    assert by_id.stderr == "id 3, PROTOBUF\nrefers to city.proto: city version 1\n"
    assert json.loads(kwire("schemas", "describe", "people", "--json").stdout)["version"] == 1
    unanswered = kwire("schemas", "delete", "orders-value", status=2)
    assert NO_TERMINAL in unanswered.stderr
    would = kwire("schemas", "delete", "orders-value", "--dry-run")
    assert would.stdout.split()[-3:] == ["orders-value", "1", "1"]
    assert "1 version would be deleted" in would.stderr
    kwire("schemas", "delete", "orders-value", "--yes")
    assert "40401" in kwire("schemas", "describe", "orders-value", status=1).stderr
    kwire("schemas", "delete", "orders-value", "--version", "1", "--permanent", "-y")
    assert [each.subject for each in double.versions] == ["city", "people"]


def test_check_exits_with_1_and_the_reasons_if_a_schema_is_not_compatible(
    kwire: Kwire, double: RegistryDouble, files: Path
) -> None:
    order = str(files / "order.avsc")
    assert "is compatible with orders" in kwire("schemas", "check", "orders", order).stderr
    double.reasons["orders"] = ["the field id is missing", "another"]
    done = kwire("schemas", "check", "orders", order, "--version", "1", status=1)
    assert done.stdout == "the field id is missing\nanother\n"
    assert double.versions == []
    away = kwire("schemas", "check", "orders", order, "--registry", "http://127.0.0.1:1", status=2)
    assert "does not answer" in away.stderr
    assert "give --type" in kwire("schemas", "check", "orders", __file__, status=2).stderr


@pytest.mark.parametrize(
    "words",
    [
        ("schemas", "describe"),
        ("schemas", "describe", "a", "--id", "1"),
        ("produce", "t", "--schema", "order.avsc"),
        ("produce", "t", "-f", "avro", "--schema", "order.avsc", "--schema-id", "1"),
        ("produce", "t", "-f", "avro", "--no-register"),
        ("produce", "t", "-f", "avro", "--message", "A"),
        ("produce", "t", "-f", "avro", "--no-check"),
        ("produce", "t", "-f", "avro", "--keep-partitions"),
        ("consume", "t", "--skip-bad"),
        ("consume", "t", "-f", "json", "-k", ":"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    kwire: Kwire,
    double: RegistryDouble,
    files: Path,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(files)
    done = kwire(*words, status=2)
    assert done.stderr.startswith("Usage:"), done.stderr
    assert double.requests == []


def test_avro_of_produce_is_read_by_consume_and_written_again(
    kwire: Kwire, double: RegistryDouble, files: Path, unique: str
) -> None:
    kwire("topics", "create", unique, "-p", "1")
    lines = (
        '{"id": 7, "note": "Ada", "raw": "0x00ff"}\n'
        '{"id": 9223372036854775807, "note": null, "raw": "0x"}\n'
        "null\n"
    )
    given = ("produce", unique, "-f", "avro", "--schema", str(files / "order.avsc"))
    kwire(*given, "--key", "k", stdin=lines)
    assert [(each.subject, each.number) for each in double.versions] == [(f"{unique}-value", 1)]
    read = ("consume", unique, "-o", "earliest", "-e", "-f", "avro")
    assert kwire(*read).stdout == lines
    assert kwire(*read, "-k", "=").stdout == "".join(f"k={line}\n" for line in lines.splitlines())
    kwire("produce", unique, "-f", "avro", stdin=kwire(*read).stdout)
    assert kwire(*read).stdout == lines * 2
    assert len(double.versions) == 1, "the latest version is taken"
    raw = kwire("consume", unique, "-o", "earliest", "-n", "1", "-f", "json").stdout
    assert json.loads(raw)["value_encoding"] == "base64"


def test_protobuf_and_its_imports_are_registered_and_read(
    kwire: Kwire, double: RegistryDouble, files: Path, unique: str
) -> None:
    kwire("topics", "create", unique, "-p", "1")
    given = ("produce", unique, "-f", "protobuf", "--schema", str(files / "person.proto"))
    kwire(*given, stdin='{"at": {"name": "Rome", "people": "5"}}\n')
    kwire(*given, "--message", "Pet", "--subject-names", "topic-record", stdin="{}\n")
    subjects = [each.subject for each in double.versions]
    assert subjects == ["city.proto", f"{unique}-value", f"{unique}-Pet"]
    read = kwire("consume", unique, "-o", "earliest", "-e", "-f", "protobuf").stdout
    assert read == '{"at": {"name": "Rome", "people": "5"}}\n{}\n'


def test_json_is_checked_against_its_schema_before_it_is_written(
    kwire: Kwire, double: RegistryDouble, files: Path, unique: str
) -> None:
    kwire("topics", "create", unique, "-p", "1")
    given = ("produce", unique, "-f", "json-schema", "--schema", str(files / "bill.json"))
    bad = kwire(*given, stdin='{"sum": 1.5}\n{"sum": "x"}\n', status=1).stderr
    assert "line 2 is not a record: the value: $.sum: 'x' is not of type 'number'" in bad
    kwire(*given, "--no-check", stdin='{"sum": "x"}\n')
    read = kwire("consume", unique, "-o", "earliest", "-e", "-f", "json-schema").stdout
    assert read == '{"sum": 1.5}\n{"sum": "x"}\n'
    assert len(double.versions) == 1


def test_keys_are_encoded_by_a_schema_of_their_own(
    kwire: Kwire, double: RegistryDouble, files: Path, unique: str
) -> None:
    kwire("topics", "create", unique, "-p", "1")
    (files / "key.avsc").write_text('"long"')
    schemas = ("--schema", str(files / "order.avsc"), "--key-schema", str(files / "key.avsc"))
    kwire("produce", unique, "-f", "avro", *schemas, "-k", "|", stdin='7|{"id": 1}\n')
    assert sorted(each.subject for each in double.versions) == [f"{unique}-key", f"{unique}-value"]
    read = kwire("consume", unique, "-o", "earliest", "-e", "-f", "avro", "-k", "|").stdout
    assert read == '7|{"id": 1, "note": null, "raw": "0x"}\n'


def test_consume_stops_at_a_record_without_a_schema_unless_it_is_skipped(
    kwire: Kwire, double: RegistryDouble, files: Path, unique: str
) -> None:
    kwire("topics", "create", unique, "-p", "1")
    given = ("produce", unique, "-f", "avro", "--schema", str(files / "order.avsc"))
    kwire(*given, stdin='{"id": 1}\n')
    kwire("produce", unique, stdin="plain\n")
    kwire(*given, stdin='{"id": 2}\n')
    read = ("consume", unique, "-o", "earliest", "-e", "-f", "avro")
    done = kwire(*read, "-g", unique, status=1)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1]
    assert f"{unique}-0 @ 1: the value does not begin with the id of a schema" in done.stderr
    done = kwire(*read, "-g", unique, "--skip-bad")  # the failed run committed nothing
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert f"{unique}-0 @ 1:" in done.stderr
    other = kwire("consume", unique, "-o", "earliest", "-e", "-f", "protobuf", status=1)
    assert "schema 1 is of the type AVRO, not PROTOBUF" in other.stderr
    away = kwire(*read, "--skip-bad", "--registry", "http://127.0.0.1:1", status=1)
    assert "does not answer" in away.stderr, "an outage skips nothing"


def test_refused_schema_is_reported_before_the_first_line(
    kwire: Kwire, double: RegistryDouble, files: Path, unique: str
) -> None:
    double.register(f"{unique}-value", {"schema": '"string"'})
    double.reasons[f"{unique}-value"] = ["reader type does not match"]
    given = ("produce", unique, "-f", "avro", "--schema", str(files / "order.avsc"))
    done = kwire(*given, stdin='{"id": 1}\n', status=1)
    assert done.stderr == (
        "kwire: the registry answers with status 409: reader type does not match\n"
    )
    assert kwire("topics", "list").stdout.find(unique) == -1
