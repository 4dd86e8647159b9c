"""Configs, access control lists, users and quotas as the pages show and change them."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from kwire.client.access.acls import Acl, Operation, Pattern, Permission, Resource
from kwire.client.cluster import Cluster
from kwire.client.errors import BrokerRefused, Misuse
from kwire.client.topics import create_topic
from kwire.console.cluster import access
from kwire.console.cluster.commands import command_line, quoted
from kwire.console.cluster.configs import ConfigRow, change, change_words, configs, plain
from tests.conftest import BrokerFactory
from tests.console.cluster.conftest import awaited


def test_configs_tell_what_differs_and_what_it_means(cluster: Cluster, unique: str) -> None:
    create_topic(cluster, unique, configs={"retention.ms": "1000", "cleanup.policy": "compact"})
    rows = awaited(
        lambda: {row.name: row for row in configs(cluster, "topic", unique).rows},
        lambda rows: rows["retention.ms"].value == "1000",
    )
    own = rows["retention.ms"]
    assert (own.value, own.differs, own.is_own) == ("1000", True, True)
    assert own.documentation
    assert rows["cleanup.policy"].inherited == "delete"
    assert not rows["max.message.bytes"].is_own
    with pytest.raises(BrokerRefused, match="INVALID_CONFIG"):
        change(cluster, "topic", unique, "retention.ms", "soon", check_only=True)
    change(cluster, "topic", unique, "retention.ms", "2000", check_only=True)
    change(cluster, "topic", unique, "cleanup.policy", "delete,compact", check_only=False)
    change(cluster, "topic", unique, "retention.ms", None, check_only=False)
    awaited(
        lambda: {row.name: row for row in configs(cluster, "topic", unique).rows},
        lambda rows: (
            not rows["retention.ms"].is_own and rows["cleanup.policy"].value == "delete,compact"
        ),
    )
    with pytest.raises(Misuse, match="configs are of topic, broker"):
        configs(cluster, "planet", "mars")


def config(cluster: Cluster, kind: str, resource: str, name: str) -> ConfigRow:
    return next(row for row in configs(cluster, kind, resource).rows if row.name == name)


def test_config_that_all_brokers_set_is_not_the_topics_own(cluster: Cluster, unique: str) -> None:
    create_topic(cluster, unique)
    change(cluster, "broker", "", "message.max.bytes", "1048580", check_only=False)
    try:
        row = awaited(
            lambda: config(cluster, "topic", unique, "max.message.bytes"),
            lambda row: row.value == "1048580",
        )
        assert (row.differs, row.is_own) == (True, False)
        assert config(cluster, "broker", "", "message.max.bytes").is_own
    finally:
        change(cluster, "broker", "", "message.max.bytes", None, check_only=False)


def test_commands_of_config_changes_are_those_of_kwire() -> None:
    assert change_words("topic", "a", "retention.ms", "5") == [
        "configs", "alter", "topic", "a", "--set", "retention.ms=5",
    ]  # fmt: skip
    assert change_words("topic", "a", "retention.ms", None)[-2:] == ["--delete", "retention.ms"]


def test_documentation_loses_its_html() -> None:
    assert plain("The <code>max</code>\n<ul><li>a &lt; b</li></ul> x") == "The max a < b x"


@pytest.mark.parametrize("word", ["a", "a b", "it's", "", "\x07\u202e'\\", "$(x)`y`", "é\u200bz"])
def test_quoted_words_reach_a_command_as_they_are(word: str) -> None:
    shown = quoted(word)
    assert all(character.isprintable() for character in shown)
    printed = subprocess.run(
        ["bash", "-c", f"printf %s {shown}"],
        capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    assert printed.stdout.decode() == word


def test_command_line_ends_with_the_options_of_the_cluster() -> None:
    line = command_line(["groups", "describe", "a b"], " -b localhost:9092")
    assert shlex.split(line) == ["kwire", "groups", "describe", "a b", "-b", "localhost:9092"]


def test_rules_of_a_cluster_without_authorizer_are_none(cluster: Cluster) -> None:
    page = access.acls(cluster)
    assert (page.rules, page.has_authorizer) == ((), False)


def test_acls_are_added_listed_and_removed(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(
        {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
    )
    rule = access.acl_of(
        {
            "resource": "topic", "name": "orders", "pattern": "prefixed", "principal": "User:eve",
            "operation": "read", "permission": "deny",
        }
    )  # fmt: skip
    with Cluster(broker.bootstrap, timeout_s=60) as cluster:
        access.add_acl(cluster, rule)
        page = access.acls(cluster)
        assert (page.rules, page.has_authorizer) == ([rule], True)
        assert access.remove_acl(cluster, rule) == 1
        assert access.acls(cluster).rules == []


def test_commands_of_rules_are_those_of_kwire_acls() -> None:
    rule = Acl(
        Resource.TRANSACTIONAL_ID, Pattern.PREFIXED, "t-", "User:a", "10.0.0.1",
        Operation.DESCRIBE, Permission.ALLOW,
    )  # fmt: skip
    assert access.add_words(rule) == [
        "acls", "add", "--allow-principal", "User:a", "--allow-host", "10.0.0.1",
        "--transactional-id", "t-", "--resource-pattern-type", "prefixed",
        "--operation", "describe",
    ]  # fmt: skip
    assert access.remove_words(rule)[:6] == [
        "acls", "remove", "--principal", "User:a", "--host", "10.0.0.1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"resource": "any", "name": "a", "principal": "User:a"}, "'any' is none of topic"),
        ({"resource": "topic", "name": "", "principal": "User:a"}, "the name of a resource"),
        ({"resource": "topic", "name": "a", "principal": "a"}, "a principal is like"),
        ({"resource": "topic", "name": "a", "principal": "User:a", "operation": "fly"}, "'fly' is"),
    ],
)
def test_rule_of_an_incomplete_form_is_refused(fields: dict[str, str], reason: str) -> None:
    with pytest.raises(Misuse, match=reason):
        access.acl_of(fields)


def test_users_and_their_passwords_are_set_and_removed(cluster: Cluster, unique: str) -> None:
    access.set_password(cluster, unique, "secret", "SCRAM-SHA-256")

    def own() -> list[access.UserRow]:
        return [each for each in access.users(cluster) if each.name == unique]

    [user] = awaited(own, lambda users: len(users) == 1)
    assert set(user.mechanisms) == {"SCRAM-SHA-256"}
    access.remove_password(cluster, unique, "SCRAM-SHA-256")
    awaited(own, lambda users: not users)
    with pytest.raises(Misuse, match="a name and a password"):
        access.set_password(cluster, unique, "", "SCRAM-SHA-256")
    with pytest.raises(Misuse, match="the mechanism is one of"):
        access.set_password(cluster, unique, "secret", "PLAIN")


def test_quotas_are_set_listed_and_removed(cluster: Cluster, unique: str) -> None:
    entity = access.entity_of({"user": unique, "client-id-default": "yes"})
    assert entity == {"user": unique, "client-id": None}

    def own() -> list[access.QuotaRow]:
        return [each for each in access.quotas(cluster) if each.entity == entity]

    access.change_quota(cluster, entity, "producer_byte_rate", access.quota_number("1048576"))
    [row] = awaited(own, lambda rows: len(rows) == 1)
    assert (row.quota, row.value, row.unit) == ("producer_byte_rate", 1048576.0, "B/s")
    assert row.whom == f"user {unique}, client-id (default)"
    assert access.quota_words(row.entity, row.quota, row.value) == [
        "quotas", "set", "--user", unique, "--client-default", "producer_byte_rate=1048576",
    ]  # fmt: skip
    access.change_quota(cluster, entity, "producer_byte_rate", None)
    assert awaited(own, lambda rows: not rows) == []


def test_quota_without_an_entity_or_a_number_is_refused() -> None:
    with pytest.raises(Misuse, match="needs a user, a client id or an address"):
        access.entity_of({})
    with pytest.raises(Misuse, match="not for both"):
        access.entity_of({"ip": "::1", "ip-default": "yes"})
    for text in ("", "nan", "inf", "1 MB"):
        with pytest.raises(Misuse, match="is not a number"):
            access.quota_number(text)
