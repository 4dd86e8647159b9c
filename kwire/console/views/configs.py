"""Configs of topics, brokers, groups and client metrics: view and change them."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from kwire.client.cluster import Cluster
from kwire.client.errors import ClientError
from kwire.console.cluster.commands import command_line
from kwire.console.cluster.configs import (
    KINDS,
    ConfigRow,
    change,
    change_words,
    configs,
    resource_names,
)
from kwire.console.listing import TableColumn, shown_table
from kwire.console.site import SitePage, Visit

CONFIG_COLUMNS: Final[tuple[TableColumn[ConfigRow], ...]] = (
    TableColumn("name", "Config", lambda row: row.name),
    TableColumn("value", "Value", lambda row: row.value),
    TableColumn("source", "From", lambda row: row.source),
    TableColumn("meaning", "What it means"),
)

SOURCES: Final = {
    "DEFAULT_CONFIG": "default",
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "DYNAMIC_BROKER_CONFIG": "this broker, changed while it runs",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "all brokers, changed while they run",
    "STATIC_BROKER_CONFIG": "settings file of the broker",
    "GROUP_CONFIG": "group",
    "CLIENT_METRICS_CONFIG": "client metrics",
}
"""The sources of values in words."""


async def choose(visit: Visit) -> Response:
    """The configs of one resource, or the choice of a resource if the URL names none."""
    kind, name = visit.query.get("kind", ""), visit.query.get("name", "")
    if kind not in KINDS or (not name and kind != "broker"):
        return await resources(visit, kind)
    page = await visit.ask(configs, kind, name)
    shows_all = bool(visit.query.get("all")) or bool(visit.query.get("q"))
    rows = [row for row in page.rows if shows_all or row.differs]
    table = shown_table(
        rows,
        CONFIG_COLUMNS,
        visit.table("kind", "name", "all"),
        lambda row: f"{row.name} {row.value or ''} {row.documentation}",
    )
    words = ["configs", "describe", kind, name, *(["--all"] if shows_all else [])]
    return visit.page(
        "configs.html",
        config_page=page,
        table=table,
        shows_all=shows_all,
        differing=sum(row.differs for row in page.rows),
        sources=SOURCES,
        command=command_line(words, visit.site.command_options),
    )


async def resources(visit: Visit, kind: str) -> Response:
    """The resources that have configs, to choose one."""
    kind = kind if kind in KINDS else "broker"
    names = await visit.cached(resource_names, kind)
    table = shown_table(
        names,
        (TableColumn("name", kind.capitalize(), lambda name: name),),
        visit.table("kind"),
        lambda name: name,
    )
    return visit.page("config_resources.html", kind=kind, kinds=tuple(KINDS), table=table)


async def edit(visit: Visit) -> Response:
    """The form that changes one config."""
    kind, name = visit.query.get("kind", ""), visit.query.get("name", "")
    config = visit.query.get("config", "")
    page = await visit.ask(configs, kind, name)
    row = next((row for row in page.rows if row.name == config), None)
    return visit.page(
        "config_edit.html",
        config_page=page,
        row=row,
        config=config,
        sources=SOURCES,
        known=[row.name for row in page.rows if not row.is_read_only],
        set_command=command_line(
            change_words(kind, name, config, (row.value if row else None) or "VALUE"),
            visit.site.command_options,
        ),
        delete_command=command_line(
            change_words(kind, name, config, None), visit.site.command_options
        ),
    )


async def do_change(visit: Visit) -> Response:
    """Set, remove or check a config."""
    form = await visit.form()
    kind, name = form.get("kind", ""), form.get("name", "")
    config, action = form.get("config", "").strip(), form.get("action", "")
    value = None if action == "delete" else form.get("value", "")
    is_check = action == "check"
    try:
        await visit.ask(_change, kind, name, config, value, is_check)
    except ClientError as error:
        return visit.done(edit_path(kind, name, config), str(error), is_error=True)
    if is_check:
        return visit.done(edit_path(kind, name, config), f"The broker accepts {config}={value}.")
    visit.site.pool.forget_results()
    done = f"{config} is removed." if value is None else f"{config} is set to {value}."
    return visit.done("/configs?" + urlencode({"kind": kind, "name": name}), done)


def _change(
    cluster: Cluster, kind: str, name: str, config: str, value: str | None, is_check: bool
) -> None:
    change(cluster, kind, name, config, value, check_only=is_check)


def edit_path(kind: str, name: str, config: str) -> str:
    """The path of the form that changes a config."""
    return "/configs/edit?" + urlencode(
        {"kind": kind, "name": name, "config": config}, errors="replace"
    )


PAGES = (
    SitePage("/configs", choose, label="Configs", position=50),
    SitePage("/configs/edit", edit),
    SitePage("/configs/change", do_change, methods=("POST",)),
)
