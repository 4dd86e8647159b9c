"""Records that Spark decodes by the schemas of a registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from kwire.pipeline import Form, SchemaRegistry, View
from kwire.pipeline.errors import PipelineError
from kwire.pipeline.querying.registered import PROBLEM, decoded_json, latest_id
from kwire.pipeline.querying.registry_types import ddl_of
from kwire.registry.client.described import SchemaText
from kwire.registry.client.framing import framed, guid_header
from kwire.registry.client.registered import RegisteredSchemas, RegistryAway
from kwire.registry.client.rest import RegistryClient
from kwire.registry.schemas.kinds import InvalidSchemaError, SchemaKind
from kwire.registry.schemas.values.data import Data
from kwire.registry.schemas.values.record_schema import RecordSchema
from tests.pipeline.querying.queries import Bench
from tests.registry.double import RegistryDouble, guid_of, registry_double

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AVRO, PROTOBUF, JSON = SchemaKind.AVRO, SchemaKind.PROTOBUF, SchemaKind.JSON
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
LATER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            "default": "\u0000",
        },
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "tags", "type": {"type": "map", "values": ["null", "int"]}, "default": {}},
        {"name": "any", "type": ["int", "string", "Order"], "default": 0},
    ],
}
PERSON = """
syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Person {
  int64 id = 1; google.protobuf.Timestamp born = 2; bytes raw = 3; map<string, int64> counts = 4;
  repeated Person friends = 5; Kind kind = 6; uint64 big = 7; optional double weight = 8;
  enum Kind { UNKNOWN = 0; GOOD = 1; }
}
"""
BILL = {
    "type": "object",
    "properties": {
        "sum": {"type": "number"},
        "count": {"type": ["null", "integer"]},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
        "notes": {"type": "object", "additionalProperties": {"type": "string"}},
        "other": {"oneOf": [{"type": "string"}, {"type": "number"}]},
        "maybe": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
    },
    "definitions": {"line": {"type": "object", "properties": {"item": {"type": "string"}}}},
}


@pytest.fixture
def double() -> Iterator[RegistryDouble]:
    with registry_double() as found:
        yield found


def registered(double: RegistryDouble, subject: str, kind: SchemaKind, text: object) -> int:
    written = text if isinstance(text, str) else json.dumps(text)
    return RegistryClient(double.url).register(subject, SchemaText(kind, written))


def encoded(double: RegistryDouble, schema_id: int, data: Data) -> bytes:
    return framed(schema_id, RegistryClient(double.url).record_schema(schema_id).encoded(data))


@pytest.mark.parametrize(
    ("kind", "schema", "ddl"),
    [
        (
            AVRO,
            LATER,
            "STRUCT<`id`: BIGINT, `price`: DECIMAL(9,2), `day`: DATE, `raw`: BINARY,"
            " `tags`: MAP<STRING, INT>, `any`: STRING>",
        ),
        (AVRO, "long", "BIGINT"),
        (
            PROTOBUF,
            PERSON,
            "STRUCT<`id`: DECIMAL(20,0), `born`: TIMESTAMP, `raw`: BINARY,"
            " `counts`: MAP<STRING, DECIMAL(20,0)>, `friends`: ARRAY<STRING>, `kind`: STRING,"
            " `big`: DECIMAL(20,0), `weight`: DOUBLE>",
        ),
        (
            JSON,
            BILL,
            "STRUCT<`sum`: DOUBLE, `count`: BIGINT, `lines`: ARRAY<STRUCT<`item`: STRING>>,"
            " `notes`: MAP<STRING, STRING>, `other`: STRING, `maybe`: BOOLEAN>",
        ),
        (JSON, {"$ref": "#"}, "STRING"),
        (JSON, True, "STRING"),
    ],
)
def test_columns_follow_from_the_schema(kind: SchemaKind, schema: object, ddl: str) -> None:
    text = schema if kind is PROTOBUF else json.dumps(schema)
    assert ddl_of(RecordSchema(kind, str(text)), as_read=True) == ddl


def test_avro_is_decoded_as_the_readers_schema_sees_it(double: RegistryDouble) -> None:
    first = registered(double, "orders-value", AVRO, ORDER)
    later = registered(double, "orders-value", AVRO, {**LATER, "fields": LATER["fields"][:2]})
    schemas = RegisteredSchemas(RegistryClient(double.url))
    raw = encoded(double, first, {"id": 7})
    assert json.loads(decoded_json(schemas, raw, "value", [], later)) == {"id": 7, "price": "0.00"}
    assert json.loads(decoded_json(schemas, raw, "value", [], first)) == {"id": 7}
    headers = [guid_header(guid_of(first))]
    assert json.loads(decoded_json(schemas, raw[5:], "value", headers, first)) == {"id": 7}


def test_record_that_cannot_be_decoded_has_the_reason(double: RegistryDouble) -> None:
    order = registered(double, "orders-value", AVRO, ORDER)
    schemas = RegisteredSchemas(RegistryClient(double.url))
    for raw, reason in (
        (b"text", "does not begin with the id"),
        (framed(order, b"\xff"), "not Avro data"),
        (framed(99, b""), "40403"),
    ):
        assert reason in json.loads(decoded_json(schemas, raw, "value", [], order))[PROBLEM]


def test_outage_of_the_registry_is_no_fault_of_the_record(double: RegistryDouble) -> None:
    double.answers["/schemas/ids/1"] = lambda: (503, b"")
    schemas = RegisteredSchemas(RegistryClient(double.url))
    with pytest.raises(RegistryAway):
        decoded_json(schemas, framed(1, b""), "value", [], 1)
    with pytest.raises(PipelineError, match=r"the subject orders-value: .* error 40401"):
        latest_id(SchemaRegistry(double.url), "orders-value")


def test_schema_of_the_format_registry_is_an_id() -> None:
    assert Form("registry", "7").schema == "7"
    with pytest.raises(PipelineError, match="by its id"):
        Form("registry", "id INT")


def rows(bench: Bench, double: RegistryDouble, sql: str, **options: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - JSON
    view = View(Form("registry"))
    return bench.run(sql, view=view, registry=SchemaRegistry(double.url), **options).rows


@pytest.fixture
def bench(spark: SparkSession, bootstrap: str, unique: str) -> Bench:
    return Bench(spark, bootstrap, unique)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # PySpark's own
def test_topic_with_several_versions_has_the_columns_of_the_latest(
    bench: Bench, double: RegistryDouble
) -> None:
    subject = f"{bench.topic('orders')}-value"
    first = registered(double, subject, AVRO, ORDER)
    later = registered(double, subject, AVRO, LATER)
    full: Data = {
        "id": 2**40,
        "price": "12.50",
        "day": "2026-11-26",
        "raw": "0x00ff",
        "tags": {"a": 1, "b": None},
        "any": "x",
    }
    sent = [encoded(double, first, {"id": 7}), b"no schema", encoded(double, later, full)]
    bench.fill("orders", [(None, each) for each in sent])
    found = rows(
        bench, double, "SELECT id, price, day, raw, tags, any FROM {orders}", skip_bad=True
    )
    assert found == [
        {
            "id": 7, "price": Decimal("0.00"), "day": None, "raw": b"\xff", "tags": {}, "any": "0",
        },
        {
            "id": 2**40, "price": Decimal("12.50"), "day": date(2026, 11, 26), "raw": b"\x00\xff",
            "tags": {"a": 1, "b": None}, "any": "x",
        },
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # PySpark's own
def test_protobuf_and_json_schema_become_columns(bench: Bench, double: RegistryDouble) -> None:
    person = registered(double, f"{bench.topic('people')}-value", PROTOBUF, PERSON)
    bill = registered(double, f"{bench.topic('bills')}-value", JSON, BILL)
    data: Data = {
        "id": "-9007199254740993",
        "born": "1970-01-01T00:00:10Z",
        "raw": "AP8=",
        "counts": {"a": "5"},
        "friends": [{"id": "1"}],
        "kind": "GOOD",
        "big": "18446744073709551615",
    }
    bench.fill("people", [(None, encoded(double, person, data))])
    (found,) = rows(bench, double, "SELECT * FROM {people}")
    assert found["id"] == -9007199254740993
    assert found["born"].replace(tzinfo=UTC) == datetime(1970, 1, 1, 0, 0, 10, tzinfo=UTC)
    assert found["raw"] == b"\x00\xff"
    assert found["counts"] == {"a": 5}
    assert json.loads(found["friends"][0])["id"] == "1"
    assert (found["kind"], found["big"], found["weight"]) == ("GOOD", 2**64 - 1, None)
    bill_data: Data = {"sum": 1.5, "lines": [{"item": "a"}], "other": 7}
    bench.fill("bills", [(None, encoded(double, bill, bill_data))])
    bills = rows(bench, double, "SELECT sum, count, lines, notes, other, maybe FROM {bills}")
    assert bills == [
        {
            "sum": 1.5, "count": None, "lines": [{"item": "a"}], "notes": None, "other": "7",
            "maybe": None,
        }
    ]  # fmt: skip


def test_json_schema_that_is_not_json_is_refused_as_an_invalid_schema() -> None:
    with pytest.raises(InvalidSchemaError, match="not JSON"):
        ddl_of(RecordSchema(JSON, "{"), as_read=True)
