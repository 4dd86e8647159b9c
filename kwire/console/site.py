"""What a page is, and what a view gets: a `Visit`.

A module in `kwire/console/views/` declares its pages:

    PAGES = (SitePage("/topics", topics, label="Topics", position=10),)

    async def topics(visit: Visit) -> Response:
        found = await visit.cached(topics_of)          # a function of a Cluster, run in a thread
        return visit.page("topics.html", topics=found)

A name in a path has no slash.  Names that may have any character go into the query.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from kwire.client.ranges import ranges
from kwire.console import text
from kwire.console.listing import ROWS_CHOICES, TableState, table_state

if TYPE_CHECKING:
    from kwire.console.pool import ClusterPool

T = TypeVar("T")

FOLDER: Final = Path(__file__).resolve().parent
NOTICES_MAX: Final = 100
NOTICE_S: Final = 60.0
"""How long a notice waits for the page that shows it."""
FORM_FIELDS_MAX: Final = 1000
THEMES: Final = ("auto", "light", "dark")
THEME_COOKIE: Final = "kwire-theme"


class SitePage(NamedTuple):
    """A page: its path, the function that answers, and its place in the menu."""

    path: str
    """With parameters in braces, as in `/topics/{topic}`."""
    view: Callable[[Visit], Awaitable[Response]]
    label: str = ""
    """The name in the menu; empty if the menu does not have the page."""
    position: int = 0
    """The order in the menu.  Existing ones are multiples of 10."""
    methods: tuple[str, ...] = ("GET",)
    is_shown: Callable[[Site], bool] = lambda _: True
    """Whether the menu has it on this site."""


class Notice(NamedTuple):
    """What a change has done, or why it failed, for the next page."""

    text: str
    is_error: bool
    until: float


@dataclass
class Site:
    """What all pages of one console share."""

    pool: ClusterPool
    bootstrap: str
    """The addresses of the cluster, as they were given."""
    menu: tuple[SitePage, ...] = ()
    metrics: tuple[str, ...] = ()
    """The URLs of metrics endpoints."""
    controls: tuple[str, ...] = ()
    """The URLs of HTTP controls."""
    command_options: str = ""
    """What a `kwire` command needs to reach the same cluster, such as ` -b host:9092`."""
    background: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """What runs as long as the console does."""
    parts: dict[str, Any] = field(default_factory=dict)
    """What views share, such as the history, by name."""
    notices: OrderedDict[str, Notice] = field(default_factory=OrderedDict)
    templates: jinja2.Environment = field(default_factory=lambda: environment())


def environment() -> jinja2.Environment:
    """The templates, with the filters that all values of the cluster pass."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "visible": text.visible,
        "visible_lines": text.visible_lines,
        "size": text.size,
        "count": text.count,
        "ranges": ranges,
        "rate": text.rate,
        "offset": text.offset,
        "when": text.when,
        "duration": text.duration_text,
        "marked": text.marked,
    }
    made.globals |= {"unknown": text.unknown(), "rows_choices": ROWS_CHOICES}
    return made


class Visit:
    """One request, and what a view needs to answer it."""

    def __init__(self, site: Site, request: Request) -> None:
        """`request` is Starlette's."""
        self.site = site
        self.request = request
        self.path: Mapping[str, str] = request.path_params
        """The parameters of the path."""
        self.query: Mapping[str, str] = request.query_params
        """The parameters of the URL, the last value of each."""

    async def ask(self, call: Callable[..., T], *arguments: object) -> T:
        """The result of `call(cluster, *arguments)`, run in a thread."""
        return await self.site.pool.ask(call, *arguments)

    async def cached(self, call: Callable[..., T], *arguments: Hashable) -> T:
        """As `ask`, but a result of the last second or two is given again."""
        return await self.site.pool.cached(call, *arguments)

    async def form(self) -> dict[str, str]:
        """The text fields of the form that was sent, the last value of each."""
        async with self.request.form(max_files=0, max_fields=FORM_FIELDS_MAX) as sent:
            return {name: value for name, value in sent.multi_items() if isinstance(value, str)}

    def table(self, *keep: str) -> TableState:
        """The state of the page's table in the URL; `keep` names further parameters."""
        return table_state(self.query, keep)

    @property
    def theme(self) -> str:
        """The theme that the visitor has chosen, `auto` by default."""
        chosen = self.request.cookies.get(THEME_COOKIE, "")
        return chosen if chosen in THEMES else THEMES[0]

    @property
    def here(self) -> str:
        """The path and query of this page."""
        url = self.request.url
        return f"{url.path}?{url.query}" if url.query else url.path

    def page(self, template: str, *, status: int = 200, **values: object) -> Response:
        """A page made of a template."""
        path = self.request.url.path
        content = self.site.templates.get_template(template).render(
            site=self.site,
            visit=self,
            notice=self._notice(),
            menu=[
                (page, path == page.path or path.startswith(page.path.rstrip("/") + "/"))
                for page in self.site.menu
                if page.is_shown(self.site)
            ],
            **values,
        )
        return HTMLResponse(content, status)

    def json(self, value: object, status: int = 200) -> Response:
        """A JSON document."""
        return JSONResponse(value, status)

    def done(self, to: str, notice: str, *, is_error: bool = False) -> Response:
        """A redirect after a change; the next page shows the notice.

        `to` is a path of the console.
        """
        key = token_urlsafe(9)
        self.site.notices[key] = Notice(notice, is_error, time.monotonic() + NOTICE_S)
        while len(self.site.notices) > NOTICES_MAX:
            self.site.notices.popitem(last=False)
        joint = "&" if "?" in to else "?"
        return RedirectResponse(f"{to}{joint}notice={key}", 303)

    def _notice(self) -> Notice | None:
        """The notice that the URL names, once."""
        notice = self.site.notices.pop(self.query.get("notice", ""), None)
        return notice if notice is not None and notice.until > time.monotonic() else None
