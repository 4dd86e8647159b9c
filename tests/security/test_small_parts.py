"""Small parts of authentication and its settings, tested without a broker."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from email.message import Message
from http.client import BadStatusLine
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from kwire.cluster.decisions.config_changes import ConfigChange
from kwire.cluster.metadata.acls import AclOperation
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import read_share_group_state as reading
from kwire.requests.guards.share_states import brokers_only
from kwire.security.acls import name_of
from kwire.security.checkup.secrets import has_secrets
from kwire.security.listener_tls import other_names
from kwire.security.oauth.fetching import (
    SIZE_BYTES_MAX,
    TIMEOUT_S,
    CannotFetch,
    ask,
    fetch,
    path_of,
)
from kwire.security.operations import NOT_ASKED, tell_group_operations
from kwire.security.sasl.client import client_exchange
from kwire.security.sasl.exchange import SaslError
from kwire.security.sasl.oauthbearer import UnsecuredRules
from kwire.security.store_changes import refuse_bad_stores, to_be_looked_at
from kwire.security.tls.making import DevelopmentAuthority, certificates_in, properties_text
from kwire.security.tls.names import subject_name
from kwire.security.tls.options import StoreSource, read_options
from kwire.security.tls.stores import read_identities
from kwire.settings import BrokerConfig, ConfigError, ConfigResourceType
from kwire.settings.live import LiveSettings
from tests.security.guards.standing import IDS, Handler, access

# -- a client's login


def test_client_sends_the_name_and_password_of_its_login_module() -> None:
    options = {"username": "alice", "password": "secret"}
    plain = client_exchange("PLAIN", options, lambda: "nonce")
    assert plain.first() == b"\0alice\0secret"
    scram = client_exchange("SCRAM-SHA-256", options, lambda: "nonce")
    assert scram.first() == b"n,,n=alice,r=nonce"
    token = client_exchange("SCRAM-SHA-512", {**options, "tokenauth": "TRUE"}, lambda: "nonce")
    assert token.first() == b"n,,n=alice,r=nonce,tokenauth=true"
    plainly = client_exchange("SCRAM-SHA-512", {**options, "tokenauth": "no"}, lambda: "nonce")
    assert b"tokenauth" not in plainly.first()


@pytest.mark.parametrize(
    ("mechanism", "options", "said"),
    [
        ("GSSAPI", {}, "it must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ("PLAIN", {}, "the login module of PLAIN has no username and no password"),
        ("PLAIN", {"username": "a", "password": ""}, "of PLAIN has no password"),
        ("SCRAM-SHA-256", {"password": "a"}, "of SCRAM-SHA-256 has no username"),
    ],
)
def test_incomplete_login_module_is_refused(
    mechanism: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(SaslError, match=said):
        client_exchange(mechanism, options, lambda: "nonce")


def test_unsecured_token_rules_have_defaults() -> None:
    assert UnsecuredRules.of({}) == UnsecuredRules("sub", "scope", (), 0)
    blank = dict.fromkeys(
        (
            "unsecuredValidatorPrincipalClaimName",
            "unsecuredValidatorScopeClaimName",
            "unsecuredValidatorRequiredScope",
            "unsecuredValidatorAllowableClockSkewMs",
        ),
        " ",
    )
    assert UnsecuredRules.of(blank) == UnsecuredRules("sub", "scope", (), 0)


# -- what is fetched


def test_fetch_uses_the_given_tls_and_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[urllib.request.Request, Mapping[str, object]]] = []

    def urlopen(request: urllib.request.Request, **options: object) -> BytesIO:
        asked.append((request, options))
        return BytesIO(b"answer")

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    trust: Any = object()
    assert fetch("https://h/keys", trust) == b"answer"
    assert ask(urllib.request.Request("https://h/other")) == b"answer"
    (first, options), (_, others) = asked
    assert (first.full_url, dict(first.header_items())) == (
        "https://h/keys",
        {"Accept": "application/json"},
    )
    assert options == {"timeout": TIMEOUT_S, "context": trust}
    assert others == {"timeout": TIMEOUT_S, "context": None}


def test_file_url_is_read_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a b"
    path.write_bytes(b"keys")
    assert path_of(path.as_uri()) == path
    assert path_of("https://h/a") is None
    assert fetch(path.as_uri()) == b"keys"
    with pytest.raises(CannotFetch, match="No such file"):
        fetch((tmp_path / "none").as_uri())


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (OSError(104, "Connection reset by peer"), "Connection reset by peer"),
        (OSError("no number"), "no number"),
        (urllib.error.URLError("no host"), "no host"),
        (BadStatusLine("HTTX"), "HTTX"),
        (ValueError("unknown url type: 'x'"), "unknown url type: 'x'"),
        (
            urllib.error.HTTPError("https://h", 403, "Forbidden", Message(), None),
            "it answers 403 Forbidden",
        ),
    ],
)
def test_failed_request_says_why_without_its_url(
    monkeypatch: pytest.MonkeyPatch, problem: Exception, said: str
) -> None:
    def urlopen(request: urllib.request.Request, **options: object) -> BytesIO:
        raise problem

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    with pytest.raises(CannotFetch) as failure:
        fetch("https://user:secret@h/keys")
    assert str(failure.value) == said


@pytest.mark.parametrize("extra", [0, 1])
def test_answer_is_limited_in_size(monkeypatch: pytest.MonkeyPatch, extra: int) -> None:
    body = bytes(SIZE_BYTES_MAX + extra)
    monkeypatch.setattr(urllib.request, "urlopen", lambda request, **options: BytesIO(body))
    if not extra:
        assert fetch("https://h/keys") == body
    else:
        with pytest.raises(CannotFetch, match="it answers more than 524288 bytes"):
            fetch("https://h/keys")


# -- settings


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("ssl.key.password", True),
        ("listener.name.in.plain.sasl.jaas.config", True),
        ("ssl.keystore.key", True),
        ("delegation.token.secret.key", True),
        ("delegation.token.master.key", True),
        ("ssl.keystore.location", False),
        ("listeners", False),
    ],
)
def test_has_secrets_recognizes_settings_with_secrets(name: str, is_secret: bool) -> None:
    config = cast("BrokerConfig", SimpleNamespace(explicit={"broker.id": "1", name: "x"}))
    assert has_secrets(config) is is_secret


@pytest.mark.parametrize("name", ["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3", "SSLv3", "SSLv2Hello"])
def test_enabled_protocols_may_be_any_of_javas(name: str) -> None:
    assert read_options({"ssl.enabled.protocols": f"{name} ,"}).enabled_protocols == (name,)


@pytest.mark.parametrize("name", ["TLS", "SSL", "SSLv3", "SSLv2", "SSLv2Hello", "TLSv1.2"])
def test_ssl_protocol_may_be_any_of_javas(name: str) -> None:
    assert read_options({"ssl.protocol": name}).protocol == name


def test_properties_text_doubles_backslashes() -> None:
    text = properties_text({"a": r"C:\b\c", "d": "[e]"})
    assert text == "a=C:\\\\b\\\\c\nd=[e]\n"


def test_development_authority_creates_its_folder_and_parents(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    made = DevelopmentAuthority(folder)
    assert made.path.parent == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    assert DevelopmentAuthority(folder).path.read_bytes() == made.path.read_bytes()


@pytest.mark.parametrize("p12", [False, True])
def test_issued_certificate_has_the_settings_that_use_it(tmp_path: Path, p12: bool) -> None:
    authority = DevelopmentAuthority(tmp_path)
    issued = authority.broker("b", ["localhost", "::1"], p12=p12)
    keystore = tmp_path / ("b.p12" if p12 else "b.pem")
    settings = dict(issued.settings)
    password = settings.pop("ssl.keystore.password", None)
    assert (password is not None) == p12
    assert settings == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.keystore.type": "PKCS12" if p12 else "PEM",
        "ssl.keystore.location": str(keystore),
    }
    assert (tmp_path / "b.properties").read_text() == properties_text(issued.settings)
    for secret in (keystore, tmp_path / "b.properties", tmp_path / "ca-key.pem"):
        assert secret.stat().st_mode & 0o777 == 0o600
    (identity,) = read_identities(
        StoreSource("PKCS12" if p12 else "PEM", str(keystore), password), None
    )
    own, by = identity.chain
    assert by == certificates_in(authority.path)[0]
    assert other_names(own) == {"localhost", "::1"}
    own.verify_directly_issued_by(by)


def test_client_certificate_is_for_clients_alone_and_has_no_host(tmp_path: Path) -> None:
    authority = DevelopmentAuthority(tmp_path)
    for p12 in (False, True):
        issued = authority.client("alice", 7, p12=p12)
        assert issued.keystore == tmp_path / ("alice.p12" if p12 else "alice.pem")
    authority.client("alice", 7)
    own, by = certificates_in(tmp_path / "alice.pem")
    assert subject_name(own.public_bytes(Encoding.DER)) == "CN=alice"
    assert other_names(own) == set()
    assert (own.not_valid_after_utc - own.not_valid_before_utc).days == 7
    usages = own.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    own.verify_directly_issued_by(by)


def test_codes_of_kafka_have_names_and_others_are_unknown() -> None:
    assert name_of(AclOperation, AclOperation.READ) == "READ"
    assert name_of(AclOperation, 99) == "UNKNOWN"


def test_operations_are_told_of_groups_without_an_error_to_clients_that_ask() -> None:
    for asked, bits in ((True, 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11), (False, NOT_ASKED)):
        groups = [
            SimpleNamespace(error_code=error, authorized_operations=NOT_ASKED)
            for error in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE)
        ]
        tell_group_operations(groups, asked=asked)
        assert [each.authorized_operations for each in groups] == [bits, NOT_ASKED, bits]


# -- certificates that are set while the broker runs


LOCATION = "listener.name.in.ssl.keystore.location"


class Broker:
    """Broker 1; `looked_at` has the listeners of each check of its certificates."""

    def __init__(self, problem: str = "") -> None:
        self.image = ClusterImage("").with_configs(ConfigResourceType.BROKER, "1", {"a": "b"})
        config = BrokerConfig({"node.id": "1", "listeners": "PLAINTEXT://h:1"})
        self.settings = LiveSettings(config)
        self.looked_at: list[list[str]] = []
        self._problem = problem

    async def check_stores(self, config: BrokerConfig, listeners: Sequence[str]) -> None:
        self.looked_at.append(list(listeners))
        if self._problem:
            raise ConfigError(self._problem)


def change(resource_name: str = "1", kind: int = 4, **settings: str) -> ConfigChange:
    """A change that sets these configs; names have underscores for dots."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return ConfigChange(kind, resource_name, lambda before: {**before, **named})


@pytest.mark.parametrize(
    ("asked", "listeners"),
    [
        (change(listener_name_in_ssl_keystore_location="/a"), ["in"]),
        (
            change(
                listener_name_out_ssl_key_password="x", listener_name_in_ssl_keystore_location="/a"
            ),
            ["in", "out"],
        ),
        (change(log_cleaner_threads="2"), None),
        (change(ssl_keystore_location="/a"), None),
        (change("2", listener_name_in_ssl_keystore_location="/a"), None),
        (change("1", 2, listener_name_in_ssl_keystore_location="/a"), None),
    ],
)
async def test_store_change_of_this_broker_is_checked(
    asked: ConfigChange, listeners: list[str] | None
) -> None:
    broker = Broker()
    assert to_be_looked_at(broker.settings, broker.image, [asked]) is (listeners is not None)
    await refuse_bad_stores(broker.settings, broker.image, [asked], broker.check_stores)
    assert broker.looked_at == ([] if listeners is None else [listeners])
    assert asked.refusal is None


async def test_unusable_stores_are_refused_one_by_one() -> None:
    broker = Broker("no key")
    bad = change(listener_name_in_ssl_keystore_location="/a")
    refused = change(listener_name_in_ssl_keystore_location="/a")
    other = change(log_cleaner_threads="2")
    refused.refusal = before = Refusal(ErrorCode.INVALID_CONFIG, "before")
    await refuse_bad_stores(
        broker.settings, broker.image, [other, refused, bad], broker.check_stores
    )
    assert bad.refusal is not None
    assert bad.refusal.args == (
        ErrorCode.INVALID_REQUEST,
        "Validation of dynamic config update of SSLFactory failed: no key",
    )
    assert (other.refusal, refused.refusal) == (None, before)
    assert len(broker.looked_at) == 1


# -- the share coordinator's partitions


def test_guard_of_share_states_refuses_each_partition() -> None:
    guard = brokers_only(
        reading.ReadShareGroupStateResponse, reading.ReadStateResult, reading.PartitionResult
    )
    data = [reading.PartitionData(at) for at in (0, 3)]
    request = reading.ReadShareGroupStateRequest("g", [reading.ReadStateData(IDS["t"], data)])
    denied, said = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
    told = [reading.PartitionResult(at, denied, said) for at in (0, 3)]
    expected = reading.ReadShareGroupStateResponse([reading.ReadStateResult(IDS["t"], told)])
    assert guard(access(), request, Handler()) == expected
