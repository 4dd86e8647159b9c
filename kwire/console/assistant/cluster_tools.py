"""Tools for the cluster as a whole: health, checks, configs and access control lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from kwire.client.access.acls import Acl
from kwire.client.checkup.examine import examine
from kwire.client.checkup.finding import ClusterFinding
from kwire.client.inspection.health import BrokerHealth
from kwire.console.assistant.answers import (
    ROWS_MAX,
    Row,
    answer,
    first_names,
    fitted,
    present,
    shortened,
)
from kwire.console.assistant.tools import ClusterTools, destroys, reads
from kwire.console.cluster.access import acls, word
from kwire.console.cluster.configs import ConfigRow, change, configs
from kwire.console.cluster.health import HealthFinding, ReplicaRow, cluster_health

CHECK_PATIENCE_S: Final = 5.0
"""How long each broker has in a check, as in `kwire doctor`: a broker that hangs is found soon."""
CHECK_TIMEOUT_S: Final = 60.0
"""How long a whole check may take; it asks all brokers, several times."""
VALUE_LENGTH_MAX: Final = 1_000
DOCUMENTED_MAX: Final = 5
"""Up to so many configs come with their documentation."""

ResourceKind = Literal["topic", "broker", "group", "client-metrics"]
KindArgument = Annotated[ResourceKind, Field(description="What the configs belong to.")]
NameArgument = Annotated[
    str,
    Field(
        description="The name of the topic or group, or the id of the broker.", max_length=32_767
    ),
]


class WholeClusterTools(ClusterTools):
    """Health, checks, configs and access control lists."""

    def tools(self) -> Iterator[Tool]:
        """See ClusterTools."""
        yield reads(self.cluster_health)
        yield reads(self.check_cluster)
        yield reads(self.describe_configs)
        yield reads(self.list_acls)
        yield reads(self.check_config)
        if self._desk.allows_writes:
            yield destroys(self.set_config, is_idempotent=True)

    async def cluster_health(self) -> CallToolResult:
        """Brokers with what they lead and store, what is not well, and partitions with problems.

        A finding has a remedy, and a `kwire` command that mends it or shows more.
        """
        page = await self._desk.ask(cluster_health)
        health = page.health
        brokers, brokers_left_out = fitted(health.brokers, _broker)
        replicas, left_out = fitted(page.replicas, _replica, limit=50)
        return answer(
            {
                "is_well": page.is_well,
                "cluster_id": health.cluster_id,
                "controller_id": health.controller_id,
                "topics": health.topics,
                "partitions": health.partitions,
                "brokers": brokers,
                "brokers_left_out": brokers_left_out,
                "findings": [_finding(each) for each in page.findings],
                "partitions_with_problems": replicas,
                "partitions_with_problems_left_out": left_out,
                "features": health.features,
            }
        )

    async def check_cluster(self) -> CallToolResult:
        """Run the checks of `kwire doctor` as clients see the cluster from this machine.

        They are about advertised addresses, name resolution, clocks, disks, limits of open files,
        settings that bite, and the state of brokers and partitions. Takes seconds. Each finding has
        a grade (broken, risk, note, unchecked) and a remedy.
        """
        examined = await self._desk.ask_alone(
            examine, patience_s=CHECK_PATIENCE_S, timeout_s=CHECK_TIMEOUT_S
        )
        findings, left_out = fitted(examined.findings, _checked)
        return answer(
            {
                "any_broker_answered": examined.is_complete,
                "cluster_id": examined.cluster_id,
                "brokers": examined.brokers,
                "topics": examined.topics,
                "findings": findings,
                "left_out": left_out,
            }
        )

    async def describe_configs(
        self,
        kind: KindArgument,
        name: NameArgument,
        contains: Annotated[
            str, Field(description="Only configs whose name has this text.", max_length=200)
        ] = "",
        with_defaults: Annotated[
            bool, Field(description="Also configs that have the default of Kafka.")
        ] = False,
    ) -> CallToolResult:
        """The configs of a topic, broker, group or subscription to client metrics.

        Without `with_defaults` only those that somebody chose. `source` says where a value comes
        from, `inherited` what would apply without it. Sensitive values are never shown.
        """
        page = await self._desk.ask(configs, kind, name)
        found = [
            row for row in page.rows if contains in row.name and (with_defaults or row.differs)
        ]
        is_documented = len(found) <= DOCUMENTED_MAX
        rows, left_out = fitted(found, lambda row: _config(row, is_documented=is_documented))
        differing = sum(row.differs for row in page.rows)
        return answer(
            {"configs": rows, "left_out": left_out, "differ": differing, "all": len(page.rows)}
        )

    async def list_acls(
        self,
        principal: Annotated[
            str, Field(description="Only rules for this principal, such as User:alice.")
        ] = "",
        resource: Annotated[
            str, Field(description="Only rules whose resource's name has this text.")
        ] = "",
        limit: Annotated[int, Field(ge=1, le=ROWS_MAX)] = 100,
    ) -> CallToolResult:
        """The rules of the cluster that say who may do what."""
        page = await self._desk.ask(acls)
        if not page.has_authorizer:
            return answer(
                {"rules": [], "note": "the brokers have no authorizer: everybody may do everything"}
            )
        found = [
            rule
            for rule in page.rules
            if resource in rule.name and principal in ("", rule.principal)
        ]
        rows, left_out = fitted(found, _acl, limit=limit)
        return answer({"rules": rows, "left_out": left_out})

    async def check_config(
        self,
        kind: KindArgument,
        name: NameArgument,
        config: Annotated[str, Field(description="Such as retention.ms.", max_length=200)],
        value: Annotated[str, Field(max_length=100_000)],
    ) -> CallToolResult:
        """Let the broker check a value of a config. It is not set."""
        await self._desk.ask(change, kind, name, config, value, check_only=True)
        return answer({"valid": True})

    async def set_config(
        self,
        kind: KindArgument,
        name: NameArgument,
        config: Annotated[str, Field(description="Such as retention.ms.", max_length=200)],
        value: Annotated[
            str | None,
            Field(description="The new value; null removes the own one.", max_length=100_000),
        ],
    ) -> CallToolResult:
        """Set a config, or remove it with null. A shorter retention deletes records."""
        await self._desk.ask(change, kind, name, config, value, check_only=False)
        return answer({"set" if value is not None else "removed": config})


def _broker(broker: BrokerHealth) -> Row:
    return {
        "broker": broker.broker,
        "address": broker.address,
        "leads": broker.leaders,
        "replicas": broker.replicas,
        "size_bytes": broker.size_bytes,
    } | present(
        {
            "rack": broker.rack,
            "behind_by_records": broker.lag_records,
            "failed_dirs": broker.failed_dirs,
            "full_dirs": broker.full_dirs,
            "nearly_full_dirs": broker.nearly_full_dirs,
            "trouble": broker.trouble,
        }
    )


def _finding(finding: HealthFinding) -> Row:
    return present(
        {
            "severity": finding.severity,
            "what": finding.what,
            "why": finding.why,
            "remedy": finding.remedy,
            "command": " ".join(("kwire", *finding.words)) if finding.words else None,
            "partitions": first_names(finding.partitions, 20),
        }
    )


def _checked(finding: ClusterFinding) -> Row:
    return present(
        {
            "grade": finding.grade.value,
            "check": finding.check,
            "about": finding.about,
            "says": finding.says,
            "remedy": finding.remedy,
        }
    )


def _replica(row: ReplicaRow) -> Row:
    return {
        "partition": str(row.partition),
        "problems": list(row.problems),
        "leader": row.leader_id if row.leader_id >= 0 else None,
        "replicas": list(row.replicas),
        "in_sync": list(row.in_sync),
    } | present({"reasons": list(row.reasons)})


def _config(row: ConfigRow, *, is_documented: bool) -> Row:
    value = None if row.value is None else shortened(row.value, VALUE_LENGTH_MAX)
    return {"name": row.name, "value": value, "source": row.source} | present(
        {
            "is_default": row.is_default,
            "inherited": row.inherited,
            "is_sensitive": row.is_sensitive,
            "is_read_only": row.is_read_only,
            "documentation": row.documentation if is_documented else None,
        }
    )


def _acl(rule: Acl) -> Row:
    return {
        "permission": word(rule.permission),
        "principal": shortened(rule.principal),
        "host": rule.host,
        "operation": word(rule.operation),
        "resource": word(rule.resource),
        "name": shortened(rule.name),
        "pattern": word(rule.pattern),
    }
