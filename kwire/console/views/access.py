"""Access control lists, users and quotas: view, add and remove."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from starlette.responses import Response

from kwire.client.access.acls import Acl
from kwire.client.access.users import MECHANISMS
from kwire.client.cluster import Cluster
from kwire.client.errors import ClientError, UnsupportedRequest
from kwire.console.cluster import access
from kwire.console.cluster.access import QuotaRow, UserRow
from kwire.console.cluster.commands import command_line
from kwire.console.listing import TableColumn, shown_table
from kwire.console.site import SitePage, Visit
from kwire.console.views.plots import observed_on

ACL_COLUMNS: Final[tuple[TableColumn[Acl], ...]] = (
    TableColumn("principal", "Principal", lambda rule: rule.principal),
    TableColumn("permission", "Permission", lambda rule: access.word(rule.permission)),
    TableColumn("operation", "Operation", lambda rule: access.word(rule.operation)),
    TableColumn("resource", "Resource", lambda rule: (access.word(rule.resource), rule.name)),
    TableColumn("host", "Host", lambda rule: rule.host),
    TableColumn("remove", "Remove"),
)
USER_COLUMNS: Final[tuple[TableColumn[UserRow], ...]] = (
    TableColumn("name", "User", lambda user: user.name),
    TableColumn("mechanisms", "Passwords"),
    TableColumn("rules", "Rules", lambda user: user.rules, is_number=True),
)
QUOTA_COLUMNS: Final[tuple[TableColumn[QuotaRow], ...]] = (
    TableColumn("whom", "Of", lambda row: row.whom),
    TableColumn("quota", "Quota", lambda row: row.quota),
    TableColumn("value", "Value", lambda row: row.value, is_number=True),
    TableColumn("meaning", "What it limits"),
    TableColumn("remove", "Remove"),
)


async def acls(visit: Visit) -> Response:
    """The rules of the cluster."""
    page = await visit.ask(access.acls)
    table = shown_table(
        page.rules,
        ACL_COLUMNS,
        visit.table(),
        lambda rule: " ".join(
            (rule.principal, rule.name, rule.host, access.word(rule.resource),
             access.word(rule.operation), access.word(rule.permission))
        ),
    )  # fmt: skip
    return visit.page(
        "acls.html",
        acls_page=page,
        table=table,
        word=access.word,
        fields=acl_fields,
        resources=access.RESOURCES,
        operations=access.OPERATIONS,
        commands={
            rule: command_line(access.remove_words(rule), visit.site.command_options)
            for rule in table.rows
        },
        command=command_line(["acls", "list"], visit.site.command_options),
    )


def acl_fields(rule: Acl) -> dict[str, str]:
    """A rule as the fields of a form."""
    return {
        "resource": access.word(rule.resource),
        "pattern": access.word(rule.pattern),
        "name": rule.name,
        "principal": rule.principal,
        "host": rule.host,
        "operation": access.word(rule.operation),
        "permission": access.word(rule.permission),
    }


async def _changed(
    visit: Visit, back: str, change: Callable[[Cluster], str], words: list[str]
) -> Response:
    """Make a change, and go back to a page with what was done, and the command that does it."""
    try:
        done = await visit.ask(change)
    except ClientError as error:
        return visit.done(back, str(error), is_error=True)
    visit.site.pool.forget_results()
    command = f" The same: {command_line(words, visit.site.command_options)}" if words else ""
    return visit.done(back, done + command)


async def add_acl(visit: Visit) -> Response:
    """Add a rule."""
    form = await visit.form()
    try:
        rule = access.acl_of(form)
    except ClientError as error:
        return visit.done("/acls", str(error), is_error=True)

    def change(cluster: Cluster) -> str:
        access.add_acl(cluster, rule)
        return "The rule is added."

    return await _changed(visit, "/acls", change, access.add_words(rule))


async def remove_acl(visit: Visit) -> Response:
    """Remove a rule."""
    form = await visit.form()
    try:
        rule = access.acl_of(form)
    except ClientError as error:
        return visit.done("/acls", str(error), is_error=True)

    def change(cluster: Cluster) -> str:
        count = access.remove_acl(cluster, rule)
        return "The rule is removed." if count else "There was no such rule."

    return await _changed(visit, "/acls", change, access.remove_words(rule))


# -- users


async def users(visit: Visit) -> Response:
    """The users that log in by SCRAM."""
    found: list[UserRow] = []
    trouble = None
    try:
        found = await visit.ask(access.users)
    except UnsupportedRequest as error:
        trouble = str(error)
    table = shown_table(found, USER_COLUMNS, visit.table(), lambda user: user.name)
    return visit.page(
        "users.html",
        table=table,
        trouble=trouble,
        mechanisms=tuple(MECHANISMS),
        command=command_line(["users", "list"], visit.site.command_options),
    )


async def set_password(visit: Visit) -> Response:
    """Set the password of a user, who is created if need be."""
    form = await visit.form()
    name, mechanism = form.get("name", ""), form.get("mechanism", "")

    def change(cluster: Cluster) -> str:
        access.set_password(cluster, name, form.get("password", ""), mechanism)
        return f"The password of {name} for {mechanism} is set."

    return await _changed(visit, "/users", change, [])


async def remove_password(visit: Visit) -> Response:
    """Remove a password of a user."""
    form = await visit.form()
    name, mechanism = form.get("name", ""), form.get("mechanism", "")

    def change(cluster: Cluster) -> str:
        access.remove_password(cluster, name, mechanism)
        return f"The password of {name} for {mechanism} is removed."

    words = ["users", "remove", name, "--mechanism", mechanism]
    return await _changed(visit, "/users", change, words)


# -- quotas


async def quotas(visit: Visit) -> Response:
    """All quotas, and the clients that they throttle now."""
    found = await visit.ask(access.quotas)
    table = shown_table(
        found, QUOTA_COLUMNS, visit.table(), lambda row: f"{row.whom} {row.quota} {row.meaning}"
    )
    return visit.page(
        "quotas.html",
        table=table,
        quotas=access.QUOTAS,
        observed=await observed_on(visit.site),
        fields=entity_fields,
        command=command_line(["quotas", "list"], visit.site.command_options),
    )


def entity_fields(entity: Mapping[str, str | None]) -> dict[str, str]:
    """An entity as the fields of a form."""
    return {
        (f"{kind}-default" if name is None else kind): "yes" if name is None else name
        for kind, name in entity.items()
    }


async def set_quota(visit: Visit) -> Response:
    """Set a quota."""
    form = await visit.form()
    try:
        entity, value = access.entity_of(form), access.quota_number(form.get("value", ""))
    except ClientError as error:
        return visit.done("/quotas", str(error), is_error=True)
    quota = form.get("quota", "")

    def change(cluster: Cluster) -> str:
        access.change_quota(cluster, entity, quota, value)
        return "The quota is set."

    return await _changed(visit, "/quotas", change, access.quota_words(entity, quota, value))


async def remove_quota(visit: Visit) -> Response:
    """Remove a quota."""
    form = await visit.form()
    try:
        entity = access.entity_of(form)
    except ClientError as error:
        return visit.done("/quotas", str(error), is_error=True)
    quota = form.get("quota", "")

    def change(cluster: Cluster) -> str:
        access.change_quota(cluster, entity, quota, None)
        return "The quota is removed."

    return await _changed(visit, "/quotas", change, access.quota_words(entity, quota, None))


PAGES = (
    SitePage("/acls", acls, label="ACLs", position=60),
    SitePage("/acls/add", add_acl, methods=("POST",)),
    SitePage("/acls/remove", remove_acl, methods=("POST",)),
    SitePage("/users", users, label="Users", position=70),
    SitePage("/users/password", set_password, methods=("POST",)),
    SitePage("/users/remove", remove_password, methods=("POST",)),
    SitePage("/quotas", quotas, label="Quotas", position=80),
    SitePage("/quotas/set", set_quota, methods=("POST",)),
    SitePage("/quotas/remove", remove_quota, methods=("POST",)),
)
