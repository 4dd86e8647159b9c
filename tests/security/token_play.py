"""The life of delegation tokens, as any two brokers shall have it: asked by several users.

alice has tokens, bob may renew them, carol may DESCRIBE_TOKENS of alice, dave may CREATE_TOKENS of
her, erin may DESCRIBE one token, and mallory nothing; admin is the super user.
"""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Iterator
from typing import Any

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.codecs.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from kwire.codecs.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kwire.codecs.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.codecs.messages.renew_delegation_token import RenewDelegationTokenRequest
from kwire.codecs.primitives import Message, Struct
from kwire.security.sasl.exchange import SaslError
from kwire.security.sasl.scram import ScramClient
from tests.security.talk import Addresses, Over, Talk

SECRET = "the brokers' secret"
USERS = ("admin", "alice", "bob", "carol", "dave", "erin", "mallory")
HOUR_MS = 3_600_000
ROUND_MS = 600_000
DELEGATION_TOKEN, USER, LITERAL, ALLOW = 6, 7, 3, 3
DESCRIBE, CREATE_TOKENS, DESCRIBE_TOKENS = 8, 13, 14
PATIENCE_S = 60.0
END_OF_TIME = 2**63 - 1
SETTINGS = {
    "delegation.token.secret.key": SECRET,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
PLAIN_LINE = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    + " ".join(f'user_{user}="{user}-secret"' for user in USERS)
    + ";"
)

Told = tuple[str, Any]


class Play:
    """The answers of one broker, with comparable ids and times."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._talks: dict[str, Talk] = {}
        self._began_ms = time.time_ns() // 1_000_000
        self._ids: dict[str, str] = {}

    def close(self) -> None:
        for talk in self._talks.values():
            talk.close()

    def of(self, user: str) -> Talk:
        """An authenticated connection of `user`."""
        talk = self._talks.get(user)
        if talk is None:
            talk = self._talks[user] = Talk(self._addresses["SASL" if user else "PLAINTEXT"])
            if user:
                talk.plain(user)
        return talk

    def ask(self, user: str, request: Message, version: int) -> Any:  # noqa: ANN401 - its response
        try:
            return self.of(user).ask(request, version)
        except Over:
            self._talks.pop(user).close()
            return "closed"

    def by_token(self, token_id: str, secret: bytes, mechanism: str = "SCRAM-SHA-256") -> Talk:
        """Authenticate with a token; raises SaslError, Over."""
        talk = Talk(self._addresses["SASL"])
        password = base64.b64encode(secret).decode()
        client = ScramClient(mechanism, token_id, password, talk.nonce, by_token=True)
        try:
            talk.handshake(mechanism)
            last = client.respond(talk.token(client.first()))
            assert last is not None
            client.respond(talk.token(last))
        except BaseException:
            talk.close()
            raise
        return talk

    def shown(self, value: Any, field: str = "") -> Any:  # noqa: ANN401 - any part of a response
        if isinstance(value, Struct):
            return {name: self.shown(getattr(value, name), name) for name in value.__slots__}
        if isinstance(value, list):
            return sorted((self.shown(each) for each in value), key=repr)
        if "timestamp" in field:
            return self._time(value)
        if field == "token_id" and value:
            return self._ids.setdefault(value, f"token {len(self._ids)}")
        if field == "hmac":
            known = {hmac.digest(SECRET.encode(), each.encode(), "sha512") for each in self._ids}
            return "right" if bytes(value) in known else bytes(value)
        return value

    def _time(self, ms: int) -> str | int:
        if ms <= 0 or ms > END_OF_TIME - ROUND_MS:
            return ms
        return f"{round((ms - self._began_ms) / ROUND_MS)} spans from now"


def create(
    *renewers: str, owner: str | None = None, life_ms: int = -1, kind: str = "User"
) -> CreateDelegationTokenRequest:
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(kind, name) for name in renewers], max_lifetime_ms=life_ms
    )
    if owner is not None:
        request.owner_principal_type, request.owner_principal_name = "User", owner
    return request


def describe(*owners: str) -> DescribeDelegationTokenRequest:
    """A request for the tokens of these owners, or of all without owners."""
    return DescribeDelegationTokenRequest(
        [DescribeDelegationTokenOwner("User", each) for each in owners] if owners else None
    )


def give_rights(play: Play, token_id: str) -> None:
    rights = [
        (USER, "User:alice", "carol", DESCRIBE_TOKENS),
        (USER, "User:alice", "dave", CREATE_TOKENS),
        (DELEGATION_TOKEN, token_id, "erin", DESCRIBE),
    ]
    acls = [
        AclCreation(kind, name, LITERAL, f"User:{user}", "*", operation, ALLOW)
        for kind, name, user, operation in rights
    ]
    results = play.ask("", CreateAclsRequest(acls), 3).results
    assert not any(each.error_code for each in results), results
    deadline = time.monotonic() + PATIENCE_S
    for user in ("carol", "erin"):  # Apache Kafka's broker hears of all of them later
        while not play.ask(user, describe("alice"), 3).tokens:
            assert time.monotonic() < deadline, f"{user} sees no token"
            time.sleep(0.02)


def until_told(play: Play, token_id: str, expiry_ms: int | None) -> None:
    """Wait until a token has this expiry or is removed: Apache Kafka's broker learns it later."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        told = {each.token_id: each for each in play.ask("admin", describe(), 3).tokens}
        found = told.get(token_id)
        if (None if found is None else found.expiry_timestamp) == expiry_ms:
            return
        assert time.monotonic() < deadline, f"{found} was to expire at {expiry_ms}"
        time.sleep(0.02)


def until_renewal_says(play: Play, secret: bytes, *errors: ErrorCode) -> None:
    """Wait until somebody else's renewal of a token has one of these errors.

    Where the controllers are no brokers, they learn later than a broker what they have decided.
    """
    deadline = time.monotonic() + PATIENCE_S
    request = RenewDelegationTokenRequest(secret, HOUR_MS)
    while (told := play.ask("erin", request, 2).error_code) not in errors:
        assert time.monotonic() < deadline, f"{told}, not {errors}"
        time.sleep(0.02)


def made(play: Play, user: str, request: CreateDelegationTokenRequest, version: int = 3) -> Any:  # noqa: ANN401 - its response
    """Create a token and wait until the whole broker knows it; or the refusal."""
    response = play.ask(user, request, version)
    if not response.error_code:
        until_told(play, response.token_id, response.expiry_timestamp_ms)
        until_renewal_says(
            play,
            bytes(response.hmac),
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
            ErrorCode.DELEGATION_TOKEN_EXPIRED,
        )
    return response


def changed(
    play: Play,
    token_id: str,
    user: str,
    request: RenewDelegationTokenRequest | ExpireDelegationTokenRequest,
    version: int,
) -> Any:  # noqa: ANN401 - what is compared of its response
    """The answer to a change of a token, once the whole broker knows it."""
    response = play.ask(user, request, version)
    if not response.error_code:
        until_told(play, token_id, response.expiry_timestamp_ms)
    return play.shown(response)


def held(addresses: Addresses) -> dict[str, Any]:
    """All answers by their requests."""
    for port in addresses.values():
        wait_until_open(port)
    play = Play(addresses)
    try:
        return dict(_tell(play))
    finally:
        play.close()


def wait_until_open(port: int) -> None:
    """Wait for all listeners: Apache Kafka opens them one after the other."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            Talk(port).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, f"nobody listens at {port}"
            time.sleep(0.05)
        else:
            return


def _tell(play: Play) -> Iterator[Told]:
    yield from _made(play)
    token = made(play, "alice", create("bob", life_ms=48 * HOUR_MS))
    give_rights(play, token.token_id)
    yield from _seen(play)
    yield from _renewed(play, token.token_id, bytes(token.hmac))
    yield from _logged_in(play, token.token_id, bytes(token.hmac))
    yield from _ended(play, token.token_id, bytes(token.hmac))


def _made(play: Play) -> Iterator[Told]:
    for version in (1, 2, 3):
        yield f"made v{version}", play.shown(made(play, "alice", create("bob"), version))
        refused = create("bob", "x", kind="Role")
        yield f"another kind of renewer v{version}", play.shown(play.ask("alice", refused, version))
        yield f"nobody asks v{version}", play.shown(play.ask("", create(), version))
    for life_ms in (0, 1, HOUR_MS, 30 * 24 * HOUR_MS, END_OF_TIME, -5):
        token = made(play, "mallory", create(life_ms=life_ms))
        yield f"life of {life_ms} ms", play.shown(token)
        play.ask("mallory", ExpireDelegationTokenRequest(bytes(token.hmac), -1), 2)
        until_told(play, token.token_id, None)
    odd = create("", "b,ü=", "bob", "bob")
    yield "odd renewers", play.shown(made(play, "mallory", odd))
    yield "odd renewers told", play.shown(play.ask("mallory", describe("mallory"), 3))
    yield "for oneself, by name", play.shown(made(play, "bob", create(owner="bob")))
    yield "for another", play.shown(made(play, "mallory", create(owner="alice")))
    both = create("x", owner="alice", kind="Role")
    yield "for another, with another kind", play.shown(made(play, "mallory", both))
    yield "by the super user for another", play.shown(made(play, "admin", create(owner="carol")))
    unkind = create(owner="carol")
    unkind.owner_principal_type = "Role"
    yield "for an owner of another kind", play.shown(made(play, "admin", unkind))
    nameless = create(owner="")
    yield "for an empty name", play.shown(made(play, "bob", nameless))


def _seen(play: Play) -> Iterator[Told]:
    for user in (*USERS, ""):
        yield f"{user or 'nobody'} sees", play.shown(play.ask(user, describe(), 3))
    for version in (1, 2, 3):
        yield f"told v{version}", play.shown(play.ask("bob", describe(), version))
    none = DescribeDelegationTokenRequest([])
    yield "of no owners", play.shown(play.ask("admin", none, 3))
    yield "of others", play.shown(play.ask("alice", describe("bob", "nobody"), 3))
    yield "of one", play.shown(play.ask("admin", describe("carol", "carol"), 3))
    yield "dave for alice", play.shown(made(play, "dave", create(owner="alice")))


def _renewed(play: Play, token_id: str, secret: bytes) -> Iterator[Told]:
    for version in (1, 2):
        for period_ms in (HOUR_MS, -1, 0, 40 * HOUR_MS, END_OF_TIME):
            request = RenewDelegationTokenRequest(secret, period_ms)
            yield (
                f"renewed v{version} {period_ms}",
                changed(play, token_id, "bob", request, version),
            )
        for user in ("mallory", "admin", "carol", "dave", ""):
            request = RenewDelegationTokenRequest(secret, HOUR_MS)
            yield f"renewed v{version} by {user}", play.shown(play.ask(user, request, version))
        unknown = RenewDelegationTokenRequest(b"unknown", HOUR_MS)
        yield f"unknown renewed v{version}", play.shown(play.ask("alice", unknown, version))
        nothing = RenewDelegationTokenRequest(b"", HOUR_MS)
        yield f"nothing renewed v{version}", play.shown(play.ask("alice", nothing, version))


def _logged_in(play: Play, token_id: str, secret: bytes) -> Iterator[Told]:
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        talk = play.by_token(token_id, secret, mechanism)
        for request, version in (
            (create(), 3),
            (RenewDelegationTokenRequest(secret, -1), 2),
            (ExpireDelegationTokenRequest(secret, -1), 2),
            (describe(), 3),
        ):
            told = play.shown(talk.ask(request, version))
            yield f"by a token, {mechanism}: {type(request).__name__}", told
        lifetime_ms = talk.told[2][4]
        assert 0 < lifetime_ms <= 48 * HOUR_MS, talk.told
        talk.close()
    for case, user, key in (
        ("of another's", token_id, b"wrong"),
        ("of nobody's", "no-such-token", secret),
        ("of a user", "alice", secret),
    ):
        try:
            play.by_token(user, key).close()
            yield f"login {case}", "in"
        except (SaslError, Over) as problem:
            yield f"login {case}", type(problem).__name__


def _ended(play: Play, token_id: str, secret: bytes) -> Iterator[Told]:
    for version in (1, 2):
        for user in ("mallory", "admin", "carol", ""):
            request = ExpireDelegationTokenRequest(secret, HOUR_MS)
            yield f"ended v{version} by {user}", play.shown(play.ask(user, request, version))
        for period_ms in (HOUR_MS, END_OF_TIME):
            request = ExpireDelegationTokenRequest(secret, period_ms)
            yield f"ended v{version} {period_ms}", changed(play, token_id, "bob", request, version)
        unknown = ExpireDelegationTokenRequest(b"unknown", -1)
        yield f"unknown ended v{version}", play.shown(play.ask("alice", unknown, version))
    now = ExpireDelegationTokenRequest(secret, 0)
    yield "ended now", changed(play, token_id, "bob", now, 2)["error_code"]
    time.sleep(0.01)  # beyond its last millisecond
    until_renewal_says(play, secret, ErrorCode.DELEGATION_TOKEN_EXPIRED)
    told = play.shown(play.ask("alice", describe("alice"), 3))
    yield "what is over is told", sorted(each["token_id"] for each in told["tokens"])
    for user in ("bob", "mallory"):
        renewal = RenewDelegationTokenRequest(secret, HOUR_MS)
        yield f"over, renewed by {user}", play.shown(play.ask(user, renewal, 2))
        expiry = ExpireDelegationTokenRequest(secret, HOUR_MS)
        yield f"over, ended by {user}", play.shown(play.ask(user, expiry, 2))
    talk = play.by_token(token_id, secret)
    lifetime_ms = talk.told[2][4]
    try:
        talk.ask(describe(), 3)
        after = "served"
    except Over:
        after = "closed"
    yield "over, login", (lifetime_ms, after)
    talk.close()
    gone = ExpireDelegationTokenRequest(secret, -7)
    yield "removed", play.shown(play.ask("bob", gone, 2))
    until_told(play, token_id, None)
    until_renewal_says(play, secret, ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    yield "removed twice", play.shown(play.ask("bob", gone, 2))
    try:
        play.by_token(token_id, secret).close()
        yield "removed, login", "in"
    except (SaslError, Over) as problem:
        yield "removed, login", type(problem).__name__
