"""Carries out a plan, change by change.

Before the first change, the brokers validate new topics and configs.  Then the changes are made in
the order of the plan.  If one fails, the others are still made, except records of a topic that
could not be created.  If the cluster cannot be reached any more, the rest is not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kwire.cli.declared_state.document import DeclarationError
from kwire.cli.declared_state.files import Declaration, password_of, records_of
from kwire.cli.declared_state.found import look, sections_of
from kwire.cli.declared_state.plan import (
    AddAcl,
    AlterConfigs,
    AlterQuotas,
    ApplyPlan,
    Change,
    PartitionIncrease,
    RemoveAcl,
    RemovePassword,
    SeedTopic,
    SetPassword,
    TopicCreation,
    TopicRemoval,
    plan,
)
from kwire.cli.declared_state.state import DeclaredAcl, Seed
from kwire.cli.declared_state.words import title
from kwire.cli.text.suggestions import suggesting_settings
from kwire.client.access import acls as client_acls
from kwire.client.access.users import remove_passwords, set_passwords
from kwire.client.cluster import Cluster
from kwire.client.configs import ConfigAlteration, ConfigResource, ConfigResourceKind, alter_configs
from kwire.client.errors import BrokerUnreachable, ClientError, RequestTimedOut
from kwire.client.producer import Producer
from kwire.client.quotas import alter_quotas
from kwire.client.topics import BROKER_DEFAULT, add_partitions, create_topic, delete_topic


@dataclass(slots=True)
class ApplyOutcome:
    """The changes that were made, and a message for each that failed."""

    done: list[Change] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def planned(
    cluster: Cluster, declaration: Declaration, *, prune: bool = False, passwords: bool = False
) -> ApplyPlan:
    """The plan for a declaration, with conflicts if the brokers refuse a change.

    Raises ClientError.
    """
    declared = declaration.declared
    found = look(cluster, sections_of(declared), declared)
    changes = plan(declared, found, prune=prune, passwords=passwords)
    if not changes.conflicts:
        changes.conflicts += _objections(cluster, changes.changes, declaration.folder)
    return changes


def _objections(cluster: Cluster, changes: Iterable[Change], folder: Path) -> list[str]:
    """A message for each change that the brokers would refuse, or whose password is missing."""
    problems = []
    for change in changes:
        try:
            if isinstance(change, TopicCreation):
                _create(cluster, change, validate_only=True)
            elif isinstance(change, AlterConfigs):
                _alter(cluster, change, validate_only=True)
            elif isinstance(change, SetPassword):
                password_of(change.password, folder)
        except (BrokerUnreachable, RequestTimedOut):
            raise
        except (ClientError, DeclarationError) as problem:
            problems.append(f"{title(change)}: {problem}")
    return problems


def carry_out(
    cluster: Cluster,
    changes: Iterable[Change],
    folder: Path,
    tell: Callable[[Change], None] = lambda change: None,
) -> ApplyOutcome:
    """Make the changes in their order, and call `tell` with each change made; see the module."""
    outcome = ApplyOutcome()
    missing: set[str] = set()
    """The topics that could not be created."""
    for change in changes:
        if isinstance(change, SeedTopic) and change.name in missing:
            continue
        try:
            _make(cluster, change, folder)
        except (ClientError, DeclarationError, OSError) as problem:
            outcome.failures.append(f"{title(change)}: {problem}")
            if isinstance(change, TopicCreation):
                missing.add(change.name)
            if isinstance(problem, BrokerUnreachable | RequestTimedOut):
                return outcome
        else:
            outcome.done.append(change)
            tell(change)
    return outcome


def _make(cluster: Cluster, change: Change, folder: Path) -> None:
    """Makes one change in the cluster.  `folder` is the folder of the declaration, from which files
    with records and passwords are read."""
    match change:
        case TopicCreation():
            _create(cluster, change)
        case PartitionIncrease(name, _, after):
            add_partitions(cluster, name, after)
        case TopicRemoval(name):
            delete_topic(cluster, name)
        case AlterConfigs():
            _alter(cluster, change)
        case SeedTopic(name, seeds):
            _seed(cluster, name, seeds, folder)
        case _:
            _grant(cluster, change, folder)


def _grant(cluster: Cluster, change: Change, folder: Path) -> None:
    """Make a change of users, ACLs or quotas."""
    match change:
        case SetPassword(name, mechanism, iterations, secret):
            password = password_of(secret, folder)
            set_passwords(cluster, {name: password}, mechanism, iterations)
        case RemovePassword(name, mechanism):
            remove_passwords(cluster, [name], mechanism)
        case AddAcl(acl):
            client_acls.create_acls(cluster, [_rule(acl)])
        case RemoveAcl(acl):
            client_acls.delete_acls(cluster, [client_acls.only(_rule(acl))])
        case AlterQuotas(entity, rates):
            alter_quotas(cluster, dict(entity), {name: rate for name, (_, rate) in rates.items()})


def _create(cluster: Cluster, change: TopicCreation, *, validate_only: bool = False) -> None:
    """Creates a topic; with `validate_only`, the broker only checks whether it could."""
    with suggesting_settings("topic", change.configs):
        create_topic(
            cluster,
            change.name,
            partitions=change.partitions or BROKER_DEFAULT,
            replication_factor=change.replication or BROKER_DEFAULT,
            configs=change.configs,
            validate_only=validate_only,
        )


def _alter(cluster: Cluster, change: AlterConfigs, *, validate_only: bool = False) -> None:
    """Alters configs; a value of None removes the config.  With `validate_only`, the broker only
    checks."""
    resource = ConfigResource(
        ConfigResourceKind[change.kind.upper().replace("-", "_")], change.name
    )
    operations = {
        name: (ConfigAlteration.DELETE, None) if value is None else (ConfigAlteration.SET, value)
        for name, (_, value) in change.edits.items()
    }
    with suggesting_settings(change.kind, change.edits):
        alter_configs(cluster, resource, operations, validate_only=validate_only)


def _seed(cluster: Cluster, name: str, seeds: Iterable[Seed], folder: Path) -> None:
    """Write the records with acks=all."""
    producer = Producer(cluster)
    for seed in seeds:
        for record in records_of(seed, folder):
            producer.send(
                name,
                record.value,
                record.key,
                headers=record.headers,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
    producer.flush()


def _rule(acl: DeclaredAcl) -> client_acls.Acl:
    """Converts a declared ACL to one of the client, whose constants have upper-case names."""

    def constant(word: str) -> str:
        return word.upper().replace("-", "_")

    return client_acls.Acl(
        client_acls.Resource[constant(acl.resource)],
        client_acls.Pattern[constant(acl.pattern)],
        acl.name,
        acl.principal,
        acl.host,
        client_acls.Operation[constant(acl.operation)],
        client_acls.Permission[constant(acl.permission)],
    )
