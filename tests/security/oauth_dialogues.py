"""Dialogues of OAUTHBEARER with unsecured tokens."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable

from tests.security.dialogues import RIGHT, add, dialogue, metadata
from tests.security.talk import Talk


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


NOW_S = int(time.time())
CLAIMS = {"sub": "alice", "iat": NOW_S - 60, "exp": NOW_S + 36_000, "scope": ["kafka"]}


def jws(claims: object = CLAIMS, header: object = None, signature: str = "") -> str:
    return f"{part(header or {'alg': 'none'})}.{part(claims)}.{signature}"


TOKENS = {
    "right": jws(),
    "a scope that is text": jws({**CLAIMS, "scope": "kafka"}),
    "a scope in words": jws({**CLAIMS, "scope": "other kafka"}),
    "no scope": jws({**CLAIMS, "scope": None}),
    "another scope": jws({**CLAIMS, "scope": ["other"]}),
    "expired": jws({**CLAIMS, "exp": NOW_S - 1}),
    "without end": jws({"sub": "alice", "scope": ["kafka"]}),
    "an end that is text": jws({**CLAIMS, "exp": "soon"}),
    "an end in fractions": jws({**CLAIMS, "exp": NOW_S + 36_000.5}),
    "an end in exponents": f"{part({'alg': 'none'})}."
    + base64.urlsafe_b64encode(b'{"sub":"alice","scope":["kafka"],"exp":1.9e9}')
    .decode()
    .rstrip("=")
    + ".",
    "not issued yet": jws({**CLAIMS, "iat": NOW_S + 3_600}),
    "issued when it ended": jws({**CLAIMS, "iat": NOW_S + 36_001}),
    "without a beginning": jws({"sub": "alice", "exp": NOW_S + 36_000, "scope": ["kafka"]}),
    "a beginning that is null": jws({**CLAIMS, "iat": None}),
    "no name": jws({"exp": NOW_S + 36_000, "scope": ["kafka"]}),
    "an empty name": jws({**CLAIMS, "sub": " "}),
    "a name that is a number": jws({**CLAIMS, "sub": 7}),
    "signed": jws(signature="abc"),
    "another algorithm": jws(header={"alg": "HS256"}),
    "NONE": jws(header={"alg": "NONE"}),
    "no algorithm": jws(header={"typ": "x"}),
    "two parts": jws()[:-1],
    "four parts": jws() + "a.b",
    "no JSON": "abc.def.",
    "no object": f"{part([1])}.{part(CLAIMS)}.",
    "empty parts": "..",
    "text": "hello",
}


def bearer(token: str) -> bytes:
    return f"n,,\1auth=Bearer {token}\1\1".encode()


def oauth_dialogue(message: bytes, *, raw: bool = False) -> Callable[[Talk], None]:
    def hold(talk: Talk) -> None:
        talk.handshake("OAUTHBEARER", 0 if raw else 1)
        said = talk.raw_token(message) if raw else talk.token(message, 0)
        if said:
            (talk.raw_token if raw else talk.token)(b"\1")
        metadata(talk)

    return hold


for _name, _text in TOKENS.items():
    add(f"OAUTHBEARER token: {_name}", oauth_dialogue(bearer(_text)))
add("OAUTHBEARER raw token: right", oauth_dialogue(bearer(jws()), raw=True))
add("OAUTHBEARER raw token: expired", oauth_dialogue(bearer(TOKENS["expired"]), raw=True))

MESSAGES = {
    "own authorization id": bearer(jws()).replace(b"n,,", b"n,a=alice,"),
    "another authorization id": bearer(jws()).replace(b"n,,", b"n,a=bob,"),
    "extensions": bearer(jws())[:-1] + b"traceId=1 2\1\1",
    "an extension without a value": bearer(jws())[:-1] + b"traceId=\1\1",
    "no auth": b"n,,\1a=b\1\1",
    "nothing": b"n,,\1\1",
    "another scheme": bearer(jws()).replace(b"Bearer", b"Basic"),
    "in small letters": bearer(jws()).replace(b"Bearer", b"bearer"),
    "no token": b"n,,\1auth=Bearer \1\1",
    "cut short": bearer(jws())[:-1],
    "the answer to an error": b"\1",
    "empty": b"",
    "PLAIN instead": RIGHT,
}
for _name, _token in MESSAGES.items():
    add(f"OAUTHBEARER message: {_name}", oauth_dialogue(_token))


@dialogue("OAUTHBEARER: another token after an error")
def _(talk: Talk) -> None:
    talk.handshake("OAUTHBEARER")
    talk.token(bearer(TOKENS["expired"]))
    talk.token(bearer(jws()), 0)
    metadata(talk)
