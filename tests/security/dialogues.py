"""Conversations about a login, right and wrong, that any two brokers shall lead alike.

The listeners: SASL for most, RENEWED where a login holds a minute, ENDING where it holds a
millisecond, PLAINTEXT.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

from kwire.codecs.messages.api_versions import ApiVersionsRequest
from kwire.codecs.messages.fetch import FetchRequest
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.list_groups import ListGroupsRequest
from kwire.codecs.messages.metadata import MetadataRequest
from kwire.codecs.messages.produce import ProduceRequest
from kwire.codecs.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest
from kwire.codecs.primitives import Message
from kwire.security.sasl.scram import ScramClient
from tests.security.talk import Dialogue, Talk

DIALOGUES: list[Dialogue] = []

RIGHT = b"\0alice\0alice-secret"


def dialogue(
    name: str, listener: str = "SASL"
) -> Callable[[Callable[[Talk], None]], Callable[[Talk], None]]:
    def added(hold: Callable[[Talk], None]) -> Callable[[Talk], None]:
        DIALOGUES.append(Dialogue(name, listener, hold))
        return hold

    return added


def add(name: str, hold: Callable[[Talk], None], listener: str = "SASL") -> None:
    DIALOGUES.append(Dialogue(name, listener, hold))


def versions(talk: Talk, version: int = 3, name: str = "test") -> None:
    talk.ask(ApiVersionsRequest(name, "1"), version)


def metadata(talk: Talk) -> None:
    talk.ask(MetadataRequest(topics=[]), 9)


# -- PLAIN

PLAIN_TOKENS = {
    "right": RIGHT,
    "with its own authorization id": b"alice" + RIGHT,
    "with another authorization id": b"bob" + RIGHT,
    "wrong password": b"\0alice\0wrong",
    "password of another length": b"\0alice\0" + b"x" * 5000,
    "unknown user": b"\0nobody\0alice-secret",
    "no user": b"\0\0alice-secret",
    "no password": b"\0alice\0",
    "empty": b"",
    "cut short": RIGHT[:8],
    "one part too many": RIGHT + b"\0",
    "no UTF-8": b"\0alice\0\xff\xfe",
    "as long as is allowed": b"\0alice\0" + b"x" * 500_000,
}


def token_dialogue(mechanism: str, token: bytes, version: int) -> Callable[[Talk], None]:
    def hold(talk: Talk) -> None:
        talk.handshake(mechanism, 0 if version < 0 else 1)
        if version < 0:
            talk.raw_token(token)
        else:
            talk.token(token, version)
        metadata(talk)

    return hold


for _name, _token in PLAIN_TOKENS.items():
    add(f"PLAIN token: {_name}", token_dialogue("PLAIN", _token, 2))
    add(f"PLAIN raw token: {_name}", token_dialogue("PLAIN", _token, -1))
for _version in (0, 1):
    add(f"PLAIN in SaslAuthenticate v{_version}", token_dialogue("PLAIN", RIGHT, _version))
    add(f"wrong in SaslAuthenticate v{_version}", token_dialogue("PLAIN", b"\0a\0b", _version))


# -- SCRAM

FIRST_MESSAGES = {
    "unknown user": b"n,,n=nobody,r=kwire0nonce",
    "a user of another mechanism": b"n,,n=bob,r=kwire0nonce",
    "own authorization id": b"n,a=alice,n=alice,r=kwire0nonce",
    "another authorization id": b"n,a=bob,n=alice,r=kwire0nonce",
    "an extension": b"n,,n=alice,r=kwire0nonce,note=x",
    "token of nobody's": b"n,,n=alice,r=kwire0nonce,tokenauth=true",
    "not by token": b"n,,n=alice,r=kwire0nonce,tokenauth=false",
    "mandatory extension": b"n,,m=x,n=alice,r=kwire0nonce",
    "channel binding wanted": b"p=tls-unique,,n=alice,r=kwire0nonce",
    "channel binding possible": b"y,,n=alice,r=kwire0nonce",
    "no nonce": b"n,,n=alice",
    "empty nonce": b"n,,n=alice,r=",
    "odd escape": b"n,,n=al=ice,r=kwire0nonce",
    "escape of nothing special": b"n,,n=al=69ce,r=kwire0nonce",
    "no name": b"n,,n=,r=kwire0nonce",
    "a name beyond ASCII": "n,,n=älice,r=kwire0nonce".encode(),
    "a nonce with a blank": b"n,,n=alice,r=kwire nonce",
    "end of line": b"n,,n=alice,r=kwire0nonce\n",
    "PLAIN instead": RIGHT,
    "empty": b"",
    "no UTF-8": b"n,,n=\xff,r=kwire0nonce",
}
for _name, _token in FIRST_MESSAGES.items():
    for _version in (2, -1):
        _kind = "raw" if _version < 0 else "client"
        add(f"SCRAM {_kind} first: {_name}", token_dialogue("SCRAM-SHA-256", _token, _version))

CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "right": bytes,
    "wrong proof": lambda last: last[:-8] + b"AAAAAAA=",
    "short proof": lambda last: last[: last.index(b",p=")] + b",p=AAAA",
    "no proof": lambda last: last[: last.index(b",p=")],
    "empty proof": lambda last: last[: last.index(b",p=") + 3],
    "changed nonce": lambda last: last.replace(b"r=kwire", b"r=kwirx"),
    "longer nonce": lambda last: last.replace(b",p=", b"x,p="),
    "other channel": lambda last: last.replace(b"c=biws", b"c=eSws"),
    "no channel": lambda last: last.replace(b"c=biws,", b""),
    "an extension that is not signed": lambda last: last.replace(b",p=", b",note=x,p="),
    "behind the proof": lambda last: last + b",x=y",
    "cut short": lambda last: last[:-5],
    "empty": lambda last: b"",
    "the first again": lambda last: b"n,,n=alice,r=kwire0nonce",
}


def scram_dialogue(
    change: Callable[[bytes], bytes], *, raw: bool, mechanism: str = "SCRAM-SHA-256"
) -> Callable[[Talk], None]:
    def hold(talk: Talk) -> None:
        talk.scram(mechanism=mechanism, change=change, raw=raw)
        metadata(talk)

    return hold


for _name, _change in CHANGES.items():
    add(f"SCRAM last: {_name}", scram_dialogue(_change, raw=False))
    add(f"SCRAM raw last: {_name}", scram_dialogue(_change, raw=True))
add("SCRAM-SHA-512", scram_dialogue(bytes, raw=False, mechanism="SCRAM-SHA-512"))


@dialogue("SCRAM: wrong password")
def _(talk: Talk) -> None:
    talk.scram(password="wrong")


@dialogue("SCRAM: a token after the last")
def _(talk: Talk) -> None:
    talk.scram()
    talk.token(b"n,,n=alice,r=kwire0nonce")
    metadata(talk)


# -- order

REQUESTS: dict[str, tuple[Message, int]] = {
    "Metadata": (MetadataRequest(topics=[]), 9),
    "Fetch": (FetchRequest(), 12),
    "ListGroups": (ListGroupsRequest(), 4),
    "FindCoordinator": (FindCoordinatorRequest(key="g"), 3),
    "Produce": (ProduceRequest(acks=1), 9),
    "SaslAuthenticate": (SaslAuthenticateRequest(RIGHT), 2),
}


def early(request: Message, version: int) -> Callable[[Talk], None]:
    return lambda talk: void(talk.ask(request, version))


def amid(request: Message, version: int) -> Callable[[Talk], None]:
    def hold(talk: Talk) -> None:
        talk.handshake()
        talk.ask(request, version)

    return hold


def void(_: object) -> None:
    """For what a dialogue does not look at."""


for _name, (_request, _version) in REQUESTS.items():
    add(f"{_name} before all", early(_request, _version))
    if _name != "SaslAuthenticate":
        add(f"{_name} instead of a token", amid(_request, _version))
add("ApiVersions instead of a token", amid(ApiVersionsRequest("test", "1"), 3))
add("SaslHandshake instead of a token", amid(SaslHandshakeRequest("PLAIN"), 1))


@dialogue("ApiVersions, then a login")
def _(talk: Talk) -> None:
    versions(talk)
    talk.plain()
    metadata(talk)
    versions(talk)


@dialogue("ApiVersions twice")
def _(talk: Talk) -> None:
    versions(talk)
    versions(talk)


@dialogue("ApiVersions after one that made no sense")
def _(talk: Talk) -> None:
    versions(talk, name="-")
    versions(talk)
    talk.plain()


@dialogue("ApiVersions of a version from the future")
def _(talk: Talk) -> None:
    key, version = 18, 99
    reply = talk.exchange(struct.pack(">hhih", key, version, 7, 4) + b"test\0\0\0\0")
    talk.told.append(reply[:6])
    versions(talk)
    talk.plain()


@dialogue("handshake twice, then a login")
def _(talk: Talk) -> None:
    talk.handshake()
    talk.plain()


@dialogue("a mechanism that is not enabled")
def _(talk: Talk) -> None:
    talk.handshake("GSSAPI")
    talk.plain()


@dialogue("a mechanism in small letters")
def _(talk: Talk) -> None:
    talk.handshake("plain")


@dialogue("a mechanism that is not enabled, v0")
def _(talk: Talk) -> None:
    talk.handshake("GSSAPI", 0)


@dialogue("a login after a login")
def _(talk: Talk) -> None:
    talk.plain()
    talk.handshake()
    talk.token(RIGHT)
    metadata(talk)


@dialogue("a login where none is asked for", "PLAINTEXT")
def _(talk: Talk) -> None:
    for version in (0, 1):
        talk.handshake(version=version)
    for version in (0, 1, 2):
        talk.token(RIGHT, version)
    metadata(talk)


# -- frames

FRAMES = {
    "SaslHandshake v2": struct.pack(">hhih", 17, 2, 1, 4) + b"test\0\5PLAIN",
    "unknown key": struct.pack(">hhih", 999, 0, 1, 4) + b"test",
    "negative key": struct.pack(">hhih", -1, 0, 1, 4) + b"test",
    "shorter than a header": b"\0\x11\0",
    "empty": b"",
    "a client id that is too long": struct.pack(">hhih", 17, 1, 1, 400) + b"test",
    "a mechanism that is too long": struct.pack(">hhih", 17, 1, 1, 4) + b"test\0\x50PLAIN",
    "bytes behind": struct.pack(">hhih", 17, 1, 1, 4) + b"test\0\5PLAIN++",
    "a token": RIGHT,
}
for _name, _frame in FRAMES.items():
    add(f"first frame: {_name}", lambda talk, frame=_frame: void(talk.exchange(frame)))  # type: ignore[misc]  # a default binds it


def amid_frame(frame: bytes) -> Callable[[Talk], None]:
    def hold(talk: Talk) -> None:
        talk.handshake()
        talk.exchange(frame)

    return hold


AUTHENTICATE_FRAMES = {
    "SaslAuthenticate v9": struct.pack(">hhih", 36, 9, 1, 4) + b"test\0\0",
    "unknown key": struct.pack(">hhih", 999, 0, 1, 4) + b"test",
    "shorter than a header": b"\0\x24\0",
    "empty": b"",
    "a token that is too long for its frame": struct.pack(">hhih", 36, 1, 1, 4)
    + b"test"
    + struct.pack(">i", 400)
    + RIGHT,
    "a token of negative length": struct.pack(">hhih", 36, 1, 1, 4) + b"test\xff\xff\xff\xff",
    "a raw token": RIGHT,
}
for _name, _frame in AUTHENTICATE_FRAMES.items():
    add(f"second frame: {_name}", amid_frame(_frame))

SIZES = {"one too many": 524_289, "huge": 2**31 - 1, "negative": -1}
for _name, _size in SIZES.items():
    add(f"size: {_name}", lambda talk, size=_size: void(talk.send(struct.pack(">i", size))))  # type: ignore[misc]  # a default binds it


# -- logins that end


@dialogue("a login that ends, renewed in time", "RENEWED")
def _(talk: Talk) -> None:
    talk.plain(version=2)
    metadata(talk)
    talk.plain(version=1)
    metadata(talk)


@dialogue("renewed by SCRAM", "RENEWED")
def _(talk: Talk) -> None:
    talk.scram()
    talk.scram()
    metadata(talk)


@dialogue("renewed by raw tokens", "RENEWED")
def _(talk: Talk) -> None:
    talk.handshake(version=0)
    talk.raw_token(RIGHT)
    metadata(talk)
    talk.handshake(version=0)
    talk.raw_token(RIGHT)
    metadata(talk)


@dialogue("renewed as another", "RENEWED")
def _(talk: Talk) -> None:
    talk.plain()
    talk.plain("bob")


@dialogue("renewed by raw tokens as another", "RENEWED")
def _(talk: Talk) -> None:
    talk.plain()
    talk.handshake(version=0)
    talk.raw_token(b"\0bob\0bob-secret")


@dialogue("renewed with a wrong password", "RENEWED")
def _(talk: Talk) -> None:
    talk.plain()
    talk.plain(password="wrong")


@dialogue("renewed with a wrong proof", "RENEWED")
def _(talk: Talk) -> None:
    talk.scram()
    talk.scram(password="wrong")


@dialogue("renewed by another mechanism", "RENEWED")
def _(talk: Talk) -> None:
    talk.plain()
    talk.handshake("SCRAM-SHA-256")
    talk.token(ScramClient("SCRAM-SHA-256", "alice", "x", "n").first())


@dialogue("renewed by a mechanism that is not enabled", "RENEWED")
def _(talk: Talk) -> None:
    talk.plain()
    talk.handshake("GSSAPI")


@dialogue("something else amid a renewal", "RENEWED")
def _(talk: Talk) -> None:
    talk.plain()
    talk.handshake()
    metadata(talk)


@dialogue("ApiVersions amid a renewal", "RENEWED")
def _(talk: Talk) -> None:
    talk.plain()
    talk.handshake()
    versions(talk)


@dialogue("renewed twice within a second", "RENEWED")
def _(talk: Talk) -> None:
    talk.plain()
    talk.plain()
    talk.handshake()
    talk.token(RIGHT)
    metadata(talk)


@dialogue("SaslAuthenticate without a handshake", "RENEWED")
def _(talk: Talk) -> None:
    talk.plain()
    talk.token(RIGHT)
    metadata(talk)


@dialogue("a request after the end", "ENDING")
def _(talk: Talk) -> None:
    talk.plain(version=1)
    time.sleep(0.05)
    metadata(talk)


@dialogue("ApiVersions after the end", "ENDING")
def _(talk: Talk) -> None:
    talk.plain(version=0)
    time.sleep(0.05)
    versions(talk)


@dialogue("SaslAuthenticate after the end", "ENDING")
def _(talk: Talk) -> None:
    talk.plain()
    time.sleep(0.05)
    talk.token(RIGHT)


@dialogue("renewed after the end", "ENDING")
def _(talk: Talk) -> None:
    talk.plain()
    time.sleep(0.05)
    talk.plain()


@dialogue("nothing after the end", "ENDING")
def _(talk: Talk) -> None:
    talk.plain()
