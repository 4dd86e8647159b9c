"""Requests of the client to a registry."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from kwire.client.errors import Misuse
from kwire.registry.client.configured import client_of
from kwire.registry.client.described import Compatibility, SchemaText
from kwire.registry.client.errors import RegistryRefused, RegistryUnreachable
from kwire.registry.client.framing import SchemaFrame
from kwire.registry.client.registered import FAILURE_KEPT_S, RegisteredSchemas, RegistryAway
from kwire.registry.client.rest import RegistryClient
from kwire.registry.schemas.kinds import Reference, SchemaKind
from kwire.registry.schemas.values.data import Data
from kwire.registry.schemas.values.problem import CannotDecode
from tests.registry.double import RegistryDouble, guid_of

ORDER = SchemaText(
    SchemaKind.AVRO,
    json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}),
)
TEXT = SchemaText(SchemaKind.AVRO, '"string"')
WITH_SLASH = "a/b c?d#ü"


def test_schema_is_registered_once_and_found_by_id_and_version(double: RegistryDouble) -> None:
    client = RegistryClient(double.url)
    assert client.register(WITH_SLASH, ORDER) == 1
    assert client.register(WITH_SLASH, ORDER) == 1
    assert client.register("other", TEXT) == 2
    assert client.subjects() == [WITH_SLASH, "other"]
    assert client.subjects("oth") == ["other"]
    assert client.versions(WITH_SLASH) == [1]
    found = client.version(WITH_SLASH)
    assert (found.subject, found.version, found.schema_id) == (WITH_SLASH, 1, 1)
    assert found.schema == ORDER
    assert client.schema(2).schema == TEXT
    assert client.look_up(WITH_SLASH, ORDER).version == 1
    assert client.places(1) == [(WITH_SLASH, 1)]
    assert [each.schema_id for each in client.latest_versions()] == [1, 2]
    assert client.kinds() == ["JSON", "PROTOBUF", "AVRO"]
    assert client.contexts() == ["."]


def test_references_are_sent_and_resolved_with_the_innermost_first(double: RegistryDouble) -> None:
    client = RegistryClient(double.url)
    inner = SchemaText(SchemaKind.AVRO, '{"type": "enum", "name": "E", "symbols": ["A"]}')
    middle = SchemaText(
        SchemaKind.AVRO,
        '{"type": "record", "name": "M", "fields": [{"name": "e", "type": "E"}]}',
        (Reference("E", "inner", 1),),
    )
    outer = SchemaText(
        SchemaKind.AVRO,
        '{"type": "record", "name": "O", "fields": [{"name": "m", "type": "M"},'
        ' {"name": "e", "type": "E"}]}',
        (Reference("M", "middle", 1), Reference("E", "inner", 1)),
    )
    client.register("inner", inner)
    client.register("middle", middle)
    schema_id = client.register("outer", outer)
    client.delete_subject("inner")
    schema = client.record_schema(schema_id)
    assert [name for name, _ in schema.references] == ["E", "M"]
    data: Data = {"m": {"e": "A"}, "e": "A"}
    assert schema.decoded(schema.encoded(data)) == data
    assert client.version("outer").schema == outer
    assert client.referenced_by("middle", 1) == [schema_id]


def test_references_in_a_circle_end(double: RegistryDouble) -> None:
    client = RegistryClient(double.url)
    for name, other in (("a", "b"), ("b", "a")):
        text = SchemaText(SchemaKind.AVRO, f'"{name}"', (Reference(other, other, 1),))
        client.register(name, text)
    assert len(client.record_schema(1).references) == 2


def test_refusal_has_status_code_and_message(double: RegistryDouble) -> None:
    client = RegistryClient(double.url)
    with pytest.raises(RegistryRefused, match="status 404 and error 40401") as told:
        client.version("nothing")
    assert (told.value.status, told.value.code) == (404, 40401)
    client.register("orders", ORDER)
    with pytest.raises(RegistryRefused) as told:
        client.look_up("orders", TEXT)
    assert told.value.code == 40403
    double.reasons["orders"] = ["one reason"]
    with pytest.raises(RegistryRefused, match="status 409: one reason") as told:
        client.register("orders", TEXT)
    assert told.value.status == 409


def test_check_tells_each_reason(double: RegistryDouble) -> None:
    client = RegistryClient(double.url)
    assert client.check("orders", ORDER) == Compatibility(True)
    double.reasons["orders"] = ["one", "two"]
    assert client.check("orders", ORDER, None) == Compatibility(False, ("one", "two"))
    paths = [path for _, path in double.requests]
    assert paths == [
        "/compatibility/subjects/orders/versions/latest",
        "/compatibility/subjects/orders/versions",
    ]


def test_versions_and_subjects_are_deleted_softly_then_permanently(double: RegistryDouble) -> None:
    client = RegistryClient(double.url)
    client.register("orders", ORDER)
    client.register("orders", TEXT)
    assert client.delete_version("orders", 1) == 1
    assert client.versions("orders") == [2]
    assert client.versions("orders", deleted=True) == [1, 2]
    assert client.delete_subject("orders") == [2]
    assert client.subjects() == []
    assert client.delete_subject("orders", permanent=True) == [1, 2]
    assert client.subjects(deleted=True) == []


def test_config_and_mode_are_set_read_and_removed(double: RegistryDouble) -> None:
    client = RegistryClient(double.url)
    assert client.config() == {"compatibilityLevel": "BACKWARD"}
    with pytest.raises(RegistryRefused, match="40408"):
        client.config("orders")
    assert client.config("orders", falls_back=True) == {"compatibilityLevel": "BACKWARD"}
    client.set_config({"compatibility": "FULL"}, "orders")
    assert client.delete_config("orders") == {"compatibility": "FULL"}
    assert client.mode() == "READWRITE"
    assert client.set_mode("READONLY", "orders") == "READONLY"
    assert client.mode("orders") == "READONLY"
    assert client.delete_mode("orders") == "READONLY"
    assert client.mode("orders", falls_back=True) == "READWRITE"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((200, b"<html>"), "not JSON"),
        ((200, b"[" * 100_000), "not JSON"),
        ((200, {"no": "schema"}), "has no schema"),
        ((200, [1]), "has no schema"),
        ((200, {"schema": "x", "references": 7}), "has no schema"),
        ((500, b"<html>"), "status 500"),
        ((302, b""), "status 302"),
        ((200, b"[" + b" " * (17 * 1024 * 1024) + b"]"), "too large"),
    ],
)
def test_answer_that_is_none_of_a_registry_is_an_error(
    double: RegistryDouble, answer: tuple[int, object], message: str
) -> None:
    double.answers["/schemas/ids/1"] = lambda: answer
    with pytest.raises((RegistryUnreachable, RegistryRefused), match=message):
        RegistryClient(double.url).schema(1)


def test_second_address_is_asked_if_the_first_does_not_answer(double: RegistryDouble) -> None:
    client = RegistryClient(f"http://127.0.0.1:1, {double.url}")
    assert client.register("orders", ORDER) == 1
    with pytest.raises(RegistryUnreachable, match="does not answer"):
        RegistryClient("http://127.0.0.1:1").subjects()


def test_refusal_of_the_first_address_is_final(double: RegistryDouble) -> None:
    client = RegistryClient(f"{double.url},http://127.0.0.1:1")
    with pytest.raises(RegistryRefused):
        client.version("nothing")


def test_login_is_that_of_the_url_or_of_the_properties(double: RegistryDouble) -> None:
    def header(user_info: str) -> str:
        return f"Basic {base64.b64encode(user_info.encode()).decode()}"

    address = double.url.removeprefix("http://")
    RegistryClient(f"http://user:p%40ss@{address}").subjects()
    assert double.logins == {header("user:p@ss")}
    double.logins.clear()
    client_of(double.url, {"basic.auth.user.info": "one:two:three"}).subjects()
    assert double.logins == {header("one:two:three")}
    double.logins.clear()
    client_of(None, {"schema.registry.url": double.url}).subjects()
    assert double.logins == {None}
    with pytest.raises(Misuse, match="user:password"):
        client_of(double.url, {"basic.auth.user.info": "nobody"})
    with pytest.raises(Misuse, match="like http"):
        client_of("localhost:8081", {})
    with pytest.raises(Misuse):
        client_of(double.url, {"schema.registry.ssl.truststore.location": "/nowhere"})


def test_schemas_of_records_are_asked_for_once_by_all_threads(double: RegistryDouble) -> None:
    client = RegistryClient(double.url)
    client.register("orders", ORDER)
    double.requests.clear()
    schemas = RegisteredSchemas(client)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: schemas.of_frame(SchemaFrame(b"", 1)), range(50)))
    assert len({id(each) for each in found}) == 1
    assert double.requests == [("GET", "/schemas/ids/1")]
    assert schemas.of_frame(SchemaFrame(b"", guid=guid_of(1))).text == ORDER.text


def test_missing_schema_is_final_and_an_outage_is_not(double: RegistryDouble) -> None:
    now = [0.0]
    schemas = RegisteredSchemas(RegistryClient(double.url), clock=lambda: now[0])
    with pytest.raises(CannotDecode, match="40403") as told:
        schemas.of_frame(SchemaFrame(b"", 1))
    assert not isinstance(told.value, RegistryAway)
    double.answers["/schemas/ids/2"] = lambda: (500, {"error_code": 50001, "message": "no store"})
    for _ in range(2):
        with pytest.raises(RegistryAway, match=r"schema 2: .*no store"):
            schemas.of_frame(SchemaFrame(b"", 2))
    assert double.requests.count(("GET", "/schemas/ids/2")) == 1
    del double.answers["/schemas/ids/2"]
    double.register("a", ORDER.as_json())
    double.register("b", TEXT.as_json())
    now[0] = FAILURE_KEPT_S + 1
    assert schemas.of_frame(SchemaFrame(b"", 2)).text == TEXT.text
