"""`kwire registry` beside a broker, over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from kwire.testing import Kafka
from kwire.testing.registry import Registry
from tests.registry.asking import Asking, record

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    """A registry whose log must have no traceback at the end."""
    with Kafka() as kafka, Registry(kafka) as started:
        yield started
        log = started.log
        print(log)
        assert "Traceback" not in log


@pytest.fixture
def asking(registry: Registry) -> Iterator[Asking]:
    """Requests to the registry."""
    with Asking(registry.url) as asking:
        yield asking


def test_schema_is_registered_and_found_by_id_and_version(asking: Asking) -> None:
    schema = record("Found", "a")
    made = asking.register("found", schema)
    assert made.status == 200
    schema_id = made.data["id"]
    assert made.data["version"] == 1
    assert asking.get(f"/schemas/ids/{schema_id}").data["schema"] == schema
    assert asking.get(f"/schemas/ids/{schema_id}/schema").data == json.loads(schema)
    found = asking.get("/subjects/found/versions/latest").data
    assert (found["id"], found["version"], found["schema"]) == (schema_id, 1, schema)
    assert asking.get("/subjects/found/versions").data == [1]
    assert "found" in asking.get("/subjects").data
    assert asking.register("found", schema).data["id"] == schema_id


def test_schemas_of_all_types_are_registered(asking: Asking) -> None:
    assert sorted(asking.get("/schemas/types").data) == ["AVRO", "JSON", "PROTOBUF"]
    proto = 'syntax = "proto3"; message Point { int32 x = 1; }'
    made = asking.register("proto", proto, schemaType="PROTOBUF")
    assert made.status == 200, made
    assert asking.get(f"/schemas/ids/{made.data['id']}").data["schemaType"] == "PROTOBUF"
    made = asking.register("json", '{"type":"object"}', schemaType="JSON")
    assert made.status == 200, made
    assert asking.get("/subjects/json/versions/1").data["schemaType"] == "JSON"


def test_incompatible_schema_is_refused_until_the_level_allows_it(asking: Asking) -> None:
    asking.register("strict", record("Strict", "a"))
    refused = asking.register("strict", record("Strict", "a", "b"))
    assert (refused.status, refused.code) == (409, 409)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in refused.data["message"]
    body = {"schema": record("Strict", "a", "b")}
    path = "/compatibility/subjects/strict/versions/latest"
    assert asking.ask("POST", path, body).data == {"is_compatible": False}
    verbose = asking.ask("POST", f"{path}?verbose=true", body).data
    assert verbose["messages"]
    assert asking.ask("PUT", "/config/strict", {"compatibility": "NONE"}).data == {
        "compatibility": "NONE"
    }
    assert asking.register("strict", record("Strict", "a", "b")).data["version"] == 2


def test_subject_with_any_characters_has_its_own_path(asking: Asking) -> None:
    for name in ("a/b", "ä ö", "😀", "per%cent", "plus+", "q?x#y", "..", "a;b"):
        assert asking.register(name, record("Named", "a")).status == 200, name
        path = f"/subjects/{quote(name, safe='')}/versions"
        assert asking.get(path).data == [1], name
        assert name in asking.get("/subjects").data


def test_subject_is_deleted_in_two_steps(asking: Asking) -> None:
    asking.register("gone", record("Gone", "a"))
    assert asking.delete("/subjects/gone?permanent=true").code == 40405
    assert asking.delete("/subjects/gone").data == [1]
    assert asking.get("/subjects/gone/versions").code == 40401
    assert asking.get("/subjects/gone/versions?deleted=true").data == [1]
    assert asking.delete("/subjects/gone?permanent=true").data == [1]
    assert asking.get("/subjects/gone/versions?deleted=true").code == 40401


def test_references_are_resolved(asking: Asking) -> None:
    asking.register("inner", record("Inner", "a"))
    outer = '{"type":"record","name":"Outer","fields":[{"name":"i","type":"Inner"}]}'
    assert asking.register("outer", outer).code == 42201
    reference = {"name": "Inner", "subject": "inner", "version": 1}
    made = asking.register("outer", outer, references=[reference])
    assert made.status == 200, made
    assert asking.get("/subjects/inner/versions/1/referencedby").data == [made.data["id"]]
    assert asking.delete("/subjects/inner").code == 42206


def test_context_has_ids_of_its_own(asking: Asking) -> None:
    asking.register("any", record("Any", "a"))
    made = asking.register(":.lab:s", record("Lab", "a"))
    assert made.data["id"] == 1
    assert asking.get("/contexts").data == [".", ".lab"]
    assert asking.get("/contexts/.lab/subjects").data == [":.lab:s"]
    found = asking.get("/contexts/.lab/schemas/ids/1").data
    assert found["schema"] == record("Lab", "a")


@pytest.mark.parametrize(("target", "status"), [("/subjects", 200), ("/schemas/ids/999999", 404)])
def test_head_is_answered_with_the_headers_of_get_and_no_body(
    asking: Asking, target: str, status: int
) -> None:
    asking.get(target)
    head = asking.ask("HEAD", target)
    assert (head.status, head.data) == (status, "")
    assert asking.get("/mode").status == 200  # the connection goes on


def test_mode_forbids_changes(asking: Asking) -> None:
    assert asking.get("/mode").data == {"mode": "READWRITE"}
    assert asking.ask("PUT", "/mode/fixed", {"mode": "READONLY"}).data == {"mode": "READONLY"}
    assert asking.register("fixed", record("Fixed", "a")).code == 42205
    assert asking.delete("/mode/fixed").data == {"mode": "READONLY"}
    assert asking.register("fixed", record("Fixed", "a")).status == 200


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "code"),
    [
        ("GET", "/nowhere", None, 404, 404),
        ("PATCH", "/subjects", None, 405, 405),
        ("GET", "/schemas/ids/999999", None, 404, 40403),
        ("GET", "/schemas/ids/9999999999999", None, 404, 404),
        ("GET", "/subjects/none/versions", None, 404, 40401),
        ("GET", "/subjects/none/versions/x", None, 422, 42202),
        ("POST", "/subjects/s/versions", b"", 422, 422),
        ("POST", "/subjects/s/versions", b"{", 400, 400),
        ("POST", "/subjects/s/versions", b"[" * 100_000, 400, 400),
        ("POST", "/subjects/s/versions", b'{"schema":"\xff"}', 400, 400),
        ("POST", "/subjects/s/versions", b'{"schema":"\\ud800"}', 400, 400),
        ("POST", "/subjects/s/versions", b'{"schema":NaN}', 400, 400),
        ("POST", "/subjects/s/versions", b'{"schema":"no schema"}', 422, 42201),
        ("POST", "/subjects/%01/versions", b'{"schema":"\\"int\\""}', 422, 42208),
        ("POST", "/subjects/s/versions", b"1" * (4 * 1024 * 1024 + 1), 413, 413),
        ("GET", "/subjects/%ff/versions", None, 400, 400),
        ("PUT", "/config", b'{"compatibility":"sideways"}', 422, 42203),
        ("PUT", "/mode", b'{"mode":"sideways"}', 422, 42204),
        ("GET", "/subjects?" + "x" * 20_000, None, 414, 414),
    ],
)  # fmt: skip
def test_wrong_request_is_answered_with_its_error_code(
    asking: Asking, method: str, target: str, body: bytes | None, status: int, code: int
) -> None:
    answer = asking.ask(method, target, body)
    assert (answer.status, answer.code) == (status, code)


def test_form_of_another_site_is_refused(asking: Asking) -> None:
    asking.headers["Content-Type"] = "text/plain"
    assert asking.register("forged", record("Forged", "a")).status == 415


def test_killed_registry_has_what_it_acknowledged(registry: Registry) -> None:
    with Asking(registry.url) as asking:
        made = asking.register("kept", record("Kept", "a"))
        asking.ask("PUT", "/config/kept", {"compatibility": "FULL"})
    registry.kill()
    registry.start()
    with Asking(registry.url) as asking:
        assert asking.get("/subjects/kept/versions/1").data["id"] == made.data["id"]
        assert asking.get("/config/kept").data == {"compatibilityLevel": "FULL"}
        began = time.monotonic()
        again = asking.register("kept", record("Kept", "a", "b?"))
        print(f"the first change took {time.monotonic() - began:.2f} s")
        assert "it had this instance's address" in registry.log
        assert again.data["version"] == 2
        assert again.data["id"] > made.data["id"]
