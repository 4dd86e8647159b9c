"""An authorizer by its settings, what it logs, and requests that it stands before."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import (
    AccessControlEntry,
    AclOperation,
    ResourcePattern,
    ResourceType,
)
from kwire.cluster.metadata.changes import SetFeatures
from kwire.cluster.metadata.features import CIDR_HOSTS, METADATA_VERSION
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from kwire.codecs.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kwire.codecs.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.requests.context import Context
from kwire.security.authority import OWN_ZOOKEEPER, STANDARD, ZOOKEEPERS, configured
from kwire.settings import BrokerConfig, ConfigError
from tests.inside import RawClient, running_broker
from tests.security.sasl_client import SASL, plain

ACCESS = {**SASL, "authorizer.class.name": STANDARD, "super.users": "User:alice"}
TOPIC, LITERAL, PREFIXED, READ, DESCRIBE, DENY, ALLOW, ANY = 2, 3, 4, 3, 8, 2, 3, 1


def context(principal: str = "User:a") -> Context:
    return Context("PLAINTEXT", "127.0.0.1", "-", principal, ApiKey.LIST_OFFSETS, 7)


ON_ZOOKEEPER = {"zookeeper.connect": "h:1/x", "authorizer.class.name": ZOOKEEPERS}


@pytest.mark.parametrize("named", [{"authorizer.class.name": STANDARD}, ON_ZOOKEEPER])
def test_authority_follows_its_settings(named: dict[str, str]) -> None:
    settings = {**named, "super.users": " User:root; User:CN=x,O=y ;"}
    authority = configured(BrokerConfig(settings))
    assert authority is not None
    asked = AclOperation.READ, ResourceType.TOPIC, "t"
    assert authority.allows(context("User:root"), *asked)
    assert authority.allows(context("User:CN=x,O=y"), *asked)
    assert not authority.allows(context(), *asked)
    open_to_all = {**settings, "allow.everyone.if.no.acl.found": " TRUE "}
    lenient = configured(BrokerConfig(open_to_all))
    assert lenient is not None
    assert lenient.allows(context(), *asked)


def test_unknown_authorizer_classes_are_refused() -> None:
    assert configured(BrokerConfig()) is None
    with pytest.raises(ConfigError, match=r"my\.Own cannot be run here"):
        configured(BrokerConfig({"authorizer.class.name": "my.Own"}))
    with pytest.raises(ConfigError, match="principalType:principalName but got root"):
        configured(BrokerConfig({"authorizer.class.name": STANDARD, "super.users": "root"}))


def test_authorizer_class_must_fit_the_kind_of_cluster() -> None:
    """Apache Kafka 3.9.2 on ZooKeeper never gets ready with the other one, and 4.3.1 lacks it."""
    with pytest.raises(ConfigError, match=f"without a cluster on ZooKeeper it is {STANDARD}"):
        configured(BrokerConfig({"authorizer.class.name": ZOOKEEPERS}))
    with pytest.raises(ConfigError, match=f"in a cluster on ZooKeeper it is {ZOOKEEPERS}"):
        configured(BrokerConfig({**ON_ZOOKEEPER, "authorizer.class.name": STANDARD}))
    assert configured(BrokerConfig({**ON_ZOOKEEPER, OWN_ZOOKEEPER: "h:1/x"})) is not None
    with pytest.raises(ConfigError, match=f"{OWN_ZOOKEEPER}: .* read of zookeeper.connect"):
        configured(BrokerConfig({**ON_ZOOKEEPER, OWN_ZOOKEEPER: "other:1"}))


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("a/b", AclOperation.READ),
        (".", AclOperation.READ),
        ("..", AclOperation.READ),
        ("a\x01b", AclOperation.READ),
        ("\U0001f600", AclOperation.READ),
        ("a", AclOperation.TWO_PHASE_COMMIT),
    ],
)
def test_acl_invalid_in_zookeeper_is_refused_with_kafkas_message(
    name: str, operation: AclOperation
) -> None:
    on_zookeeper = configured(BrokerConfig(ON_ZOOKEEPER))
    elsewhere = configured(BrokerConfig({"authorizer.class.name": STANDARD}))
    assert on_zookeeper is not None
    assert elsewhere is not None
    asked = (
        ResourcePattern(ResourceType.GROUP, LITERAL, name),
        AccessControlEntry("User:a", "*", operation, ALLOW),
    )
    with pytest.raises(Refusal, match="Failed to create ACL") as refusal:
        on_zookeeper.check_new(*asked, 0)
    assert refusal.value.error == ErrorCode.INVALID_REQUEST
    elsewhere.check_new(*asked, 0)


def test_acl_valid_in_zookeeper_is_accepted() -> None:
    authority = configured(BrokerConfig(ON_ZOOKEEPER))
    assert authority is not None
    for name in ("*", "...", "a b:c", "\u00e9"):
        pattern = ResourcePattern(ResourceType.GROUP, PREFIXED, name)
        entry = AccessControlEntry("User:a", "*", AclOperation.DESCRIBE_TOKENS, ALLOW)
        authority.check_new(pattern, entry, 0)


@pytest.mark.parametrize(
    ("host", "problem"),
    [
        ("*", None),
        ("", "Host pattern cannot be null or empty"),
        ("300.1.1.1", None),
        ("foo", None),
        ("10.1.2.3/8", None),
        ("10.0.0.0/08", None),
        ("0.0.0.0/0", None),
        ("10.0.0.0/33", "Value [33] not in range [0,32]"),
        ("256.0.0.1/8", "Value [256] not in range [0,255]"),
        ("10.0.0.0/", "Could not parse [10.0.0.0/]"),
        ("10.0.0.0/-1", "Could not parse [10.0.0.0/-1]"),
        ("10.0.0.0/8/8", "Could not parse [10.0.0.0/8/8]"),
        ("foo/8", "Could not parse [foo/8]"),
        ("::/0", None),
        ("2001:DB8::/32", None),
        ("::1/+8", None),
        ("[::1]/128", None),
        ("fe80::1%1/64", None),
        ("::10.0.0.0/104", None),
        ("::1/129", "Could not parse [::1/129] - prefix length must be between 0 and 128"),
        ("::1/a", "Could not parse [::1/a] - invalid prefix length"),
        ("::ffff:10.0.0.0/104", "Could not parse [::ffff:10.0.0.0] - not an IPv6 address"),
        ("1::2::3/8", "Could not parse [1::2::3]"),
        ("[::1/128", "Could not parse [[::1]"),
    ],
)
def test_host_of_a_new_acl_is_checked_with_kafkas_messages(host: str, problem: str | None) -> None:
    """As 4.4.0 answers. Below metadata.version 32, it refuses each host with a slash."""
    authority = configured(BrokerConfig({"authorizer.class.name": STANDARD}))
    on_zookeeper = configured(BrokerConfig(ON_ZOOKEEPER))
    assert authority is not None
    assert on_zookeeper is not None
    asked = (
        ResourcePattern(ResourceType.GROUP, LITERAL, "g"),
        AccessControlEntry("User:a", host, AclOperation.READ, ALLOW),
    )
    on_zookeeper.check_new(*asked, 32)
    if "/" in host:
        with pytest.raises(Refusal) as refusal:
            authority.check_new(*asked, 31)
        assert (refusal.value.error, refusal.value.message) == (
            ErrorCode.UNSUPPORTED_VERSION,
            "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.",
        )
    if problem is None:
        authority.check_new(*asked, 32)
        return
    with pytest.raises(Refusal) as refusal:
        authority.check_new(*asked, 32)
    said = f"Invalid CIDR notation '{host}': {problem}" if host else problem
    assert (refusal.value.error, refusal.value.message) == (ErrorCode.INVALID_REQUEST, said)


def test_invalid_principal_is_reported_before_an_invalid_host() -> None:
    authority = configured(BrokerConfig({"authorizer.class.name": STANDARD}))
    assert authority is not None
    pattern = ResourcePattern(ResourceType.GROUP, LITERAL, "g")
    with pytest.raises(Refusal, match="Could not parse principal from `a`"):
        authority.check_new(pattern, AccessControlEntry("a", "1/", AclOperation.READ, ALLOW), 32)


def test_ranges_of_an_acl_are_text_on_zookeeper() -> None:
    for settings, allowed in ((ON_ZOOKEEPER, False), ({"authorizer.class.name": STANDARD}, True)):
        authority = configured(BrokerConfig(settings))
        assert authority is not None
        pattern = ResourcePattern(ResourceType.TOPIC, LITERAL, "t")
        entry = AccessControlEntry("User:a", "127.0.0.0/8", AclOperation.READ, ALLOW)
        authority.follow({pattern: frozenset({entry})})
        asked = (AclOperation.READ, ResourceType.TOPIC, "t")
        assert authority.allows(context(), *asked) is allowed


def test_audit_log_matches_apache_kafka(caplog: pytest.LogCaptureFixture) -> None:
    """As 4.3.1 wrote them into its `kafka.authorizer.logger`."""
    authority = configured(BrokerConfig({"authorizer.class.name": STANDARD}))
    assert authority is not None
    with caplog.at_level(logging.INFO, "kwire.security.audit"):
        authority.allows(context(), AclOperation.DESCRIBE, ResourceType.TOPIC, "t", count=2)
        authority.allows(context(), AclOperation.READ, ResourceType.GROUP, "g", quiet=True)
    assert caplog.messages == [
        "Principal = User:a is Denied operation = DESCRIBE from host = 127.0.0.1 on resource = "
        "Topic:LITERAL:t for request = ListOffsets with resourceRefCount = 2 based on rule "
        "DefaultDeny"
    ]


def creation(name: str = "t", permission: int = ALLOW, **other: object) -> AclCreation:
    said = {"resource_pattern_type": LITERAL, "principal": "User:bob", "operation": READ}
    said |= other
    acl = AclCreation(TOPIC, name, host="*", permission_type=permission)
    for field, value in said.items():
        setattr(acl, field, value)
    return acl


async def create(client: RawClient, *acls: AclCreation) -> list[tuple[int, str | None]]:
    answer = await client.ask(CreateAclsRequest([*acls]), 3, CreateAclsResponse)
    return [(each.error_code, each.error_message) for each in answer.results]


async def delete(client: RawClient, *filters: DeleteAclsFilter) -> DeleteAclsResponse:
    return await client.ask(DeleteAclsRequest([*filters]), 3, DeleteAclsResponse)


async def logged_in(broker: Broker, user: str) -> RawClient:
    client = await RawClient.connect(broker)
    assert not (await plain(client, user)).error_code
    return client


async def end_of(client: RawClient, topic: str = "t") -> tuple[int, int]:
    """As a consumer asks again and again, so that it is answered by what was learnt."""
    asked = [ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, -1)])]
    answer = await client.ask(ListOffsetsRequest(-1, 0, asked), 7, ListOffsetsResponse)
    told = answer.topics[0].partitions[0]
    return told.error_code, told.offset


async def test_shortcut_stops_when_a_right_is_removed(tmp_path: Path) -> None:
    """The quick way for what is asked again and again is forgotten with each change."""
    async with running_broker(tmp_path, ACCESS) as broker:
        await broker.membership.create_on_first_use(["t"])
        alice, bob = await logged_in(broker, "alice"), await logged_in(broker, "bob")
        assert (await end_of(bob))[0] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await create(alice, creation()) == [(0, "")]
        for _ in range(4):
            assert await end_of(bob) == (0, 0)
        meant = DeleteAclsFilter(TOPIC, "t", LITERAL, "User:bob", None, ANY, ANY)
        gone = (await delete(alice, meant)).filter_results[0].matching_acls
        assert [(each.principal, each.operation) for each in gone] == [("User:bob", READ)]
        assert (await end_of(bob))[0] == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_acls_survive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path, ACCESS) as broker:
        await broker.membership.create_on_first_use(["t"])
        await create(await logged_in(broker, "alice"), creation())
    async with running_broker(tmp_path, ACCESS) as broker:
        assert await end_of(await logged_in(broker, "bob")) == (0, 0)


async def test_invalid_acl_does_not_affect_valid_ones(tmp_path: Path) -> None:
    async with running_broker(tmp_path, ACCESS) as broker:
        alice = await logged_in(broker, "alice")
        made, nameless, nobody = await create(
            alice, creation(), creation(""), creation(principal="bob")
        )
        assert made == (0, "")
        assert nameless == (ErrorCode.INVALID_REQUEST, "Invalid empty resource name")
        assert nobody[0] == ErrorCode.INVALID_REQUEST
        everything = DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)
        answer = await alice.ask(everything, 3, DescribeAclsResponse)
        assert answer.error_message == ""  # as Kafka, not null
        assert [each.resource_name for each in answer.resources] == ["t"]


async def test_acl_filters_match_as_specified(tmp_path: Path) -> None:
    async with running_broker(tmp_path, ACCESS) as broker:
        alice = await logged_in(broker, "alice")
        await create(
            alice,
            creation("abc"),
            creation("ab", resource_pattern_type=PREFIXED),
            creation("*", DENY),
            creation("other"),
        )

        async def found(pattern_type: int, name: str | None, permission: int = ANY) -> list[str]:
            asked = DescribeAclsRequest(TOPIC, name, pattern_type, None, None, ANY, permission)
            answer = await alice.ask(asked, 3, DescribeAclsResponse)
            return sorted(each.resource_name for each in answer.resources)

        assert await found(2, "abc") == ["*", "ab", "abc"]  # MATCH: what counts for the topic
        assert await found(2, "abc", ALLOW) == ["ab", "abc"]
        assert await found(LITERAL, None) == ["*", "abc", "other"]
        assert await found(PREFIXED, "ab") == ["ab"]
        assert await found(ANY, "ab") == ["ab"]
        assert await found(LITERAL, "ab") == []


async def set_metadata_version(broker: Broker, level: int) -> None:
    def decide(image: ClusterImage) -> SetFeatures:
        before = image.features
        after = before.with_level(METADATA_VERSION, level, before.epoch + 1)
        return SetFeatures(before.epoch, after)

    await broker.membership.commit([decide])


async def test_range_is_kept_as_given_and_filters_compare_it_as_text(tmp_path: Path) -> None:
    async with running_broker(tmp_path, ACCESS) as broker:
        await broker.membership.create_on_first_use(["t"])
        alice, bob = await logged_in(broker, "alice"), await logged_in(broker, "bob")
        await set_metadata_version(broker, CIDR_HOSTS)
        assert await create(alice, creation(host="127.1.2.3/8")) == [(0, "")]
        assert await end_of(bob) == (0, 0)

        async def found(host: str | None) -> list[str]:
            asked = DescribeAclsRequest(ANY, None, ANY, None, host, ANY, ANY)
            answer = await alice.ask(asked, 3, DescribeAclsResponse)
            return [acl.host for resource in answer.resources for acl in resource.acls]

        assert await found(None) == ["127.1.2.3/8"]
        assert await found("127.1.2.3/8") == ["127.1.2.3/8"]
        for other in ("127.0.0.1", "127.0.0.0/8", "127.0.0.0/", "10.0.0.0/33"):
            assert await found(other) == []
            meant = DeleteAclsFilter(ANY, None, ANY, None, other, ANY, ANY)
            result = (await delete(alice, meant)).filter_results[0]
            assert (result.error_code, result.matching_acls) == (0, [])
        meant = DeleteAclsFilter(ANY, None, ANY, None, "127.1.2.3/8", ANY, ANY)
        assert len((await delete(alice, meant)).filter_results[0].matching_acls) == 1
        assert (await end_of(bob))[0] == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_new_range_is_refused_before_metadata_version_32(tmp_path: Path) -> None:
    async with running_broker(tmp_path, ACCESS) as broker:
        alice = await logged_in(broker, "alice")
        await set_metadata_version(broker, CIDR_HOSTS - 1)
        made, refused = await create(alice, creation(), creation(host="10.0.0.0/8"))
        assert made == (0, "")
        assert refused[0] == ErrorCode.UNSUPPORTED_VERSION
