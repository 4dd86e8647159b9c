"""The findings of the security check, and that secure settings have none."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from kwire.security.authority import STANDARD
from kwire.security.checkup import Grade, findings
from kwire.security.tls.making import DevelopmentAuthority, certificates_in
from kwire.settings import BrokerConfig

NOW = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=6)
"""Later than the start of the validity of the tests' certificates."""
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
OLD_SECRET = "delegation.token.master.key"
LONG = "x" * 40
RIGHTS = {"authorizer.class.name": STANDARD, "super.users": "User:admin"}
OPEN, BROKEN, WEAK = Grade.OPEN, Grade.BROKEN, Grade.WEAK


def sound(folder: Path, host: str = "127.0.0.1", days: int = 365) -> dict[str, str]:
    """Secure settings."""
    issued = DevelopmentAuthority(folder).broker("broker", ["broker.example", host], days)
    return {
        "listeners": f"SASL_SSL://{host}:9093",
        "advertised.listeners": "SASL_SSL://broker.example:9093",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "connections.max.reauth.ms": "3600000",
        **RIGHTS,
        **issued.settings,
    }


def found(settings: dict[str, str], now: datetime.datetime = NOW) -> list[tuple[Grade, str]]:
    return [(each.grade, each.says) for each in findings(BrokerConfig(settings), now)]


def test_checkup_of_secure_settings_finds_nothing(tmp_path: Path) -> None:
    assert found(sound(tmp_path, "0.0.0.0")) == []


def test_checkup_reports_an_unsecured_broker() -> None:
    says = {says: grade for grade, says in found({"listeners": "PLAINTEXT://:9092"})}
    assert set(says.values()) == {OPEN}
    assert any("no authentication" in sentence for sentence in says)
    assert any("no TLS" in sentence for sentence in says)
    assert any("may do everything" in sentence for sentence in says)
    local = found({"listeners": "PLAINTEXT://localhost:9092"})
    assert [grade for grade, _ in local] == [WEAK, OPEN]


@pytest.mark.parametrize(
    ("changed", "grade", "says"),
    [
        ({"connections.max.reauth.ms": "0"}, WEAK, "clients stay connected"),
        ({"allow.everyone.if.no.acl.found": "TRUE"}, OPEN, "every client may read and write"),
        ({"super.users": "User:ANONYMOUS"}, OPEN, "without authentication may do everything"),
        ({"super.users": ""}, BROKEN, "no client may add the first ACL"),
        ({"super.users": "Group:admins"}, BROKEN, "Group:admins matches no client"),
        ({"super.users": "User:*"}, BROKEN, "only in ACLs"),
        ({"super.users": "admin"}, BROKEN, "principalType:principalName"),
        ({"authorizer.class.name": "org.example.Own"}, BROKEN, "cannot be run here"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, BROKEN, "which is not served"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, WEAK, "TLSv1.1"),
        ({"ssl.keystore.location": "/no/such/store"}, BROKEN, "/no/such/store"),
        ({"delegation.token.secret.key": "short"}, WEAK, "it has only 5 characters"),
        ({OLD_SECRET: LONG}, WEAK, "use delegation.token.secret.key"),
        (
            {"advertised.listeners": "SASL_SSL://other.example:9093"},
            BROKEN,
            "it advertises other.example",
        ),
        (
            {"listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE};",
             "sasl.enabled.mechanisms": "OAUTHBEARER"},
            OPEN,
            "any client can claim any name",
        ),
        (
            {"listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN_MODULE} user_bob="{LONG}";',
             "sasl.enabled.mechanisms": "PLAIN"},
            BROKEN,
            "User:admin matches no client",
        ),
        (
            {"listener.name.sasl_ssl.plain.sasl.jaas.config":
             f'{PLAIN_MODULE} user_admin="admin-of-this-broker";',
             "sasl.enabled.mechanisms": "PLAIN"},
            WEAK,
            "contain the user's name: admin",
        ),
    ],
)  # fmt: skip
def test_checkup_reports_a_single_problem(
    tmp_path: Path, changed: dict[str, str], grade: Grade, says: str
) -> None:
    ((its_grade, its_words),) = found({**sound(tmp_path), **changed})
    assert its_grade is grade
    assert says in its_words


def test_checkup_reports_clear_text_passwords_without_showing_them() -> None:
    """The listener uses SASL without TLS."""
    given = {
        "listeners": "SASL_PLAINTEXT://:9092",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "connections.max.reauth.ms": "1000",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN_MODULE} user_admin="pw1";',
        **RIGHTS,
    }
    told = found(given)
    assert [grade for grade, _ in told] == [OPEN, WEAK, OPEN]
    assert "without TLS" in told[0][1]
    assert "pw1" not in str(told)


@pytest.mark.parametrize(
    ("days_on", "says"),
    [(10, None), (70, "expires in"), (95, "expired on"), (-1, "not valid before")],
)
def test_checkup_reports_certificates_by_their_dates(
    tmp_path: Path, days_on: int, says: str | None
) -> None:
    now = NOW + datetime.timedelta(days=days_on)
    told = found(sound(tmp_path, days=90), now)
    assert [grade for grade, _ in told] == ([] if says is None else [BROKEN])
    assert says is None or says in told[0][1]


def test_checkup_reports_listeners_without_required_certificates(tmp_path: Path) -> None:
    settings = {
        **sound(tmp_path),
        "listeners": "SSL://:9093",
        "advertised.listeners": "SSL://broker.example:9093",
        "inter.broker.listener.name": "SSL",
    }
    for asked, number in (("none", 1), ("requested", 1), ("required", 0)):
        told = found({**settings, "ssl.client.auth": asked})
        assert [grade for grade, _ in told if grade is OPEN] == [OPEN] * number, asked


def test_checkup_reports_a_key_file_that_others_may_read(tmp_path: Path) -> None:
    settings = sound(tmp_path)
    (tmp_path / "broker.pem").chmod(0o644)
    ((grade, says),) = found(settings)
    assert (grade, "broker.pem" in says) == (OPEN, True)


def test_checkup_reports_zookeeper_without_acls(tmp_path: Path) -> None:
    given = {"listeners": "PLAINTEXT://localhost:9092", "zookeeper.connect": "zk:2181"}
    assert any("ZooKeeper" in says for _, says in found(given))
    assert not any("ZooKeeper" in says for _, says in found({**given, "zookeeper.set.acl": "true"}))


@pytest.mark.parametrize(("client_auth", "says"), [("none", "User:admin"), ("required", None)])
def test_checkup_knows_all_users_unless_certificates_name_some(
    tmp_path: Path, client_auth: str, says: str | None
) -> None:
    """A super user that no listener knows may be one of the names in client certificates."""
    settings = {
        **sound(tmp_path),
        "listeners": "SASL_SSL://127.0.0.1:9093,SSL://127.0.0.1:9094",
        "advertised.listeners": "SASL_SSL://broker.example:9093,SSL://broker.example:9094",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN_MODULE} user_bob="{LONG}";',
        "ssl.client.auth": client_auth,
    }
    told = [words for grade, words in found(settings) if grade is BROKEN]
    assert [f"{says} matches no client" in words for words in told] == (
        [] if says is None else [True]
    )


@pytest.mark.parametrize(("microseconds", "says"), [(0, "expires in"), (1, "expired on")])
def test_certificate_is_valid_to_the_end_of_its_last_moment(
    tmp_path: Path, microseconds: int, says: str
) -> None:
    settings = sound(tmp_path)
    own = certificates_in(tmp_path / "broker.pem")[0]
    later = datetime.timedelta(microseconds=microseconds)
    [(grade, words)] = found(settings, own.not_valid_after_utc + later)
    assert (grade, says in words) == (BROKEN, True)
