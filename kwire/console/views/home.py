"""The start page, which is the list of topics, and the choice of the theme."""

from __future__ import annotations

from typing import Final

from starlette.responses import RedirectResponse, Response

from kwire.console.site import THEME_COOKIE, THEMES, SitePage, Visit

YEAR_S: Final = 365 * 86_400


async def home(_: Visit) -> Response:
    """Go to the list of topics."""
    return RedirectResponse("/topics", 303)


async def theme(visit: Visit) -> Response:
    """Keep the chosen theme in a cookie, and go back to the page it was chosen on."""
    form = await visit.form()
    response = RedirectResponse(local_path(form.get("back", "/")), 303)
    chosen = form.get("theme", "")
    if chosen in THEMES:
        response.set_cookie(THEME_COOKIE, chosen, max_age=YEAR_S, samesite="strict")
    return response


def local_path(path: str) -> str:
    """The path, if it is one of the console, else the start page."""
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_local else "/"


PAGES = (
    SitePage("/", home),
    SitePage("/theme", theme, methods=("POST",)),
)
