"""All pages of the console as one ASGI application."""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from kwire.client.errors import (
    AuthenticationFailed,
    BrokerRefused,
    BrokerUnreachable,
    ClientError,
    Misuse,
    ProtocolError,
    RequestTimedOut,
    UnsupportedRequest,
    WrongBroker,
)
from kwire.codecs.errors import ErrorCode
from kwire.console import views
from kwire.console.security import AccessRules, BodyTooLarge, Gatekeeper
from kwire.console.site import FOLDER, Site, SitePage, Visit
from kwire.console.static_files import StaticFiles

log = logging.getLogger("kwire.console")

AWAY: Final = (BrokerUnreachable, RequestTimedOut, WrongBroker, ProtocolError)
NOT_FOUND: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.RESOURCE_NOT_FOUND,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.OFFSET_OUT_OF_RANGE,
}
TITLES: Final = {
    400: "This cannot be done",
    403: "You have no right to do this",
    404: "Not found",
    405: "This page takes no such request",
    413: "The request is too large",
    500: "The console has a defect",
    501: "The cluster does not support this",
    503: "The cluster does not answer",
}
HINTS: Final = {
    403: "The console has the rights of the client properties that it was started with (-c).",
    500: "The console's log has the details. Please report it.",
    503: "Check that its brokers run, and that this machine reaches the addresses that they "
    "advertise: kwire ping{options}",
}


def site_pages() -> tuple[SitePage, ...]:
    """The pages that the modules in `views` declare, in the order of the menu."""
    found: list[SitePage] = []
    for module in pkgutil.iter_modules(views.__path__):
        found += getattr(import_module(f"{views.__name__}.{module.name}"), "PAGES", ())
    return tuple(sorted(found, key=lambda page: (page.position, page.path)))


def background_work() -> list[Callable[[Site], Awaitable[None]]]:
    """What runs beside the pages: the functions that the modules in `views` declare."""
    found: list[Callable[[Site], Awaitable[None]]] = []
    for module in pkgutil.iter_modules(views.__path__):
        found += getattr(import_module(f"{views.__name__}.{module.name}"), "BACKGROUND", ())
    return found


def status_of(error: ClientError) -> int:
    """The HTTP status that tells of an error of the client."""
    if isinstance(error, AWAY):
        return 503
    if isinstance(error, AuthenticationFailed):
        return 403
    if isinstance(error, UnsupportedRequest):
        return 501
    if isinstance(error, BrokerRefused):
        if error.code in NOT_FOUND:
            return 404
        if error.code.name.endswith("AUTHORIZATION_FAILED"):
            return 403
        return 503 if error.retriable else 400
    return 404 if isinstance(error, Misuse) and "has no partition" in str(error) else 400


def error_page(site: Site, request: Request, status: int, message: str) -> Response:
    """The page that tells of a failure."""
    return Visit(site, request).page(
        "error.html",
        status=status,
        title=TITLES.get(status, TITLES[400]),
        message=message,
        hint=HINTS.get(status, "").format(options=site.command_options),
    )


def application(site: Site, rules: AccessRules) -> ASGIApp:
    """The application with all pages, behind the rules of access."""
    pages = site_pages()
    site.menu = tuple(page for page in pages if page.label)
    site.background += [partial(work, site) for work in background_work()]

    def endpoint(page: SitePage) -> Callable[[Request], Awaitable[Response]]:
        """The function of Starlette that answers for a page."""

        async def answer(request: Request) -> Response:
            try:
                with site.pool.pages.page():
                    return await page.view(Visit(site, request))
            except ClientError as error:
                return error_page(site, request, status_of(error), str(error))
            except BodyTooLarge:
                return error_page(site, request, 413, "The request has too many bytes.")
            except ClientDisconnect:
                return Response(status_code=400)

        return answer

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        message = "There is no such page." if error.status_code == 404 else str(error.detail)
        return error_page(site, request, error.status_code, message)

    async def on_defect(request: Request, error: Exception) -> Response:
        return error_page(site, request, 500, f"{type(error).__name__} in {request.url.path}")

    routes = [Route(page.path, endpoint(page), methods=list(page.methods)) for page in pages]
    static = Route("/static/{name}", StaticFiles(FOLDER / "static").answer)
    app = Starlette(
        routes=[*routes, static],
        exception_handlers={HTTPException: on_http_error, 500: on_defect},
    )
    return Gatekeeper(app, rules)
