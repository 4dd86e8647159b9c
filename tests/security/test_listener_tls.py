"""Which certificates and stores may replace those of a listener, and the options of listeners."""

from __future__ import annotations

from pathlib import Path
from ssl import SSLObject
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from kwire.requests.context import ANONYMOUS
from kwire.security.listener_tls import ListenerTls, UnknownPrincipal, other_names, tls_options
from kwire.settings import BrokerConfig, ConfigError
from tests.security.tls.authority import Authority, Certificate, name_of

AUTHORITY = Authority()
OWN = AUTHORITY.issue("broker", ("a.example", "b.example"))
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.pem}
TLS_1_3 = "TLS_AES_256_GCM_SHA384"


def keystore(own: Certificate) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": own.key_pem(),
        "ssl.keystore.certificate.chain": own.chain_pem,
    }


def config(settings: dict[str, str]) -> BrokerConfig:
    return BrokerConfig({"node.id": "1", "listeners": "SSL://h:1", **settings})


def listener(*settings: dict[str, str], protocol: str = "SSL") -> ListenerTls:
    together = {name: value for each in settings for name, value in each.items()}
    return ListenerTls(config(together), "SSL", protocol)


def refusal(new: ListenerTls, old: ListenerTls) -> str | None:
    """Why `new` may not replace `old`, or None if it may."""
    try:
        new.check_replaces(old)
    except ConfigError as problem:
        return str(problem)
    return None


@pytest.mark.parametrize(
    ("new", "old", "why"),
    [
        (keystore(OWN), {}, "Cannot add SSL keystore to an existing listener for which no"),
        (
            {**keystore(OWN), **TRUST},
            keystore(OWN),
            "Cannot add SSL truststore to an existing listener for which no truststore was",
        ),
        ({}, keystore(OWN), "Cannot remove the SSL keystore from an existing listener"),
        (keystore(OWN), {**keystore(OWN), **TRUST}, None),
        (keystore(OWN), keystore(OWN), None),
        ({}, {}, None),
    ],
)
def test_stores_are_neither_added_nor_removed_except_a_truststore_that_goes(
    new: dict[str, str], old: dict[str, str], why: str | None
) -> None:
    told = refusal(listener(new), listener(old))
    assert told == why or (told is not None and why is not None and told.startswith(why))


def test_new_certificate_keeps_name_and_alternative_names() -> None:
    """It may have more alternative names, but no fewer."""
    old = listener(keystore(OWN))
    renewed = listener(keystore(AUTHORITY.issue("broker", ("b.example", "a.example"))))
    more = listener(keystore(AUTHORITY.issue("broker", ("a.example", "b.example", "c.example"))))
    assert [refusal(each, old) for each in (renewed, more)] == [None, None]
    fewer = listener(keystore(AUTHORITY.issue("broker", ("a.example",))))
    assert refusal(fewer, old) == (
        "Keystore SubjectAltNames do not match: existing={SAN=[127.0.0.1, a.example, b.example]}, "
        "new={SAN=[127.0.0.1, a.example]}"
    )
    other = listener(keystore(AUTHORITY.issue("other", ("a.example", "b.example"))))
    assert refusal(other, old) == (
        "Keystore DistinguishedName does not match: existing={DN=CN=broker}, new={DN=CN=other}"
    )


@pytest.mark.parametrize(
    ("setting", "name", "hosts"),
    [
        ("ssl.allow.dn.changes", "other", ("a.example", "b.example")),
        ("ssl.allow.san.changes", "broker", ("a.example",)),
    ],
)
def test_settings_allow_other_names(setting: str, name: str, hosts: tuple[str, ...]) -> None:
    old, new = keystore(OWN), keystore(AUTHORITY.issue(name, hosts))
    assert refusal(listener(new), listener(old)) is not None
    assert refusal(listener(new, {setting: "true"}), listener(old)) is None


def test_number_of_keys_stays_the_same() -> None:
    old, new = listener(keystore(OWN)), listener(keystore(OWN))
    new._certificates = new._certificates * 2
    assert refusal(new, old) == (
        "Keystore entries do not match, existing store contains 1 entries, new store contains 2 "
        "entries"
    )


def test_listener_differs_after_a_change_of_its_options_or_certificates() -> None:
    old = listener(keystore(OWN))
    assert not listener(keystore(OWN)).differs_from(old)
    assert listener(keystore(AUTHORITY.issue("broker"))).differs_from(old)
    assert listener(keystore(OWN), {"ssl.client.auth": "required"}, TRUST).differs_from(old)


def test_changed_file_makes_a_listener_differ(tmp_path: Path) -> None:
    path = tmp_path / "own.pem"
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(OWN.write_pem(path))}
    old = listener(settings)
    AUTHORITY.issue("broker").write_pem(path)
    new = listener(settings)
    assert new.options == old.options
    assert new.differs_from(old)


def test_certificate_without_alternative_names_has_none() -> None:
    assert other_names(OWN.certificate) == {"a.example", "b.example", "127.0.0.1"}
    assert other_names(AUTHORITY.certificate) == set()


# -- options


@pytest.mark.parametrize(
    ("protocol", "settings", "client_auth"),
    [
        ("SSL", {"ssl.client.auth": "required"}, "required"),
        ("SASL_SSL", {"ssl.client.auth": "required"}, "none"),
        (
            "SASL_SSL",
            {"ssl.client.auth": "none", "listener.name.ssl.ssl.client.auth": "required"},
            "required",
        ),
        ("SSL", {}, "none"),
    ],
)
def test_sasl_listener_requests_certificates_only_by_a_setting_of_its_own(
    protocol: str, settings: dict[str, str], client_auth: str
) -> None:
    assert tls_options(config(settings), "SSL", protocol).client_auth == client_auth


@pytest.mark.parametrize(
    "settings", [{"ssl.protocol": "TLSv9"}, {"ssl.enabled.protocols": "TLSv1.1"}]
)
def test_unusable_options_name_the_listener(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"listener SSL: .*TLSv"):
        listener(settings)


def test_invalid_principal_rules_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules: Invalid rule"):
        listener({"ssl.principal.mapping.rules": "default"})


# -- principals


class Handshake:
    """Stands in for a TLS connection after its handshake."""

    def __init__(self, certificate: Certificate | None, cipher: str = TLS_1_3) -> None:
        self._certificate = certificate
        self._cipher = cipher

    def cipher(self) -> tuple[str, str, int]:
        return self._cipher, "TLSv1.3", 256

    def getpeercert(self, *, binary_form: bool) -> bytes | None:
        assert binary_form
        if self._certificate is None:
            return None
        return self._certificate.certificate.public_bytes(Encoding.DER)


def principal(tls: ListenerTls, *handshake: Any) -> str:  # noqa: ANN401 - of Handshake
    return tls.principal_of(cast(SSLObject, Handshake(*handshake)))


def test_principal_is_the_mapped_name_of_the_client_certificate() -> None:
    client = AUTHORITY.issue(name_of("alice"))
    assert principal(listener(), client) == "User:CN=alice"
    assert principal(listener(), None) == ANONYMOUS
    short = listener({"ssl.principal.mapping.rules": "RULE:^CN=(a.*)$/$1/U"})
    assert principal(short, client) == "User:ALICE"
    with pytest.raises(UnknownPrincipal, match="No rules apply to CN=bob"):
        principal(short, AUTHORITY.issue("bob"))


def test_client_with_a_cipher_suite_that_is_not_enabled_is_refused() -> None:
    """Python before 3.15 cannot keep OpenSSL from agreeing on another suite of TLS 1.3."""
    tls = listener({"ssl.cipher.suites": TLS_1_3})
    assert principal(tls, None, TLS_1_3) == ANONYMOUS
    with pytest.raises(UnknownPrincipal, match=r"ssl\.cipher\.suites has no TLS_CHACHA20_POLY1305"):
        principal(tls, None, "TLS_CHACHA20_POLY1305_SHA256")
