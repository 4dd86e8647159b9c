"""Dialogues of OAUTHBEARER with signed tokens, valid and invalid ones."""

from __future__ import annotations

import base64
import json
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.warnings import InsecureKeyLengthWarning

from tests.security.dialogues import add
from tests.security.oauth_dialogues import bearer, oauth_dialogue, part
from tests.security.talk import Talk

STRICT: Final = "SIGNED"
"""The listener that expects AUDIENCE and ISSUER."""
LENIENT: Final = "LENIENT"
"""The listener that expects neither and reads the name from another claim."""
AUDIENCE: Final = "kafka"
ISSUER: Final = "https://issuer.example"
SECRET: Final = b"a secret that is known to both sides, and long enough"
CURVES: Final[dict[str, type[ec.SECP256R1 | ec.SECP384R1 | ec.SECP521R1]]] = {
    "ES256": ec.SECP256R1,
    "ES384": ec.SECP384R1,
    "ES512": ec.SECP521R1,
}

NOW_S = int(time.time())
CLAIMS: Final[dict[str, Any]] = {
    "sub": "alice",
    "iat": NOW_S - 60,
    "exp": NOW_S + 36_000,
    "aud": AUDIENCE,
    "iss": ISSUER,
    "scope": ["kafka"],
}


@cache
def private_key(kid: str) -> Any:  # noqa: ANN401 - of any kind
    """The key with this id."""
    if kid in CURVES:
        return ec.generate_private_key(CURVES[kid]())
    if kid == "ed":
        return ed25519.Ed25519PrivateKey.generate()
    if kid == "shared":
        return SECRET
    if kid == "short shared":
        return SECRET[:16]
    return rsa.generate_private_key(65537, 1024 if kid == "short" else 2048)


def jwk(by: str, **members: str) -> dict[str, Any]:
    """The public key in the form of a key set."""
    key = private_key(by)
    if isinstance(key, bytes):
        public = {"kty": "oct", "k": base64.urlsafe_b64encode(key).decode().rstrip("=")}
    elif isinstance(key, rsa.RSAPrivateKey):
        public = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    elif isinstance(key, ed25519.Ed25519PrivateKey):
        public = OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        public = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    public.pop("key_ops", None)
    return {**public, "kid": by, **members}


def key_set() -> list[dict[str, Any]]:
    nameless = jwk("nameless")
    del nameless["kid"]
    return [
        jwk("rsa", use="sig", alg="RS256"),
        jwk("any rsa"),
        jwk("for secrets", use="enc"),
        jwk("twin one", kid="twin"),
        jwk("twin two", kid="twin"),
        *(jwk(name) for name in CURVES),
        jwk("ed"),
        jwk("shared"),
        jwk("short shared"),
        jwk("short"),
        {"kty": "odd", "kid": "odd"},
        {"kid": "without a kind"},
        nameless,
    ]


def write_keys(path: Path) -> Path:
    path.write_text(json.dumps({"keys": key_set()}))
    return path


def signed(
    claims: object = CLAIMS,
    algorithm: str = "RS256",
    kid: str | None = "rsa",
    by: str | None = None,
    **header: object,
) -> str:
    """A token signed with the key `by`, by default the one with the id `kid`."""
    key = private_key(by or kid or "rsa")
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    headers = {"kid": kid, **header}
    with_kid = {name: value for name, value in headers.items() if value is not None}
    with warnings.catch_warnings(action="ignore", category=InsecureKeyLengthWarning):
        return jwt.PyJWS().encode(payload, key, algorithm, headers=with_kid)


def changed(**claims: object) -> dict[str, object]:
    return {**CLAIMS, **claims}


def without(*names: str) -> dict[str, object]:
    return {name: value for name, value in CLAIMS.items() if name not in names}


def text_of(**claims: str) -> bytes:
    """Claims with raw values that a JSON encoder would not write."""
    rest = json.dumps(without(*claims))[:-1]
    return (rest + "".join(f', "{name}": {text}' for name, text in claims.items()) + "}").encode()


def tampered() -> str:
    header, _, signature = signed().split(".")
    return f"{header}.{part(changed(sub='admin'))}.{signature}"


def public_as_secret() -> str:
    """An attack: HMAC with the public key as its secret."""
    header, claims = part({"alg": "HS256", "kid": "rsa"}), part(CLAIMS)
    secret = json.dumps(jwk("rsa")).encode()
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(
        f"{header}.{claims}".encode(), secret
    )
    return f"{header}.{claims}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


MAKE: dict[str, Callable[[], str]] = {
    "right": signed,
    "RS512": lambda: signed(algorithm="RS512", kid="any rsa"),
    "PS256": lambda: signed(algorithm="PS256", kid="any rsa"),
    "ES256": lambda: signed(algorithm="ES256", kid="ES256"),
    "ES384": lambda: signed(algorithm="ES384", kid="ES384"),
    "ES512": lambda: signed(algorithm="ES512", kid="ES512"),
    "EdDSA": lambda: signed(algorithm="EdDSA", kid="ed"),
    "HS256": lambda: signed(algorithm="HS256", kid="shared"),
    "RS512 by a key of RS256": lambda: signed(algorithm="RS512"),
    "ES256 without a name": lambda: signed(algorithm="ES256", kid=None, by="ES256"),
    "ES384 without a name": lambda: signed(algorithm="ES384", kid=None, by="ES384"),
    "without a name": lambda: signed(kid=None),
    "without a name, by the second": lambda: signed(kid=None, by="any rsa"),
    "by a key without a name": lambda: signed(kid="nameless"),
    "by another key": lambda: signed(by="any rsa"),
    "by a key that is not in the set": lambda: signed(kid="unknown"),
    "by the first of twins": lambda: signed(kid="twin", by="twin one"),
    "by the second of twins": lambda: signed(kid="twin", by="twin two"),
    "by a key for secrets": lambda: signed(kid="for secrets"),
    "tampered with": tampered,
    "the public key as a secret": public_as_secret,
    "signature of nothing": lambda: signed().rpartition(".")[0] + ".",
    "unsecured": lambda: f"{part({'alg': 'none'})}.{part(CLAIMS)}.",
    "unsecured, with a signature": lambda: f"{part({'alg': 'none'})}.{part(CLAIMS)}.abc",
    "no algorithm": lambda: f"{part({'kid': 'rsa'})}.{part(CLAIMS)}.abc",
    "an unknown algorithm": lambda: f"{part({'alg': 'XX1', 'kid': 'rsa'})}.{part(CLAIMS)}.abc",
    "two parts": lambda: signed().rpartition(".")[0],
    "four parts": lambda: signed() + ".abc",
    "no JSON": lambda: signed(b"hello"),
    "a list": lambda: signed([1]),
    "text": lambda: "hello",
    "critical": lambda: signed(crit=["odd"], odd=1),
    "a claim twice": lambda: signed(json.dumps(CLAIMS)[:-1].encode() + b',"sub":"bob"}'),
    "expired": lambda: signed(changed(exp=NOW_S - 3_600)),
    "expired a moment ago": lambda: signed(changed(exp=int(time.time()) - 5)),
    "without end": lambda: signed(without("exp")),
    "an end that is text": lambda: signed(changed(exp="soon")),
    "an end that is null": lambda: signed(changed(exp=None)),
    "an end in fractions": lambda: signed(changed(exp=NOW_S + 36_000.9)),
    "an end in exponents": lambda: signed(text_of(exp="1.9e9")),
    "an end beyond all": lambda: signed(text_of(exp="1e300")),
    "an end beyond milliseconds": lambda: signed(changed(exp=2**62)),
    "an end beyond 64 bits": lambda: signed(text_of(exp="9" * 30)),
    "an end below zero": lambda: signed(changed(exp=-1)),
    "without a beginning": lambda: signed(without("iat")),
    "issued in the future": lambda: signed(changed(iat=NOW_S + 3_600)),
    "issued when it had ended": lambda: signed(changed(iat=NOW_S + 36_001)),
    "issued when it ends": lambda: signed(changed(iat=NOW_S + 36_000)),
    "issued before time began": lambda: signed(changed(iat=-1)),
    "issued at text": lambda: signed(changed(iat="now")),
    "good": lambda: signed(changed(nbf=NOW_S - 60)),
    "not good yet": lambda: signed(changed(nbf=NOW_S + 3_600)),
    "not good for a moment": lambda: signed(changed(nbf=int(time.time()) + 5)),
    "good from text on": lambda: signed(changed(nbf="now")),
    "good when it has ended": lambda: signed(changed(nbf=NOW_S + 36_001)),
    "no audience": lambda: signed(without("aud")),
    "another audience": lambda: signed(changed(aud="others")),
    "several audiences": lambda: signed(changed(aud=["others", AUDIENCE])),
    "audiences of others": lambda: signed(changed(aud=["others"])),
    "audience of nobody": lambda: signed(changed(aud=[])),
    "an audience that is a number": lambda: signed(changed(aud=7)),
    "audiences that are numbers": lambda: signed(changed(aud=[7, AUDIENCE])),
    "no issuer": lambda: signed(without("iss")),
    "another issuer": lambda: signed(changed(iss="https://other.example")),
    "an issuer that is a number": lambda: signed(changed(iss=7)),
    "no name": lambda: signed(without("sub")),
    "a blank name": lambda: signed(changed(sub=" ")),
    "a name in blanks": lambda: signed(changed(sub=" alice ")),
    "a subject that is a number": lambda: signed(changed(sub=7)),
    "a subject that is null": lambda: signed(changed(sub=None)),
    "an identity": lambda: signed(changed(jti="1")),
    "an identity that is a number": lambda: signed(changed(jti=1)),
    "no scope": lambda: signed(without("scope")),
    "a scope that is text": lambda: signed(changed(scope="a b")),
    "a scope that is blank": lambda: signed(changed(scope=" ")),
    "a scope that is nothing": lambda: signed(changed(scope="")),
    "a scope that is null": lambda: signed(changed(scope=None)),
    "a scope that is a number": lambda: signed(changed(scope=7)),
    "a scope that is an object": lambda: signed(changed(scope={"a": 1})),
    "scopes": lambda: signed(changed(scope=["a", "b"])),
    "no scopes": lambda: signed(changed(scope=[])),
    "a blank among scopes": lambda: signed(changed(scope=["a", " "])),
    "a scope twice": lambda: signed(changed(scope=["a", "a"])),
    "nearly a scope twice": lambda: signed(changed(scope=["a", "a "])),
    "by a short key": lambda: signed(kid="short"),
    "by a short secret": lambda: signed(algorithm="HS256", kid="short shared"),
    "typed": lambda: signed(typ="at+jwt"),
}


def signed_dialogue(make: Callable[[], str], *, raw: bool = False) -> Callable[[Talk], None]:
    return lambda talk: oauth_dialogue(bearer(make()), raw=raw)(talk)


for _name, _make in MAKE.items():
    add(f"signed: {_name}", signed_dialogue(_make), STRICT)
for _name in ("right", "expired"):
    add(f"signed, raw: {_name}", signed_dialogue(MAKE[_name], raw=True), STRICT)

OTHERS: dict[str, Callable[[], str]] = {
    "no audience": lambda: signed({**without("aud"), "name": "alice"}),
    "an audience": lambda: signed(changed(name="alice")),
    "an audience that is a number": lambda: signed(changed(name="alice", aud=7)),
    "an issuer that is a number": lambda: signed(changed(name="alice", iss=7)),
    "no issuer": lambda: signed({**without("iss"), "name": "alice"}),
    "another issuer": lambda: signed(
        {**without("aud"), "iss": "https://other.example", "name": "alice"}
    ),
    "a name where it was": lambda: signed(without("aud")),
    "roles": lambda: signed({**without("aud"), "name": "alice", "roles": ["a", "a"]}),
    "expired a moment ago": lambda: signed(
        {**without("aud"), "name": "alice", "exp": int(time.time()) - 5}
    ),
}
for _name, _make in OTHERS.items():
    add(f"signed, of any issuer: {_name}", signed_dialogue(_make), LENIENT)


def _own_id() -> bytes:
    return bearer(signed(changed(sub=" alice "))).replace(b"n,,", b"n,a=alice,")


add("signed: own authorization id", lambda talk: oauth_dialogue(_own_id())(talk), STRICT)
