"""The application: routes, errors in JSON, and where each request is answered.

Look-ups by id and name are answered at once, on the loop.  What parses a schema runs in a thread.
What changes something runs in a thread of the primary; another instance sends it on.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

import trio

from kwire.registry.rest import changing, looking
from kwire.registry.rest.access import REALM, Users
from kwire.registry.rest.call import FORMAT, Call, Text, context_name, split_target
from kwire.registry.rest.forwarding import OFFSET, Forwarder, SendAgain
from kwire.registry.service import NotPrimary, RegistryService
from kwire.registry.subjects.errors import RegistryError, forwarding_failed, primary_unknown
from kwire.registry.subjects.records import Write
from kwire.server.http.messages import HttpReply, HttpRequest

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
TARGET_LENGTH_MAX: Final = 16_384
WITH_BODY: Final = ("POST", "PUT")
PATIENCE_S: Final = 20.0
"""How long a change waits for a primary.  It is longer than an election after a crash takes."""
AGAIN_S: Final = 0.2
"""The pause before another try at a primary that cannot be reached."""
READ_BACK_S: Final = 5.0
"""How long an instance waits until it has applied what it sent on to the primary."""
PARSERS_MAX: Final = 8
WRITERS_MAX: Final = 32
"""Threads that parse, and that write; others wait for their turn."""

log = logging.getLogger("kwire.registry")


class Way(Enum):
    """Where a request is answered."""

    LOOP = 0
    THREAD = 1
    PRIMARY = 2


class ApiRoute(NamedTuple):
    """A path with the function that answers."""

    method: str
    parts: tuple[str, ...]
    """The parts of the path; `*NAME` is a parameter."""
    answer: Callable[[Call], Any]
    way: Way


def _route(method: str, path: str, answer: Callable[[Call], Any], way: Way) -> ApiRoute:
    return ApiRoute(method, tuple(part for part in path.split("/") if part), answer, way)


ROUTES: Final = (
    _route("GET", "/", looking.root, Way.LOOP),
    _route("GET", "/v1/metadata/id", looking.cluster_id, Way.LOOP),
    _route("GET", "/v1/metadata/version", looking.release, Way.LOOP),
    _route("GET", "/schemas/types", looking.types, Way.LOOP),
    _route("GET", "/schemas", looking.schemas, Way.THREAD),
    _route("GET", "/schemas/ids/*id", looking.by_id, Way.LOOP),
    _route("GET", "/schemas/ids/*id/schema", looking.text_by_id, Way.LOOP),
    _route("GET", "/schemas/ids/*id/subjects", looking.subjects_of_id, Way.LOOP),
    _route("GET", "/schemas/ids/*id/versions", looking.versions_of_id, Way.LOOP),
    _route("GET", "/schemas/guids/*guid", looking.by_guid, Way.LOOP),
    _route("GET", "/schemas/guids/*guid/ids", looking.ids_of_guid, Way.LOOP),
    _route("GET", "/subjects", looking.subjects, Way.THREAD),
    _route("POST", "/subjects/*subject", looking.look_up, Way.THREAD),
    _route("DELETE", "/subjects/*subject", changing.subject_deleted, Way.PRIMARY),
    _route("GET", "/subjects/*subject/versions", looking.versions, Way.LOOP),
    _route("POST", "/subjects/*subject/versions", changing.registered, Way.PRIMARY),
    _route("GET", "/subjects/*subject/metadata", looking.latest_with_metadata, Way.LOOP),
    _route("GET", "/subjects/*subject/versions/*version", looking.version, Way.LOOP),
    _route("DELETE", "/subjects/*subject/versions/*version", changing.version_deleted, Way.PRIMARY),
    _route("GET", "/subjects/*subject/versions/*version/schema", looking.text_of_version, Way.LOOP),
    _route(
        "GET", "/subjects/*subject/versions/*version/referencedby", looking.referenced_by, Way.LOOP
    ),
    _route("POST", "/compatibility/subjects/*subject/versions", looking.compatible, Way.THREAD),
    _route(
        "POST", "/compatibility/subjects/*subject/versions/*version", looking.compatible, Way.THREAD
    ),
    _route("GET", "/config", looking.config, Way.LOOP),
    _route("PUT", "/config", changing.config_set, Way.PRIMARY),
    _route("DELETE", "/config", changing.config_deleted, Way.PRIMARY),
    _route("GET", "/config/*subject", looking.config, Way.LOOP),
    _route("PUT", "/config/*subject", changing.config_set, Way.PRIMARY),
    _route("DELETE", "/config/*subject", changing.config_deleted, Way.PRIMARY),
    _route("GET", "/mode", looking.mode, Way.LOOP),
    _route("PUT", "/mode", changing.mode_set, Way.PRIMARY),
    _route("DELETE", "/mode", changing.mode_deleted, Way.PRIMARY),
    _route("GET", "/mode/*subject", looking.mode, Way.LOOP),
    _route("PUT", "/mode/*subject", changing.mode_set, Way.PRIMARY),
    _route("DELETE", "/mode/*subject", changing.mode_deleted, Way.PRIMARY),
    _route("GET", "/contexts", looking.contexts, Way.LOOP),
    _route("DELETE", "/contexts/*context", changing.context_deleted, Way.PRIMARY),
)
BY_LENGTH: Final = {
    length: tuple(route for route in ROUTES if len(route.parts) == length)
    for length in {len(route.parts) for route in ROUTES}
}
CONTEXTS: Final = "contexts"


def find_route(method: str, parts: list[str]) -> tuple[ApiRoute, dict[str, str]]:
    """The route of a path, and the parameters in it.  Raises RegistryError."""
    is_known = False
    for route in BY_LENGTH.get(len(parts), ()):
        names: dict[str, str] = {}
        for wanted, given in zip(route.parts, parts, strict=True):
            if wanted.startswith("*"):
                names[wanted[1:]] = given
            elif wanted != given:
                break
        else:
            is_known = True
            if route.method == method:
                return route, names
    if is_known:
        raise RegistryError(405, "HTTP 405 Method Not Allowed")
    raise RegistryError(404, "HTTP 404 Not Found")


class RegistryApp:
    """The application."""

    def __init__(
        self,
        service: RegistryService,
        *,
        users: Users | None = None,
        forwarder: Forwarder | None = None,
    ) -> None:
        """With `users`, each request needs the name and password of one."""
        self._service = service
        self._users = users
        self._forwarder = forwarder or Forwarder()
        self._parsers = trio.CapacityLimiter(PARSERS_MAX)
        self._writers = trio.CapacityLimiter(WRITERS_MAX)

    def admit(self, request: HttpRequest) -> HttpReply | None:
        """The reply to a request that is refused whatever its body says."""
        try:
            self._routed(request)
        except RegistryError as error:
            return failed(error)
        return None

    async def answer(self, request: HttpRequest) -> HttpReply:
        """Answer one request."""
        try:
            return await self._answer(request)
        except RegistryError as error:
            return failed(error)
        except Exception:
            log.exception("cannot answer %s %s", request.method, request.target)
            return failed(RegistryError(500, "Internal Server Error"))

    def _routed(self, request: HttpRequest) -> tuple[ApiRoute, Call]:
        """The route of a request, and what its function gets.  Raises RegistryError."""
        if self._users is not None and not self._users.allows(
            request.headers.get("authorization", "")
        ):
            raise RegistryError(401, "Unauthorized")
        if len(request.target) > TARGET_LENGTH_MAX:
            raise RegistryError(414, "HTTP 414 URI Too Long")
        parts, pairs = split_target(request.target)
        context = "."
        if len(parts) > 2 and parts[0] == CONTEXTS:
            context, parts = context_name(parts[1]), parts[2:]
        # The server leaves out the body of a response to HEAD, as JAX-RS does.
        method = "GET" if request.method == "HEAD" else request.method
        route, names = find_route(method, parts)
        if route.method in WITH_BODY:
            _check_type(request.content_type)
        call = Call(self._service, request, context, names, pairs)
        return route, call

    async def _answer(self, request: HttpRequest) -> HttpReply:
        """The response to a request.  Raises RegistryError."""
        route, call = self._routed(request)
        if route.way is Way.LOOP and FORMAT not in call.query:
            return _answered(route.answer(call))
        if route.way is not Way.PRIMARY:  # another format of a schema needs to parse it
            work = partial(route.answer, call)
            return _answered(await trio.to_thread.run_sync(work, limiter=self._parsers))
        return await self._changed(call, partial(route.answer, call))

    async def _changed(
        self, call: Call, decide: Callable[[], tuple[Any, list[Write]]]
    ) -> HttpReply:
        """The response to a change: this instance's as the primary, or the primary's."""
        election = self._service.election
        if call.request.method == "POST" and not election.is_primary:
            # Most clients register again and again what is registered.
            known = await trio.to_thread.run_sync(self._service.peek, decide, limiter=self._parsers)
            if known is not None:
                return _answered(known)
        with trio.move_on_after(PATIENCE_S):
            while True:
                try:
                    return await self._at_primary(call, decide)
                except NotPrimary:
                    if call.is_forwarded or election.has_none:
                        break
                    await trio.to_thread.run_sync(election.wait, PATIENCE_S, abandon_on_cancel=True)
                    await trio.sleep(AGAIN_S / 10)
                except SendAgain as error:
                    log.info("the primary does not answer: %s; sending again", error)
                    await trio.sleep(AGAIN_S)
        if election.primary not in (None, election.identity) and not call.is_forwarded:
            raise forwarding_failed("Error while forwarding the request to the leader")
        raise primary_unknown()

    async def _at_primary(
        self, call: Call, decide: Callable[[], tuple[Any, list[Write]]]
    ) -> HttpReply:
        """Make the change here or at the primary.  Raises NotPrimary if none is known."""
        service, election = self._service, self._service.election
        primary = election.primary
        if primary is None or primary == election.identity or call.is_forwarded:
            # What was begun is ended: a client that gives up learns nothing either way.
            answer = await trio.to_thread.run_sync(service.change, decide, limiter=self._writers)
            offset = str(service.topic.position - 1)
            return _answered(answer)._replace(headers=((OFFSET, offset),))
        forward = partial(
            self._forwarder.forward,
            primary,
            call.request,
            lambda: election.primary not in (None, primary),
        )
        found = await trio.to_thread.run_sync(forward, limiter=self._writers)
        if found.status >= 500 and _code(found.body) == primary_unknown().code:
            await trio.sleep(AGAIN_S)
            raise NotPrimary
        if found.offset >= 0:
            wait = partial(service.topic.wait_for, found.offset, READ_BACK_S)
            await trio.to_thread.run_sync(wait, limiter=self._writers)
        return HttpReply(found.status, found.body, CONTENT_TYPE)


def refused(status: int, reason: str) -> HttpReply:
    """The reply to what the server refuses, because it is no valid request of HTTP."""
    return failed(RegistryError(status, reason))


def failed(error: RegistryError) -> HttpReply:
    """The response with an error."""
    fields = {"error_code": error.code, "message": error.message}
    body = json.dumps(fields, separators=(",", ":")).encode()
    headers = (("www-authenticate", f'Basic realm="{REALM}"'),) if error.code == 401 else ()
    return HttpReply(error.status, body, CONTENT_TYPE, headers)


def _check_type(content_type: str) -> None:
    """Raise RegistryError if a body is of a type that a form of another site could have."""
    name = content_type.partition(";")[0].strip().lower()
    if not name.endswith("json") and name != "application/octet-stream":
        raise RegistryError(415, "HTTP 415 Unsupported Media Type")


def _answered(answer: object) -> HttpReply:
    """The response with an answer."""
    if isinstance(answer, Text):
        return HttpReply(200, answer.text.encode(), CONTENT_TYPE)
    if answer is None:
        return HttpReply(204)
    body = json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode()
    return HttpReply(200, body, CONTENT_TYPE)


def _code(body: bytes) -> object:
    """The error code in a response."""
    try:
        fields = json.loads(body)
    except ValueError:
        return None
    return fields.get("error_code") if isinstance(fields, dict) else None
