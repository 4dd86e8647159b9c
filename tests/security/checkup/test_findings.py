"""What a check-up finds in settings, and that it finds nothing where all is well."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from kwire.security.authority import STANDARD
from kwire.security.checkup import Grade, findings
from kwire.security.tls.making import DevelopmentAuthority
from kwire.settings import BrokerConfig

NOW = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=6)
"""After any test of this run has made its certificates."""
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
OLD_SECRET = "delegation.token.master.key"
LONG = "x" * 40
RIGHTS = {"authorizer.class.name": STANDARD, "super.users": "User:admin"}
OPEN, BROKEN, WEAK = Grade.OPEN, Grade.BROKEN, Grade.WEAK


def sound(folder: Path, host: str = "127.0.0.1", days: int = 365) -> dict[str, str]:
    """Settings with which nothing is wrong."""
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


def test_what_is_sound(tmp_path: Path) -> None:
    assert found(sound(tmp_path, "0.0.0.0")) == []


def test_nobody_is_asked_for_anything() -> None:
    says = {says: grade for grade, says in found({"listeners": "PLAINTEXT://:9092"})}
    assert set(says.values()) == {OPEN}
    assert any("no login" in each for each in says)
    assert any("no TLS" in each for each in says)
    assert any("may do everything" in each for each in says)
    local = found({"listeners": "PLAINTEXT://localhost:9092"})
    assert [grade for grade, _ in local] == [WEAK, OPEN]


@pytest.mark.parametrize(
    ("changed", "grade", "says"),
    [
        ({"connections.max.reauth.ms": "0"}, WEAK, "stays in"),
        ({"allow.everyone.if.no.acl.found": "TRUE"}, OPEN, "everybody's to read and write"),
        ({"super.users": "User:ANONYMOUS"}, OPEN, "does not log in may do everything"),
        ({"super.users": ""}, BROKEN, "nobody may add the first ACL"),
        ({"super.users": "Group:admins"}, BROKEN, "this is nobody"),
        ({"super.users": "User:*"}, BROKEN, "only in ACLs"),
        ({"super.users": "admin"}, BROKEN, "principalType:principalName"),
        ({"authorizer.class.name": "org.example.Own"}, BROKEN, "cannot be run here"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, BROKEN, "which is not served"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, WEAK, "TLSv1.1"),
        ({"ssl.keystore.location": "/no/such/store"}, BROKEN, "/no/such/store"),
        ({"delegation.token.secret.key": "short"}, WEAK, "it has 5 characters"),
        ({OLD_SECRET: LONG}, WEAK, "it is called delegation.token.secret.key"),
        (
            {"advertised.listeners": "SASL_SSL://other.example:9093"},
            BROKEN,
            "clients are told other.example",
        ),
        (
            {"listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE};",
             "sasl.enabled.mechanisms": "OAUTHBEARER"},
            OPEN,
            "everybody may be anybody",
        ),
        (
            {"listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN_MODULE} user_bob="{LONG}";',
             "sasl.enabled.mechanisms": "PLAIN"},
            BROKEN,
            "User:admin: nobody who may come in is called so",
        ),
        (
            {"listener.name.sasl_ssl.plain.sasl.jaas.config":
             f'{PLAIN_MODULE} user_admin="admin-of-this-broker";',
             "sasl.enabled.mechanisms": "PLAIN"},
            WEAK,
            "hold the user's name: admin",
        ),
    ],
)  # fmt: skip
def test_one_thing_is_wrong(
    tmp_path: Path, changed: dict[str, str], grade: Grade, says: str
) -> None:
    ((its_grade, its_words),) = found({**sound(tmp_path), **changed})
    assert its_grade is grade
    assert says in its_words


def test_passwords_in_clear_text_and_none_is_told() -> None:
    """A listener of SASL without TLS."""
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
    ("days_on", "says"), [(10, None), (70, "ends in"), (95, "has ended"), (-1, "begins to hold")]
)
def test_certificates_end(tmp_path: Path, days_on: int, says: str | None) -> None:
    now = NOW + datetime.timedelta(days=days_on)
    told = found(sound(tmp_path, days=90), now)
    assert [grade for grade, _ in told] == ([] if says is None else [BROKEN])
    assert says is None or says in told[0][1]


def test_who_shows_no_certificate(tmp_path: Path) -> None:
    settings = {
        **sound(tmp_path),
        "listeners": "SSL://:9093",
        "advertised.listeners": "SSL://broker.example:9093",
        "inter.broker.listener.name": "SSL",
    }
    for asked, number in (("none", 1), ("requested", 1), ("required", 0)):
        told = found({**settings, "ssl.client.auth": asked})
        assert [grade for grade, _ in told if grade is OPEN] == [OPEN] * number, asked


def test_a_key_that_others_may_read(tmp_path: Path) -> None:
    settings = sound(tmp_path)
    (tmp_path / "broker.pem").chmod(0o644)
    ((grade, says),) = found(settings)
    assert (grade, "broker.pem" in says) == (OPEN, True)


def test_zookeeper_that_everybody_writes_to(tmp_path: Path) -> None:
    given = {"listeners": "PLAINTEXT://localhost:9092", "zookeeper.connect": "zk:2181"}
    assert any("ZooKeeper" in says for _, says in found(given))
    assert not any("ZooKeeper" in says for _, says in found({**given, "zookeeper.set.acl": "true"}))
