"""The bytes of keys and values as people can read them."""

from __future__ import annotations

import base64
import io
import json
import random
import threading
from collections.abc import Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fastavro
import pytest
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from kwire.client.fetcher import ConsumedRecord
from kwire.console.decoding.decoder import FORMS, Decoded, Decoder
from kwire.console.decoding.files import schema_files
from kwire.console.filtering.parsing import parsed
from kwire.console.messages.record import MessageRecord, whole_text
from kwire.registry.client.framing import guid_header
from kwire.registry.client.registered import FAILURE_KEPT_S, RegisteredSchemas
from kwire.registry.client.rest import RegistryClient

PLAIN = Decoder()


def read(data: bytes | None, form: str = "auto", decoder: Decoder = PLAIN) -> Decoded:
    return decoder.decoded("orders", "value", data, form)


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (None, "null", ""),
        (b"", "empty", ""),
        (b"plain text", "text", "plain text"),
        ("漢字 ü".encode(), "text", "漢字 ü"),
        (b'{"a": [1, 2]}', "json", '{"a": [1, 2]}'),
        (b"[1", "text", "[1"),
        (b"{NaN}", "text", "{NaN}"),
        (b'{"a": NaN}', "text", '{"a": NaN}'),
        (b"\xff\xfe", "hex", "ff fe"),
        (b"a\x00b", "hex", "61 00 62"),
        (b"[" * 100_000, "text", "[" * 100_000),
    ],
)
def test_bytes_are_shown_as_what_they_look_like(data: bytes | None, kind: str, text: str) -> None:
    found = read(data)
    assert (found.kind, found.text, found.trouble) == (kind, text, "")


@pytest.mark.parametrize(
    ("form", "data", "text"),
    [
        ("text", b"\xffa", "\\xffa"),
        ("hex", b"abc", "61 62 63"),
        ("base64", b"abc", "YWJj"),
        ("number", b"\xff\xff\xff\xfe", "-2"),
        ("number", b"\x00" * 7 + b"\x2a", "42"),
        ("json", b" 17 ", " 17 "),
    ],
)
def test_bytes_are_shown_in_the_form_that_is_asked_for(form: str, data: bytes, text: str) -> None:
    assert (read(data, form).kind, read(data, form).text) == (form, text)


@pytest.mark.parametrize(
    ("form", "trouble"),
    [
        ("json", "not JSON"),
        ("number", "not 3"),
        ("avro", "no schema"),
        ("protobuf", "not Protobuf"),
    ],
)
def test_bytes_of_another_form_are_hex_with_the_reason(form: str, trouble: str) -> None:
    found = read(b"a\xffb", form)
    assert (found.kind, found.text) == ("hex", "61 ff 62")
    assert trouble in found.trouble


def test_eight_bytes_are_noted_as_the_number_of_a_serializer() -> None:
    assert read((42).to_bytes(8)).note.startswith("int64 42")


@pytest.mark.parametrize("depth", [10, 400, 700, 900, 960, 1200, 100_000])
def test_json_that_is_nested_deeply_is_shown_and_filtered_all_the_same(depth: int) -> None:
    text = b'{"a": ' + b"[" * depth + b"]" * depth + b"}"
    own = ConsumedRecord("orders", 0, 0, 0, "CreateTime", None, text, [])
    record = MessageRecord(own, PLAIN, "auto", "auto")
    assert "[" * min(depth, 10) in "".join(whole_text(record.value).split())
    for expression in ('value.a contains "x"', "value.a = 1", "value.a < 1", "value.a[0][0]"):
        assert parsed(expression).test(record) in (True, False)


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "picture", "type": "bytes"},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
    ],
}
ORDER = {"id": 7, "name": "Ada", "picture": b"\x01\xff", "price": Decimal("12.50")}
SHOWN_ORDER = {"id": 7, "name": "Ada", "picture": "0x01ff", "price": "12.50"}


def avro_bytes() -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(AVRO), ORDER)
    return stream.getvalue()


def proto_file(name: str, package: str, *imports: str) -> FileDescriptorProto:
    """A file with `Address { string city = 1; }` and `Person { Address at = 1; Nested ... }`."""
    return FileDescriptorProto(name=name, package=package, syntax="proto3", dependency=imports)


def address_file() -> FileDescriptorProto:
    file = proto_file("address.proto", "shop")
    message = file.message_type.add(name="Address")
    message.field.add(name="city", number=1, type=9, label=1)
    return file


def person_file() -> FileDescriptorProto:
    file = proto_file("person.proto", "shop", "address.proto", "google/protobuf/timestamp.proto")
    message = file.message_type.add(name="Person")
    message.field.add(name="at", number=1, type=11, type_name=".shop.Address", label=1)
    message.field.add(
        name="born", number=2, type=11, type_name=".google.protobuf.Timestamp", label=1
    )
    nested = message.nested_type.add(name="Pet")
    nested.field.add(name="name", number=1, type=9, label=1)
    return file


PERSON = b"\x0a\x06\x0a\x04Rome\x12" + bytes([len(b"\x08\x0a")]) + b"\x08\x0a"
assert timestamp_pb2.Timestamp.FromString(b"\x08\x0a").seconds == 10


def serialized(file: FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


GUID = "89791762-2336-4186-9674-299b90a802e2"


class RegistryOfTests(ThreadingHTTPServer):
    """A registry with schemas of all kinds, which counts what it is asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.asked: list[str] = []
        self.logins: set[str | None] = set()
        self.answers: dict[str, object] = {
            "/schemas/ids/1": {"schema": json.dumps(AVRO)},
            "/schemas/ids/2": {"schemaType": "JSON", "schema": "{}"},
            "/schemas/ids/3": {
                "schemaType": "PROTOBUF",
                "schema": serialized(person_file()),
                "references": [{"name": "address.proto", "subject": "a/b", "version": 4}],
            },
            "/subjects/a%2Fb/versions/4": {"schema": serialized(address_file())},
            "/schemas/ids/7": {
                "schemaType": "PROTOBUF",
                "schema": 'syntax = "proto3"; import "a.proto"; message B { shop.Address at = 1; }',
                "references": [{"name": "a.proto", "subject": "text", "version": 1}],
            },
            "/subjects/text/versions/1": {
                "schema": 'syntax = "proto3"; package shop; message Address { string city = 1; }'
            },
            f"/schemas/guids/{GUID}": {"schema": json.dumps(AVRO)},
            "/schemas/ids/5": ["no object"],
            "/schemas/ids/6": {"schemaType": "AVRO", "schema": '{"type": "nothing"}'},
        }

    @property
    def url(self) -> str:
        return f"http://user:p%40ss@127.0.0.1:{self.server_address[1]}/"


class _Answers(BaseHTTPRequestHandler):
    server: RegistryOfTests

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(path)
        self.server.logins.add(self.headers["Authorization"])
        answer = self.server.answers.get(path)
        body = json.dumps(answer).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryOfTests]:
    with RegistryOfTests() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def decoder_of(url: str) -> Decoder:
    return Decoder(RegisteredSchemas(RegistryClient(url)))


def framed(schema_id: int, body: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4) + body


def test_avro_of_a_registry_is_shown_by_its_schema(registry: RegistryOfTests) -> None:
    decoder = decoder_of(registry.url)
    found = read(framed(1, avro_bytes()), decoder=decoder)
    assert (found.kind, found.data, found.note) == ("avro", SHOWN_ORDER, "schema 1")
    assert registry.logins == {f"Basic {base64.b64encode(b'user:p@ss').decode()}"}
    before = len(registry.asked)
    assert read(framed(1, avro_bytes()), "avro", decoder).data == SHOWN_ORDER
    assert len(registry.asked) == before, "a schema is asked for once"


def test_schema_that_a_header_names_by_its_guid_is_used(registry: RegistryOfTests) -> None:
    own = ConsumedRecord(
        "orders", 0, 0, 0, "CreateTime", None, avro_bytes(), [guid_header(GUID, "value")]
    )
    record = MessageRecord(own, decoder_of(registry.url), "auto", "auto")
    assert (record.value.data, record.value.note) == (SHOWN_ORDER, f"schema {GUID}")


def test_json_schema_and_protobuf_of_a_registry_are_shown(registry: RegistryOfTests) -> None:
    decoder = decoder_of(registry.url)
    assert read(framed(2, b'{"a": 1}'), decoder=decoder).data == {"a": 1}
    person = read(framed(3, b"\x00" + PERSON), decoder=decoder)
    assert (person.kind, person.trouble) == ("protobuf", "")
    assert person.data == {"at": {"city": "Rome"}, "born": "1970-01-01T00:00:10Z"}
    pet = read(framed(3, b"\x04\x00\x00" + b"\x0a\x03Rex"), decoder=decoder)
    assert pet.data == {"name": "Rex"}, "a nested message, by its indexes"


def test_protobuf_of_a_registry_that_gives_only_text_is_shown(registry: RegistryOfTests) -> None:
    decoder = decoder_of(registry.url)
    found = read(framed(7, b"\x00\x0a\x06\x0a\x04Rome"), decoder=decoder)
    assert (found.kind, found.trouble, found.data) == ("protobuf", "", {"at": {"city": "Rome"}})


@pytest.mark.parametrize(
    ("data", "trouble"),
    [
        (framed(4, b""), "status 404"),
        (framed(5, b""), "no schema"),
        (framed(6, b"x"), "Avro schema is invalid"),
        (framed(1, b"\xff"), "not Avro data"),
        (framed(1, avro_bytes() + b"x"), "1 bytes are left over"),
        (framed(2, b"{"), "not JSON"),
        (framed(3, b"\x02\x10"), "has no message"),
        (framed(3, b"\x00\xff"), "not a Protobuf message"),
        (framed(3, b""), "no end"),
    ],
)
def test_bytes_that_do_not_agree_with_their_schema_say_why(
    registry: RegistryOfTests, data: bytes, trouble: str
) -> None:
    found = read(data, decoder=decoder_of(registry.url))
    assert found.kind == "hex"
    assert trouble in found.trouble


def test_registry_that_fails_is_asked_again_after_a_while(registry: RegistryOfTests) -> None:
    now = [0.0]
    decoder = Decoder(RegisteredSchemas(RegistryClient(registry.url), clock=lambda: now[0]))
    for now[0], count in ((0.0, 1), (FAILURE_KEPT_S, 0), (FAILURE_KEPT_S + 1, 1)):
        before = len(registry.asked)
        assert "404" in read(framed(4, b""), decoder=decoder).trouble
        assert len(registry.asked) - before == count


def test_registry_that_is_away_is_a_trouble_of_the_value() -> None:
    found = read(framed(1, b"x"), decoder=decoder_of("http://127.0.0.1:1"))
    assert "does not answer" in found.trouble


@pytest.mark.parametrize("url", ["localhost:8081", "ftp://a", "http://", ""])
def test_registry_has_the_url_of_http(url: str) -> None:
    with pytest.raises(ValueError, match="like http"):
        RegistryClient(url)


def test_schemas_of_files_decode_their_topics(tmp_path: Path) -> None:
    avro, proto = tmp_path / "order.avsc", tmp_path / "person.desc"
    avro.write_text(json.dumps(AVRO))
    files = FileDescriptorSet(file=[address_file(), person_file()])
    proto.write_bytes(files.SerializeToString())
    given = [f"orders={avro}", f"orders:key={proto}#shop.Person", f"people={proto}"]
    decoder = Decoder(files=schema_files(given))
    assert read(avro_bytes(), decoder=decoder).data == SHOWN_ORDER
    key = decoder.decoded("orders", "key", PERSON, "auto")
    assert key.data == {"at": {"city": "Rome"}, "born": "1970-01-01T00:00:10Z"}
    assert decoder.decoded("people", "value", PERSON).kind == "protobuf"
    assert decoder.decoded("others", "value", PERSON).kind == "hex"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("orders", "is not like TOPIC=FILE"),
        ("orders:head=a.avsc", "is not like TOPIC=FILE"),
        ("orders=a.txt", "neither .avsc"),
    ],
)
def test_mistake_in_a_schema_file_is_told(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        schema_files([text])


def test_message_that_a_descriptor_set_lacks_is_told(tmp_path: Path) -> None:
    path = tmp_path / "person.desc"
    path.write_bytes(FileDescriptorSet(file=[address_file()]).SerializeToString())
    with pytest.raises(ValueError, match=r"it has no message 'Nobody': it has shop\.Address"):
        schema_files([f"orders={path}#Nobody"])


def test_protobuf_without_a_schema_has_the_numbers_of_its_fields() -> None:
    found = read(PERSON + b"\x18\x05\x18\x06\x25\x01\x00\x00\x00", "protobuf")
    assert found.data == {"1": {"1": "Rome"}, "2": {"1": 10}, "3": [5, 6], "4": 1}
    assert found.note == "without a schema"


def test_random_bytes_never_fail(rng: random.Random, registry: RegistryOfTests) -> None:
    decoder = decoder_of(registry.url)
    for _ in range(2000):
        data = rng.randbytes(rng.randrange(40))
        if rng.random() < 0.5:
            data = framed(rng.randrange(1, 7), data)
        found = decoder.decoded("orders", "value", data, rng.choice(FORMS))
        json.dumps(found.data)
