"""confluent-kafka-python's client of registries and its serializers, against kwire's registry.

Each kind of record is written by their serializer and read by kwire's schemas, and the other way
round.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any, cast

import pytest
from confluent_kafka import DeserializingConsumer, SerializingProducer, TopicPartition
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass

from kwire.registry.client.described import SchemaText
from kwire.registry.client.framing import frame_of
from kwire.registry.client.registered import RegisteredSchemas
from kwire.registry.client.rest import RegistryClient
from kwire.registry.client.serializing import RecordSerializer, SchemaChoice
from kwire.registry.schemas.kinds import SchemaKind
from kwire.registry.schemas.protobuf.schema import ProtobufSchema
from kwire.registry.schemas.values.data import Data
from kwire.testing.registry import Registry
from tests.inside import PATIENCE_S

pytestmark = pytest.mark.slow

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
NARROWER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "string"}],
    }
)
ADDRESS = 'syntax = "proto3"; package shop; message Address { string city = 1; }'
PERSON = (
    'syntax = "proto3"; package shop; import "shop/address.proto";'
    ' import "google/protobuf/timestamp.proto";'
    " message Other { string name = 1; }"
    " message Person { Address at = 1; google.protobuf.Timestamp born = 2;"
    " message Pet { string name = 1; } }"
)
BILL = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Bill",
        "type": "object",
        "properties": {"sum": {"type": "number"}},
        "required": ["sum"],
    }
)


Headers = list[tuple[str, str | bytes | None]]


@pytest.fixture
def client(kafka_registry: Registry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": kafka_registry.url}) as found:
        yield found


def context(topic: str, headers: Headers | None = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


def read(
    registry: Registry, raw: bytes, headers: list[tuple[str, bytes | None]] | None = None
) -> Data:
    """The data of a record by kwire's own schemas."""
    frame = frame_of(raw, "value", headers or [])
    assert frame is not None
    schemas = RegisteredSchemas(RegistryClient(registry.url))
    return schemas.of_frame(frame).decoded(frame.body)


def write(registry: Registry, topic: str, kind: SchemaKind, text: str, data: Data) -> bytes:
    """The bytes of a record by kwire's own serializer."""
    choice = SchemaChoice(kind, SchemaText(kind, text), imports={"shop/address.proto": ADDRESS})
    return RecordSerializer(RegistryClient(registry.url), topic, "value", choice).encoded(data)


def message_class(name: str) -> Any:  # noqa: ANN401 - made of a descriptor
    """The class of a message of PERSON, as protoc makes it."""
    file = ProtobufSchema(PERSON, {"shop/address.proto": ADDRESS}).file_descriptor
    return GetMessageClass(file.pool.FindMessageTypeByName(name))


def test_avro_of_either_serializer_is_read_by_the_other(
    kafka_registry: Registry, client: SchemaRegistryClient, unique: str
) -> None:
    serializer = AvroSerializer(client, ORDER)
    raw = serializer({"id": 7, "note": "x"}, context(unique))
    assert read(kafka_registry, raw) == {"id": 7, "note": "x"}
    assert client.get_versions(f"{unique}-value") == [1]
    own = write(kafka_registry, unique, SchemaKind.AVRO, ORDER, {"id": 8})
    deserializer = AvroDeserializer(client)
    assert deserializer(own, context(unique)) == {"id": 8, "note": None}
    assert own[:5] == raw[:5], "the same schema has one id"
    assert client.get_versions(f"{unique}-value") == [1]


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        (record_subject_name_strategy, "{topic}.Order"),
        (topic_record_subject_name_strategy, "{topic}-{topic}.Order"),
    ],
)
def test_subject_strategies_and_registration_work(
    client: SchemaRegistryClient,
    unique: str,
    strategy: Any,  # noqa: ANN401 - a function of theirs
    subject: str,
) -> None:
    namespace = f"a{unique.replace('-', '_')}"
    text = ORDER.replace('"shop"', json.dumps(namespace))
    conf = {"subject.name.strategy": strategy, "auto.register.schemas": False}
    name = subject.replace("{topic}.", f"{namespace}.").replace("{topic}", unique)
    with pytest.raises(SchemaRegistryError) as told:
        AvroSerializer(client, text, conf=conf)({"id": 1}, context(unique))
    assert told.value.error_code == 40401
    schema_id = client.register_schema(name, Schema(text, "AVRO"))
    raw = AvroSerializer(client, text, conf=conf)({"id": 1}, context(unique))
    assert raw[1:5] == schema_id.to_bytes(4)
    latest = {"use.latest.version": True, "auto.register.schemas": False}
    raw = AvroSerializer(client, text, conf=conf | latest)({"id": 1}, context(unique))
    assert raw[1:5] == schema_id.to_bytes(4)


def test_guid_in_a_header_is_understood(
    kafka_registry: Registry, client: SchemaRegistryClient, unique: str
) -> None:
    headers: Headers = []
    conf = {"schema.id.serializer": header_schema_id_serializer}
    raw = AvroSerializer(client, ORDER, conf=conf)({"id": 7}, context(unique, headers))
    assert [name for name, _ in headers] == ["__value_schema_id"]
    found = read(kafka_registry, raw, cast("list[tuple[str, bytes | None]]", headers))
    assert found == {"id": 7, "note": None}


@pytest.mark.parametrize(
    ("name", "fields", "data"),
    [
        ("shop.Other", {"name": "x"}, {"name": "x"}),
        ("shop.Person", {"at": {"city": "Rome"}}, {"at": {"city": "Rome"}}),
        ("shop.Person.Pet", {"name": "Rex"}, {"name": "Rex"}),
    ],
)
def test_protobuf_of_either_serializer_is_read_by_the_other(
    kafka_registry: Registry,
    client: SchemaRegistryClient,
    unique: str,
    name: str,
    fields: dict[str, Any],
    data: Data,
) -> None:
    message = message_class(name)
    serializer = ProtobufSerializer(message, client, {"use.deprecated.format": False})
    raw = serializer(message(**fields), context(unique))
    assert read(kafka_registry, raw) == data
    assert client.get_latest_version("shop/address.proto").version == 1
    choice = SchemaChoice(
        SchemaKind.PROTOBUF,
        SchemaText(SchemaKind.PROTOBUF, PERSON),
        message=name,
        imports={"shop/address.proto": ADDRESS},
    )
    own = RecordSerializer(
        RegistryClient(kafka_registry.url), f"{unique}-own", "value", choice
    ).encoded(data)
    deserializer = ProtobufDeserializer(message, {"use.deprecated.format": False}, client)
    assert deserializer(own, context(f"{unique}-own")) == message(**fields)


def test_schema_of_protobuf_is_given_as_a_descriptor_on_request(
    client: SchemaRegistryClient, unique: str
) -> None:
    schema_id = client.register_schema(unique, Schema(ADDRESS, "PROTOBUF"))
    found = client.get_version(unique, 1, fmt="serialized")
    texts = [
        client.get_schema(schema_id, fmt="serialized").schema_str,
        client.get_schema_by_guid(str(found.guid), fmt="serialized").schema_str,
        found.schema.schema_str,
    ]
    for text in texts:
        file = FileDescriptorProto.FromString(base64.b64decode(str(text), validate=True))
        assert [each.name for each in file.message_type] == ["Address"]
    client.clear_caches()
    assert "message Address {" in str(client.get_schema(schema_id).schema_str)
    avro_id = client.register_schema(f"{unique}-avro", Schema(ORDER, "AVRO"))
    assert json.loads(str(client.get_schema(avro_id, fmt="serialized").schema_str))


def test_json_of_either_serializer_is_read_by_the_other(
    kafka_registry: Registry, client: SchemaRegistryClient, unique: str
) -> None:
    raw = JSONSerializer(BILL, client)({"sum": 1.5}, context(unique))
    assert read(kafka_registry, raw) == {"sum": 1.5}
    own = write(kafka_registry, unique, SchemaKind.JSON, BILL, {"sum": 2})
    deserializer = JSONDeserializer(BILL, schema_registry_client=client)
    assert deserializer(own, context(unique)) == {"sum": 2}
    assert own[:5] == raw[:5]


def test_client_registers_looks_up_and_deletes(client: SchemaRegistryClient, unique: str) -> None:
    schema = Schema(ORDER, "AVRO")
    schema_id = client.register_schema(unique, schema)
    assert client.register_schema(unique, schema, normalize_schemas=True) == schema_id
    client.clear_caches()
    found = client.lookup_schema(unique, schema)
    assert (found.schema_id, found.version, found.subject) == (schema_id, 1, unique)
    client.clear_caches()
    assert json.loads(str(client.get_schema(schema_id).schema_str)) == json.loads(ORDER)
    assert client.get_schema_by_guid(str(found.guid)).schema_type == "AVRO"
    assert unique in client.get_subjects()
    assert sorted(client.get_schema_types()) == ["AVRO", "JSON", "PROTOBUF"]
    assert "." in client.get_contexts()
    assert unique in client.get_subjects_by_schema_id(schema_id)
    versions = client.get_schema_versions(schema_id)
    assert (unique, 1) in {(each.subject, each.version) for each in versions}
    assert client.delete_version(unique, 1) == 1
    with pytest.raises(SchemaRegistryError) as told:
        client.get_latest_version(unique)
    assert (told.value.http_status_code, told.value.error_code) == (404, 40401)
    assert client.delete_subject(unique, permanent=True) == [1]


def test_client_checks_compatibility_by_level(client: SchemaRegistryClient, unique: str) -> None:
    client.register_schema(unique, Schema(ORDER, "AVRO"))
    assert client.test_compatibility(unique, Schema(ORDER, "AVRO"))
    assert not client.test_compatibility(unique, Schema(NARROWER, "AVRO"))
    with pytest.raises(SchemaRegistryError) as told:
        client.register_schema(unique, Schema(NARROWER, "AVRO"))
    assert (told.value.http_status_code, told.value.error_code) == (409, 409)
    client.set_compatibility(unique, "NONE")
    assert client.get_compatibility(unique) == "NONE"
    client.register_schema(unique, Schema(NARROWER, "AVRO"))
    assert client.get_versions(unique) == [1, 2]
    with pytest.raises(SchemaRegistryError) as told:
        client.set_compatibility(unique, "SOME")
    assert (told.value.http_status_code, told.value.error_code) == (422, 42203)
    with pytest.raises(SchemaRegistryError) as told:
        client.register_schema(unique, Schema("{", "AVRO"))
    assert (told.value.http_status_code, told.value.error_code) == (422, 42201)


WIDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "long"}, {"name": "must", "type": "int"}],
    }
)
REFUSED: dict[str, tuple[Callable[[SchemaRegistryClient, str], object], int, int, str]] = {
    "incompatible": (
        lambda client, subject: client.register_schema(subject, Schema(WIDER, "AVRO")),
        409, 409, "Schema being registered is incompatible with an earlier schema",
    ),
    "invalid schema": (
        lambda client, subject: client.register_schema(subject, Schema("[{}]", "AVRO")),
        422, 42201, "Invalid schema",
    ),
    "invalid look-up": (
        lambda client, subject: client.lookup_schema(subject, Schema("[{}]", "AVRO")),
        422, 42201, "Invalid schema",
    ),
    "unknown id": (
        lambda client, _: client.get_schema(999_999), 404, 40403, "Schema .*not found.*",
    ),
    "look-up in unknown subject": (
        lambda client, _: client.lookup_schema("nowhere", Schema(ORDER, "AVRO")),
        404, 40401, "Subject .*not found.*",
    ),
    "deletion of unknown subject": (
        lambda client, _: client.delete_subject("nowhere"), 404, 40401, "Subject .*not found.*",
    ),
    "unknown version": (
        lambda client, subject: client.get_version(subject, 3), 404, 40402, "Version .*not found",
    ),
    "invalid version": (
        lambda client, subject: client.get_version(subject, cast("int", "a")),
        422, 42202, "The specified version .*is not a valid version id.*",
    ),
    "invalid level": (
        lambda client, _: client.set_compatibility(level="INVALID"),
        422, 42203, "Invalid compatibility level",
    ),
}  # fmt: skip
"""What the client's own tests expect of a registry (confluent-kafka-python, its integration tests
of the schema registry, test_api_client)."""


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_have_the_codes_and_messages_that_the_clients_tests_expect(
    client: SchemaRegistryClient, unique: str, case: str
) -> None:
    ask, status, code, message = REFUSED[case]
    client.register_schema(unique, Schema(ORDER, "AVRO"))
    with pytest.raises(SchemaRegistryError, match=message) as told:
        ask(client, unique)
    assert (told.value.http_status_code, told.value.error_code) == (status, code)


def test_global_level_is_what_was_set(client: SchemaRegistryClient) -> None:
    before = client.get_compatibility()
    levels = ("BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE")
    for level in levels:
        client.set_compatibility(level=level)
        assert client.get_compatibility() == level
    client.set_compatibility(level=before)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ('"string"', "Jämtland"),
        ('"boolean"', True),
        ('"float"', 0.5),
        ('"double"', 68.032768),
        ('{"type": "int", "logicalType": "date"}', date(2026, 11, 26)),
    ],
)
def test_records_of_simple_types_pass_through_a_topic(
    kafka_registry: Registry,
    client: SchemaRegistryClient,
    unique: str,
    schema: str,
    value: object,
) -> None:
    servers = {"bootstrap.servers": kafka_registry.bootstrap}
    producer = SerializingProducer(servers | {"value.serializer": AvroSerializer(client, schema)})
    producer.produce(unique, value=value, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    consumer = DeserializingConsumer(
        servers | {"group.id": unique, "value.deserializer": AvroDeserializer(client)}
    )
    consumer.assign([TopicPartition(unique, 0, 0)])
    message = consumer.poll(PATIENCE_S)
    consumer.close()
    assert message is not None
    assert message.value() == value


def test_client_sets_modes(client: SchemaRegistryClient, unique: str) -> None:
    client.register_schema(unique, Schema(ORDER, "AVRO"))
    assert client.update_mode(unique, "READONLY") == "READONLY"
    assert client.get_mode(unique) == "READONLY"
    with pytest.raises(SchemaRegistryError) as told:
        client.register_schema(unique, Schema(NARROWER, "AVRO"))
    assert (told.value.http_status_code, told.value.error_code) == (422, 42205)
    client.delete_mode(unique)
    assert client.get_global_mode() == "READWRITE"


def test_references_are_registered_and_resolved(
    kafka_registry: Registry, client: SchemaRegistryClient, unique: str
) -> None:
    namespace = f"a{unique.replace('-', '_')}"
    inner = {"type": "enum", "name": f"{namespace}.Colour", "symbols": ["RED", "BLUE"]}
    outer = {
        "type": "record",
        "name": f"{namespace}.Car",
        "fields": [{"name": "colour", "type": f"{namespace}.Colour"}],
    }
    client.register_schema(f"{unique}-inner", Schema(json.dumps(inner), "AVRO"))
    reference = SchemaReference(f"{namespace}.Colour", f"{unique}-inner", 1)
    schema = Schema(json.dumps(outer), "AVRO", [reference])
    raw = AvroSerializer(client, schema)({"colour": "RED"}, context(unique))
    assert read(kafka_registry, raw) == {"colour": "RED"}
    assert AvroDeserializer(client)(raw, context(unique)) == {"colour": "RED"}
    used = client.get_referenced_by(f"{unique}-inner", 1)
    assert used == [int.from_bytes(raw[1:5])]
