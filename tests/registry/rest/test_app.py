"""The REST interface on a registry without a topic."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TypeVar

import pytest

from kwire.registry.primary import InstanceIdentity
from kwire.registry.rest.access import Users
from kwire.registry.rest.app import RegistryApp
from kwire.registry.rest.forwarding import FORWARDED, OFFSET, Forwarded, Forwarder, SendAgain
from kwire.registry.service import NotPrimary
from kwire.registry.subjects.errors import RegistryError
from kwire.registry.subjects.records import Write
from kwire.server.http.messages import HttpRequest
from tests.registry.asking import Answer
from tests.registry.subjects.toy import Machine

T = TypeVar("T")
Decide = Callable[[], tuple[T, list[Write]]]
OWN, OTHER = InstanceIdentity("own", 1), InstanceIdentity("other", 2)


class Service:
    """A registry that writes to a list.  It is the primary unless `election.primary` says else."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.registry, self.schemas = self.machine.registry, self.machine.schemas
        self.settings = SimpleNamespace(group_id="schema-registry")
        self.cluster_id = "cluster"
        self.election = SimpleNamespace(
            primary=OWN, identity=OWN, has_none=False, is_primary=True, wait=lambda _: True
        )
        self.waited: list[int] = []
        self.topic = SimpleNamespace(
            position=7, wait_for=lambda offset, timeout_s: self.waited.append(offset)
        )

    def change(self, decide: Decide[T]) -> T:
        if not self.election.is_primary:
            raise NotPrimary
        answer, writes = decide()
        self.machine.write(writes)
        return answer

    def peek(self, decide: Decide[T]) -> T | None:
        try:
            answer, writes = decide()
        except RegistryError:
            return None
        return None if writes else answer


class Api:
    """Requests to the application, without sockets."""

    def __init__(
        self, service: Service, forwarder: Forwarder | None = None, users: Users | None = None
    ) -> None:
        self.service = service
        self.app = RegistryApp(service, users=users, forwarder=forwarder)  # type: ignore[arg-type]  # a double of the service
        self.headers: Mapping[str, str] = {}
        """The headers of the last response."""

    async def ask(
        self,
        method: str,
        target: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request."""
        data = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        given = {"content-type": "application/json", **(headers or {})}
        reply = await self.app.answer(HttpRequest(method, target, given, data))
        self.headers = {"content-type": reply.content_type, **dict(reply.headers)}
        text = (reply.body or b"").decode()
        try:
            return Answer(reply.status, json.loads(text))
        except ValueError:
            return Answer(reply.status, text)

    async def register(self, subject: str, schema: str, **fields: object) -> Answer:
        """Register a schema."""
        return await self.ask("POST", f"/subjects/{subject}/versions", {"schema": schema, **fields})


@pytest.fixture
def api() -> Api:
    """An application on an empty registry."""
    return Api(Service())


async def test_answers_have_the_type_of_the_registry(api: Api) -> None:
    await api.ask("GET", "/")
    assert api.headers["content-type"] == "application/vnd.schemaregistry.v1+json"


async def test_version_is_shown_with_its_fields(api: Api) -> None:
    assert (await api.register("s", "a")).data["id"] == 1
    references = [{"name": "n", "subject": "s", "version": 1}]
    await api.register("t", "b", schemaType="JSON", references=references)
    found = await api.ask("GET", "/subjects/t/versions/1")
    assert found.data.pop("guid")
    assert found.data == {
        "subject": "t", "version": 1, "id": 2, "schemaType": "JSON", "references": references,
        "schema": "b",
    }  # fmt: skip
    await api.ask("DELETE", "/subjects/t")
    assert (await api.ask("GET", "/subjects/t/versions/1")).code == 40401
    found = await api.ask("GET", "/subjects/t/versions/1?deleted=true")
    assert found.data["deleted"] is True


async def test_schemas_are_listed_by_prefix_page_and_latest_version(api: Api) -> None:
    for subject, schema in (("a", "x"), ("a", "x y?"), ("b", "x"), (":.lab:a", "x")):
        await api.register(subject, schema)

    async def listed(query: str) -> list[tuple[str, int]]:
        found = await api.ask("GET", f"/schemas{query}")
        return [(each["subject"], each["version"]) for each in found.data]

    assert await listed("") == [(":.lab:a", 1), ("a", 1), ("a", 2), ("b", 1)]
    assert await listed("?latestOnly=true&subjectPrefix=a") == [("a", 2)]
    assert await listed("?offset=1&limit=2") == [("a", 1), ("a", 2)]
    assert await listed("?subjectPrefix=:.lab:") == [(":.lab:a", 1)]
    assert (await api.ask("GET", "/subjects?subjectPrefix=a")).data == ["a"]
    assert (await api.ask("GET", "/subjects?limit=x")).status == 404


async def test_deleted_subjects_are_listed_on_request(api: Api) -> None:
    await api.register("s", "a")
    await api.register("t", "a")
    await api.ask("DELETE", "/subjects/s")
    assert (await api.ask("GET", "/subjects")).data == ["t"]
    assert (await api.ask("GET", "/subjects?deleted=true")).data == ["s", "t"]
    assert (await api.ask("GET", "/subjects?deletedOnly=true")).data == ["s"]
    assert (await api.ask("GET", "/subjects/s/versions?deletedOnly=true")).data == [1]


async def test_id_is_shown_with_its_uses(api: Api) -> None:
    await api.register("s", "a")
    await api.register("t", "a")
    await api.ask("DELETE", "/subjects/t")
    path = "/schemas/ids/1"
    assert (await api.ask("GET", f"{path}/subjects")).data == ["s"]
    assert (await api.ask("GET", f"{path}/subjects?deleted=true")).data == ["s", "t"]
    assert (await api.ask("GET", f"{path}/versions")).data == [{"subject": "s", "version": 1}]
    found = (await api.ask("GET", f"{path}?fetchMaxId=true")).data
    assert (found["schema"], found["maxId"]) == ("a", 1)
    guid = found["guid"]
    assert (await api.ask("GET", f"/schemas/guids/{guid}")).data["schema"] == "a"
    assert (await api.ask("GET", f"/schemas/guids/{guid}/ids")).data == [{"context": ".", "id": 1}]
    assert (await api.ask("GET", "/schemas/guids/x")).code == 40403


async def test_look_up_tells_a_missing_subject_from_a_missing_schema(api: Api) -> None:
    assert (await api.ask("POST", "/subjects/s", {"schema": "a"})).code == 40401
    await api.register("s", "a")
    assert (await api.ask("POST", "/subjects/s", {"schema": "b"})).code == 40403
    assert (await api.ask("POST", "/subjects/s", {"schema": "a"})).data["version"] == 1
    assert (await api.ask("POST", "/subjects/s", {"schema": "bad"})).code == 42201


async def test_compatibility_is_checked_against_one_version_or_by_level(api: Api) -> None:
    path = "/compatibility/subjects/s/versions"
    new = {"schema": "a b"}
    assert (await api.ask("POST", f"{path}/latest", new)).data == {"is_compatible": True}
    assert (await api.ask("POST", f"{path}/1", new)).code == 40402
    await api.register("s", "a")
    await api.register("s", "a b?")
    assert (await api.ask("POST", f"{path}/1", new)).data == {"is_compatible": False}
    assert (await api.ask("POST", path, new)).data == {"is_compatible": True}
    await api.ask("PUT", "/config/s", {"compatibility": "BACKWARD_TRANSITIVE"})
    assert (await api.ask("POST", f"{path}?verbose=true", new)).data == {
        "is_compatible": False, "messages": ["b is missing", "{oldSchemaVersion: 1}"],
    }  # fmt: skip
    verbose = await api.ask("POST", f"{path}/latest?verbose=true", {"schema": "bad"})
    assert verbose.data["is_compatible"] is False
    assert (await api.ask("POST", f"{path}/latest", {"schema": "bad"})).code == 42201


async def test_config_of_a_level_is_shown_or_that_which_holds(api: Api) -> None:
    assert (await api.ask("GET", "/config")).data == {"compatibilityLevel": "BACKWARD"}
    await api.ask("PUT", "/config", {"compatibility": "none"})
    assert (await api.ask("GET", "/config")).data == {"compatibilityLevel": "NONE"}
    assert (await api.ask("GET", "/config/s")).code == 40408
    shown = await api.ask("GET", "/config/s?defaultToGlobal=true")
    assert shown.data == {"compatibilityLevel": "NONE"}
    answer = await api.ask("PUT", "/config/s", {"compatibility": "FULL", "normalize": True})
    assert answer.data == {"compatibility": "FULL", "normalize": True}
    deleted = await api.ask("DELETE", "/config/s")
    assert deleted.data == {"compatibilityLevel": "FULL", "normalize": True}
    await api.ask("DELETE", "/config")
    assert (await api.ask("GET", "/config")).data == {"compatibilityLevel": "BACKWARD"}


async def test_mode_of_a_level_is_shown_or_that_which_holds(api: Api) -> None:
    assert (await api.ask("GET", "/mode/s")).code == 40409
    assert (await api.ask("GET", "/mode/s?defaultToGlobal=true")).data == {"mode": "READWRITE"}
    await api.ask("PUT", "/mode/:.lab:", {"mode": "READONLY"})
    shown = await api.ask("GET", "/mode/:.lab:s?defaultToGlobal=true")
    assert shown.data == {"mode": "READONLY"}
    assert (await api.ask("GET", "/contexts/lab/mode")).data == {"mode": "READONLY"}
    await api.register("s", "a")
    assert (await api.ask("PUT", "/mode", {"mode": "IMPORT"})).code == 42205
    assert (await api.ask("PUT", "/mode?force=true", {"mode": "IMPORT"})).status == 200


async def test_path_of_a_context_is_that_of_its_subjects(api: Api) -> None:
    made = await api.ask("POST", "/contexts/lab/subjects/s/versions", {"schema": "a"})
    assert made.data["id"] == 1
    assert (await api.ask("GET", "/subjects/:.lab:s/versions")).data == [1]
    assert (await api.ask("GET", "/contexts/:.lab:/schemas/ids/1")).data["schema"] == "a"
    assert (await api.ask("GET", "/contexts")).data == [".", ".lab"]
    assert (await api.ask("DELETE", "/contexts/lab")).code == 42211
    await api.ask("DELETE", "/contexts/lab/subjects/s")
    await api.ask("DELETE", "/contexts/lab/subjects/s?permanent=true")
    assert (await api.ask("DELETE", "/contexts/lab")).status == 204


async def test_alias_stands_for_another_subject(api: Api) -> None:
    await api.register("new", "a")
    await api.ask("PUT", "/config/old", {"alias": "new"})
    assert (await api.ask("GET", "/subjects/old/versions/1")).data["subject"] == "new"


async def test_latest_version_with_metadata_is_found(api: Api) -> None:
    await api.register("s", "a", metadata={"properties": {"major": "1"}})
    await api.register("s", "a b?", metadata={"properties": {"major": "1"}})
    await api.register("s", "a b? c?", metadata={"properties": {"major": "2"}})
    found = await api.ask("GET", "/subjects/s/metadata?key=major&value=1")
    assert found.data["version"] == 2
    assert (await api.ask("GET", "/subjects/s/metadata?key=major&value=3")).code == 40403
    assert (await api.ask("GET", "/subjects/t/metadata?key=major&value=3")).code == 40401


async def test_latest_version_may_be_called_minus_one(api: Api) -> None:
    await api.register("s", "a")
    assert (await api.ask("GET", "/subjects/s/versions/-1")).data["version"] == 1
    assert (await api.ask("GET", "/subjects/s/versions/7")).code == 40402


async def test_defect_is_answered_and_logged(
    api: Api, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api.service.registry, "by_id", None)
    assert (await api.ask("GET", "/schemas/ids/1")).status == 500
    assert "cannot answer GET /schemas/ids/1" in caplog.text


async def test_request_without_a_user_is_refused() -> None:
    api = Api(Service(), users=Users({"ann": "secret"}))
    answer = await api.ask("GET", "/subjects")
    assert (answer.status, answer.code) == (401, 401)
    assert api.headers["www-authenticate"] == 'Basic realm="kwire-registry"'
    header = {"authorization": "Basic YW5uOnNlY3JldA=="}
    assert (await api.ask("GET", "/subjects", headers=header)).data == []


class Primary(Forwarder):
    """The other instance, as the forwarder meets it: answers or errors, one after the other."""

    def __init__(self, *answers: Forwarded | Exception) -> None:
        super().__init__()
        self.answers = list(answers)
        self.got: list[tuple[InstanceIdentity, str, str, bytes]] = []

    def forward(
        self,
        primary: InstanceIdentity,
        request: HttpRequest,
        is_replaced: Callable[[], bool] = lambda: False,
    ) -> Forwarded:
        assert not is_replaced()
        self.got.append((primary, request.method, request.target, request.body))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def secondary() -> Service:
    """An instance beside another one that is the primary."""
    service = Service()
    service.election.primary, service.election.is_primary = OTHER, False
    return service


async def test_change_is_sent_on_to_the_primary_and_awaited() -> None:
    primary = Primary(Forwarded(200, b'{"id":5}', 12))
    service = secondary()
    api = Api(service, primary)
    answer = await api.ask("POST", "/subjects/a%2Fb/versions?normalize=true", {"schema": "a"})
    assert answer == Answer(200, {"id": 5})
    path = "/subjects/a%2Fb/versions?normalize=true"
    assert primary.got == [(OTHER, "POST", path, b'{"schema": "a"}')]
    assert service.waited == [12]


async def test_schema_that_is_known_is_not_sent_on() -> None:
    service = secondary()
    service.machine.register("s", "a")
    api = Api(service, Primary())
    assert (await api.register("s", "a")).data["id"] == 1


async def test_error_of_the_primary_is_passed_on() -> None:
    api = Api(secondary(), Primary(Forwarded(409, b'{"error_code":409}', -1)))
    assert (await api.register("s", "a")).code == 409


@pytest.mark.parametrize(
    "first", [SendAgain("refused"), Forwarded(500, b'{"error_code":50004}', -1)], ids=type
)
async def test_change_is_sent_again_if_the_primary_was_another(
    first: Forwarded | Exception,
) -> None:
    primary = Primary(first, Forwarded(200, b'{"id":5}', -1))
    assert (await Api(secondary(), primary).register("s", "a")).data == {"id": 5}


async def test_change_that_was_sent_on_is_not_sent_on_again() -> None:
    api = Api(secondary(), Primary())
    answer = await api.ask("DELETE", "/subjects/s", headers={FORWARDED: "1"})
    assert answer.code == 50004


async def test_change_without_any_primary_is_refused() -> None:
    service = secondary()
    service.election.primary, service.election.has_none = None, True
    assert (await Api(service, Primary()).register("s", "a")).code == 50004


async def test_primary_says_up_to_where_it_has_written(api: Api) -> None:
    await api.register("s", "a")
    assert api.headers[OFFSET] == "6"
