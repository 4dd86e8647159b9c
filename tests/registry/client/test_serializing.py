"""Records as Confluent's serializers write them."""

from __future__ import annotations

import json

import pytest

from kwire.client.errors import Misuse
from kwire.registry.client.described import SchemaText
from kwire.registry.client.errors import RegistryRefused
from kwire.registry.client.framing import frame_of
from kwire.registry.client.registered import RegisteredSchemas
from kwire.registry.client.rest import RegistryClient
from kwire.registry.client.serializing import RecordSerializer, SchemaChoice
from kwire.registry.client.subject_names import SubjectNames, subject_of
from kwire.registry.schemas.kinds import SchemaKind
from kwire.registry.schemas.values.data import Data
from kwire.registry.schemas.values.problem import CannotEncode
from tests.registry.double import RegistryDouble

AVRO, PROTOBUF, JSON = SchemaKind.AVRO, SchemaKind.PROTOBUF, SchemaKind.JSON
ORDER = SchemaText(
    AVRO,
    json.dumps(
        {
            "type": "record",
            "name": "Order",
            "namespace": "shop",
            "fields": [{"name": "id", "type": "long"}],
        }
    ),
)
PERSON = SchemaText(
    PROTOBUF,
    'syntax = "proto3"; package shop; import "sub/address.proto";'
    ' import "google/protobuf/timestamp.proto"; message Person { Address at = 1; }'
    " message Pet { string name = 1; google.protobuf.Timestamp born = 2; }",
)
IMPORTS = {
    "sub/address.proto": 'syntax = "proto3"; package shop; import "city.proto";'
    " message Address { City city = 1; }",
    "city.proto": 'syntax = "proto3"; package shop; message City { string name = 1; }',
}


def decoded(double: RegistryDouble, raw: bytes) -> Data:
    """The data of a record's bytes, by the schema that they name."""
    frame = frame_of(raw)
    assert frame is not None
    schemas = RegisteredSchemas(RegistryClient(double.url))
    return schemas.of_frame(frame).decoded(frame.body)


def serializer(
    double: RegistryDouble, choice: SchemaChoice, part: str = "value"
) -> RecordSerializer:
    return RecordSerializer(RegistryClient(double.url), "orders", part, choice)


@pytest.mark.parametrize(
    ("names", "subject"),
    [
        (SubjectNames.TOPIC, "orders-key"),
        (SubjectNames.RECORD, "shop.Order"),
        (SubjectNames.TOPIC_RECORD, "orders-shop.Order"),
    ],
)
def test_schema_is_registered_under_the_subject_of_the_strategy(
    double: RegistryDouble, names: SubjectNames, subject: str
) -> None:
    keys = serializer(double, SchemaChoice(AVRO, ORDER, names=names), "key")
    raw = keys.encoded({"id": 7})
    assert raw == b"\x00\x00\x00\x00\x01\x0e"
    assert keys.encoded({"id": -1}) == b"\x00\x00\x00\x00\x01\x01"
    assert double.requests == [("POST", f"/subjects/{subject}/versions")]
    assert decoded(double, raw) == {"id": 7}


def test_subject_by_type_needs_a_named_type(double: RegistryDouble) -> None:
    choice = SchemaChoice(AVRO, SchemaText(AVRO, '"long"'), names=SubjectNames.RECORD)
    with pytest.raises(Misuse, match="has no name"):
        serializer(double, choice).encoded(1)
    text = SchemaText(JSON, '{"title": "Order"}')
    choice = SchemaChoice(JSON, text, names=SubjectNames.RECORD, checks=False)
    serializer(double, choice).encoded({})
    assert [each.subject for each in double.versions] == ["Order"]
    with pytest.raises(Misuse):
        subject_of(SubjectNames.TOPIC_RECORD, "orders", "value", "")


def test_schema_that_must_not_be_registered_is_looked_up(double: RegistryDouble) -> None:
    choice = SchemaChoice(AVRO, ORDER, registers=False)
    with pytest.raises(Misuse, match="not registered under the subject orders-value"):
        serializer(double, choice).encoded({"id": 7})
    assert double.versions == []
    RegistryClient(double.url).register("orders-value", ORDER)
    assert decoded(double, serializer(double, choice).encoded({"id": 7})) == {"id": 7}


def test_latest_version_is_used_without_a_schema(double: RegistryDouble) -> None:
    with pytest.raises(Misuse, match="no subject orders-value: give the schema"):
        serializer(double, SchemaChoice(AVRO)).encoded({"id": 7})
    client = RegistryClient(double.url)
    client.register("orders-value", SchemaText(AVRO, '"string"'))
    client.register("orders-value", ORDER)
    assert serializer(double, SchemaChoice(AVRO)).encoded({"id": 7})[:5] == b"\x00\x00\x00\x00\x02"
    first = SchemaChoice(AVRO, schema_id=1)
    assert serializer(double, first).encoded("x") == b"\x00\x00\x00\x00\x01\x02x"
    with pytest.raises(Misuse, match="is of AVRO, not of JSON"):
        serializer(double, SchemaChoice(JSON)).encoded({})
    with pytest.raises(Misuse, match="a schema is needed"):
        serializer(double, SchemaChoice(AVRO, names=SubjectNames.RECORD)).encoded({})


def test_refused_schema_writes_nothing(double: RegistryDouble) -> None:
    RegistryClient(double.url).register("orders-value", SchemaText(AVRO, '"string"'))
    double.reasons["orders-value"] = ["the type changed"]
    with pytest.raises(RegistryRefused, match="the type changed"):
        serializer(double, SchemaChoice(AVRO, ORDER)).encoded({"id": 7})


def test_imports_of_protobuf_are_registered_first_under_their_names(
    double: RegistryDouble,
) -> None:
    choice = SchemaChoice(PROTOBUF, PERSON, imports=IMPORTS)
    person: Data = {"at": {"city": {"name": "Rome"}}}
    raw = serializer(double, choice).encoded(person)
    assert raw[5:6] == b"\x00", "the first message has a short list of indexes"
    assert [each.subject for each in double.versions] == [
        "city.proto",
        "sub/address.proto",
        "orders-value",
    ]
    assert decoded(double, raw) == person
    pet = SchemaChoice(PROTOBUF, PERSON, message="Pet", imports=IMPORTS)
    raw = serializer(double, pet).encoded({"name": "Rex"})
    assert raw[5:7] == b"\x02\x02"
    assert decoded(double, raw) == {"name": "Rex"}
    assert len(double.versions) == 3


@pytest.mark.parametrize(
    ("imports", "message"),
    [
        ({}, "which no reference has"),
        ({"sub/address.proto": IMPORTS["sub/address.proto"]}, "imports city.proto, which is not"),
        (
            {"sub/address.proto": 'syntax = "proto3"; import "sub/address.proto";'},
            "imports itself",
        ),
        ({"sub/address.proto": "message {"}, "Protobuf schema"),
    ],
)
def test_imports_that_are_missing_or_wrong_are_reported(
    double: RegistryDouble, imports: dict[str, str], message: str
) -> None:
    with pytest.raises((Misuse, CannotEncode), match=message):
        serializer(double, SchemaChoice(PROTOBUF, PERSON, imports=imports)).encoded({})


def test_message_that_the_schema_lacks_is_refused_with_those_that_it_has(
    double: RegistryDouble,
) -> None:
    choice = SchemaChoice(PROTOBUF, PERSON, message="Nobody", imports=IMPORTS)
    with pytest.raises(Misuse, match=r"no message 'Nobody': it has shop\.Person"):
        serializer(double, choice).encoded({})
