"""The REST interface of Confluent's schema registry, from the side of a client.

The requests are those of Confluent Schema Registry's documentation, API reference.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from kwire.registry.client.described import (
    Compatibility,
    RegisteredVersion,
    SchemaText,
    VersionName,
    version_of,
)
from kwire.registry.client.errors import RegistryUnreachable
from kwire.registry.client.http_json import TIMEOUT_S, HttpJson
from kwire.registry.schemas.kinds import Reference
from kwire.registry.schemas.values.record_schema import RecordSchema

REFERENCES_MAX: Final = 200
"""Schemas that one schema refers to, directly or not."""
LATEST: Final = "latest"
SERIALIZED: Final = {"format": "serialized"}
"""Asks for Protobuf schemas as descriptors, which need no parser.  Other kinds are what they are,
and some registries give the text all the same."""


class RegistryClient:
    """Requests to a registry.  Each raises RegistryUnreachable or RegistryRefused.

    Threads may share it.
    """

    def __init__(
        self,
        urls: str,
        *,
        context: ssl.SSLContext | None = None,
        login: tuple[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`urls` are addresses like `http://user:password@localhost:8081`, separated by commas.
        `context` is for https, and `login` a user and a password.  Raises ValueError."""
        self._http = HttpJson(urls, context=context, login=login, timeout_s=timeout_s)

    @property
    def address(self) -> str:
        """The first address, without a password."""
        return self._http.address

    # -- subjects and versions

    def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        """The names of the subjects, those that were deleted softly too if `deleted`."""
        query = {"subjectPrefix": prefix} if prefix else {}
        return _texts(self._get("/subjects", query | _if("deleted", deleted)))

    def latest_versions(
        self, prefix: str = "", *, deleted: bool = False
    ) -> list[RegisteredVersion]:
        """The latest version of each subject, sorted by subject."""
        query = {"subjectPrefix": prefix} if prefix else {}
        query |= {"latestOnly": "true"} | _if("deleted", deleted)
        found = [version_of(each) for each in _list(self._get("/schemas", query))]
        return sorted(found, key=lambda each: each.subject or "")

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """The numbers of a subject's versions."""
        found = self._get(f"{_of(subject)}/versions", _if("deleted", deleted))
        return [_number(each) for each in _list(found)]

    def version(
        self, subject: str, version: VersionName = LATEST, *, deleted: bool = False
    ) -> RegisteredVersion:
        """One version of a subject."""
        return version_of(self._get(_of(subject, version), _if("deleted", deleted)))

    def schema(self, schema_id: int, subject: str | None = None) -> RegisteredVersion:
        """The schema of an id.  The answer may lack subject, version and id."""
        query = {} if subject is None else {"subject": subject}
        return version_of(self._get(f"/schemas/ids/{int(schema_id)}", query))

    def places(self, schema_id: int, *, deleted: bool = False) -> list[tuple[str, int]]:
        """Subject and version of each registration of an id."""
        found = self._get(f"/schemas/ids/{int(schema_id)}/versions", _if("deleted", deleted))
        try:
            return [(str(each["subject"]), int(each["version"])) for each in found]
        except (TypeError, LookupError, ValueError):
            raise RegistryUnreachable("the registry's answer has no versions") from None

    def referenced_by(self, subject: str, version: VersionName = LATEST) -> list[int]:
        """The ids of the schemas that refer to a version."""
        found = self._get(f"{_of(subject, version)}/referencedby")
        return [_number(each) for each in _list(found)]

    def kinds(self) -> list[str]:
        """The types of schemas that the registry knows."""
        return _texts(self._get("/schemas/types"))

    def contexts(self) -> list[str]:
        """The contexts, of which the default is a dot."""
        return _texts(self._get("/contexts"))

    # -- register, look up, check, delete

    def register(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> int:
        """Register a schema, and return its id; that of its earlier registration if there is one.

        Raises RegistryRefused with status 409 if it is not compatible with earlier versions.
        """
        path = f"{_of(subject)}/versions"
        answer = self._send("POST", path, schema.as_json(), _if("normalize", normalize))
        return _number(answer.get("id") if isinstance(answer, dict) else None)

    def look_up(
        self, subject: str, schema: SchemaText, *, normalize: bool = False, deleted: bool = False
    ) -> RegisteredVersion:
        """The version of a subject that has this schema.  RegistryRefused has the code 40403 if
        there is none."""
        query = _if("normalize", normalize) | _if("deleted", deleted)
        return version_of(self._send("POST", _of(subject), schema.as_json(), query))

    def check(
        self,
        subject: str,
        schema: SchemaText,
        version: VersionName | None = LATEST,
        *,
        normalize: bool = False,
    ) -> Compatibility:
        """Whether a schema is compatible with a version, or by the subject's level with all
        versions that it concerns if `version` is None."""
        path = f"/compatibility{_of(subject)}/versions"
        path += "" if version is None else f"/{quote(str(version), safe='')}"
        query = {"verbose": "true"} | _if("normalize", normalize)
        answer = self._send("POST", path, schema.as_json(), query)
        try:
            is_compatible = bool(answer["is_compatible"])
            return Compatibility(is_compatible, tuple(map(str, answer.get("messages") or ())))
        except (TypeError, LookupError, AttributeError):
            raise RegistryUnreachable(
                "the registry does not say whether it is compatible"
            ) from None

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete all versions, and return their numbers.  They must be deleted softly before they
        are deleted permanently."""
        found = self._send("DELETE", _of(subject), None, _if("permanent", permanent))
        return [_number(each) for each in _list(found)]

    def delete_version(self, subject: str, version: VersionName, *, permanent: bool = False) -> int:
        """Delete a version, and return its number."""
        path = _of(subject, version)
        return _number(self._send("DELETE", path, None, _if("permanent", permanent)))

    # -- config and mode

    def config(self, subject: str | None = None, *, falls_back: bool = False) -> dict[str, Any]:
        """The config of a subject, or the global one.  A subject without one is refused with the
        code 40408; with `falls_back` it has the global one."""
        return _object(self._get(_setting("config", subject), _if("defaultToGlobal", falls_back)))

    def set_config(self, config: dict[str, Any], subject: str | None = None) -> dict[str, Any]:
        """Change the config, such as `{"compatibility": "FULL"}`."""
        return _object(self._send("PUT", _setting("config", subject), config))

    def delete_config(self, subject: str | None = None) -> dict[str, Any]:
        """Remove the config of a subject, or reset the global one; return what it was."""
        return _object(self._send("DELETE", _setting("config", subject)))

    def mode(self, subject: str | None = None, *, falls_back: bool = False) -> str:
        """The mode of a subject, or the global one, such as READWRITE."""
        answer = self._get(_setting("mode", subject), _if("defaultToGlobal", falls_back))
        return str(_object(answer).get("mode", ""))

    def set_mode(self, mode: str, subject: str | None = None, *, force: bool = False) -> str:
        """Change the mode.  Only `force` makes IMPORT of what has schemas."""
        path = _setting("mode", subject)
        answer = self._send("PUT", path, {"mode": mode}, _if("force", force))
        return str(_object(answer).get("mode", ""))

    def delete_mode(self, subject: str | None = None) -> str:
        """Remove the mode of a subject, and return what it was."""
        return str(_object(self._send("DELETE", _setting("mode", subject))).get("mode", ""))

    # -- schemas with those that they refer to

    def record_schema(self, schema_id: int) -> RecordSchema:
        """The schema of an id, to decode and encode records by it."""
        return self._with_references(self._get(f"/schemas/ids/{int(schema_id)}", SERIALIZED))

    def record_schema_of_guid(self, guid: str) -> RecordSchema:
        """The schema of a GUID, to decode records by it."""
        path = f"/schemas/guids/{quote(guid, safe='')}"
        return self._with_references(self._get(path, SERIALIZED))

    def record_schema_of_version(
        self, subject: str, version: VersionName = LATEST
    ) -> tuple[int, RecordSchema]:
        """The id and the schema of a version, to encode records by it."""
        answer = self._get(_of(subject, version), SERIALIZED)
        return _number(_object(answer).get("id")), self._with_references(answer)

    def _with_references(self, answer: Any) -> RecordSchema:  # noqa: ANN401 - JSON
        found = version_of(answer).schema
        return RecordSchema(found.kind, found.text, self.texts_of(found.references))

    def texts_of(self, references: tuple[Reference, ...]) -> list[tuple[str, str]]:
        """Name and text of the schemas that references name, directly or not, those first that
        others need.  Each name is there once."""
        found: dict[str, str] = {}
        for name, text in self._texts_of(references, set()):
            found.setdefault(name, text)
        return list(found.items())

    def _texts_of(
        self, references: tuple[Reference, ...], seen: set[tuple[str, int]]
    ) -> Iterator[tuple[str, str]]:
        for each in references:
            place = each.subject, each.version
            if place in seen or len(seen) >= REFERENCES_MAX:
                continue
            seen.add(place)
            # A reference may name a version that was deleted softly.
            query = SERIALIZED | {"deleted": "true"}
            inner = version_of(self._get(_of(*place), query)).schema
            yield from self._texts_of(inner.references, seen)
            yield each.name, inner.text

    # -- HTTP

    def _get(self, path: str, query: dict[str, str] | None = None) -> Any:  # noqa: ANN401 - JSON
        return self._http.request("GET", path, None, query)

    def _send(
        self,
        method: str,
        path: str,
        body: Any = None,  # noqa: ANN401 - JSON
        query: dict[str, str] | None = None,
    ) -> Any:  # noqa: ANN401 - JSON
        return self._http.request(method, path, body, query)


def _of(subject: str, version: VersionName | None = None) -> str:
    """The path of a subject, or of one of its versions."""
    path = f"/subjects/{quote(subject, safe='')}"
    return path if version is None else f"{path}/versions/{quote(str(version), safe='')}"


def _setting(name: str, subject: str | None) -> str:
    return f"/{name}" if subject is None else f"/{name}/{quote(subject, safe='')}"


def _if(name: str, wanted: bool) -> dict[str, str]:
    return {name: "true"} if wanted else {}


def _list(answer: Any) -> list[Any]:  # noqa: ANN401 - JSON
    if not isinstance(answer, list):
        raise RegistryUnreachable("the registry's answer is no list")
    return answer


def _object(answer: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    if not isinstance(answer, dict):
        raise RegistryUnreachable("the registry's answer is no object")
    return answer


def _texts(answer: Any) -> list[str]:  # noqa: ANN401 - JSON
    return [str(each) for each in _list(answer)]


def _number(answer: Any) -> int:  # noqa: ANN401 - JSON
    if type(answer) is not int:
        raise RegistryUnreachable("the registry's answer has no number")
    return answer
