"""Steps with access rules, SCRAM users, quotas and delegation tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kwire.codecs.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.codecs.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.codecs.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from kwire.codecs.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kwire.codecs.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.codecs.messages.renew_delegation_token import RenewDelegationTokenRequest
from kwire.codecs.primitives import Message
from kwire.conformance.kraft.stage import ClusterStep, RecordsStage
from kwire.conformance.kraft.steps.requests import succeed

ANY = 1
TOPIC, CLUSTER, USER = 2, 4, 7
LITERAL, PREFIXED = 3, 4
ALLOW, DENY = 3, 2
READ, WRITE, DESCRIBE = 3, 4, 8
SHA_256, SHA_512 = 1, 2
A_DAY_MS = 86_400_000


def _change_rules(stage: RecordsStage) -> None:
    def rule(name: str, kind: int, pattern: int, user: str, operation: int) -> AclCreation:
        return AclCreation(kind, name, pattern, f"User:{user}", "*", operation, ALLOW)

    first = [rule("pair", TOPIC, LITERAL, "alice", READ), rule("p", TOPIC, PREFIXED, "bob", WRITE)]
    succeed(stage.ask(1, CreateAclsRequest(first)))
    denied = AclCreation(CLUSTER, "kafka-cluster", LITERAL, "User:bob", "*", DESCRIBE, DENY)
    succeed(stage.ask(2, CreateAclsRequest([denied])))
    succeed(stage.ask(3, CreateAclsRequest([rule("pair", TOPIC, LITERAL, "alice", READ)])))
    bobs = DeleteAclsFilter(TOPIC, None, ANY, "User:bob", None, ANY, ANY)
    succeed(stage.ask(3, DeleteAclsRequest([bobs])))


def _change_users(stage: RecordsStage) -> None:
    def user(name: str, mechanism: int) -> ScramCredentialUpsertion:
        return ScramCredentialUpsertion(name, mechanism, 4096, b"s" * 32, b"p" * 32)

    request = AlterUserScramCredentialsRequest
    succeed(stage.ask(1, request([], [user("carol", SHA_256), user("dave", SHA_512)])))
    succeed(stage.ask(2, request([], [user("carol", SHA_512)])))
    stage.settle()
    succeed(stage.ask(3, request([ScramCredentialDeletion("dave", SHA_512)], [])))
    stage.settle()


def _change_quotas(stage: RecordsStage) -> None:
    def entry(
        entity: Mapping[str, str | None], values: Mapping[str, float | None]
    ) -> RequestEntryData:
        return RequestEntryData(
            [EntityData(kind, name) for kind, name in entity.items()],
            [OpData(key, value or 0, value is None) for key, value in values.items()],
        )

    alice = {"user": "alice"}
    rates = {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}
    some = [
        entry(alice, rates),
        entry({"user": None, "client-id": "app"}, {"request_percentage": 50}),
    ]
    succeed(stage.ask(1, AlterClientQuotasRequest(some)))
    ip = entry({"ip": "127.0.0.9"}, {"connection_creation_rate": 5})
    succeed(stage.ask(2, AlterClientQuotasRequest([ip])))
    gone = entry(alice, {"consumer_byte_rate": None})
    succeed(stage.ask(3, AlterClientQuotasRequest([gone])))


def _change_tokens(stage: RecordsStage) -> None:
    renewer = CreatableRenewers("User", "alice")
    own = succeed(stage.ask(1, CreateDelegationTokenRequest(None, None, [renewer], -1), "admin"))
    request = CreateDelegationTokenRequest("User", "alice", [], A_DAY_MS)
    alices = succeed(stage.ask(2, request, "admin"))
    _ask_once_known(stage, 3, RenewDelegationTokenRequest(bytes(own.hmac), 3_600_000))
    _ask_once_known(stage, 1, ExpireDelegationTokenRequest(bytes(alices.hmac), -1))


def _ask_once_known(stage: RecordsStage, broker_id: int, request: Message) -> None:
    """Ask as alice until the token is known: to a controller it is once its own image has it."""
    answers: list[Any] = []

    def is_known() -> bool:
        answers[:] = [stage.ask(broker_id, request, "alice")]
        return bool(answers[0].error_code != ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    stage.wait_for(is_known, "the token is known")
    succeed(answers[0])


STEPS = (
    ClusterStep("access rules are changed", _change_rules),
    ClusterStep("SCRAM users are changed", _change_users),
    ClusterStep("quotas are changed", _change_quotas),
    ClusterStep("delegation tokens are changed", _change_tokens),
)
