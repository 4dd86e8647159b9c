"""The variables of the image bitnami/kafka: logins and certificates.

`KAFKA_CFG_*` are settings; kwire.cli.image.dialects says what the others become.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kwire.cli.image.reading import ImageUser, VariableReading, protocols_of, read_file
from kwire.settings.error import ConfigError

MECHANISMS_DEFAULT: Final = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
CERTIFICATES: Final = (
    Path("/opt/bitnami/kafka/config/certs"),
    Path("/bitnami/kafka/config/certs"),
)
"""The folders in which the certificates of KAFKA_TLS_* may be mounted."""
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
USERS: Final = ("KAFKA_CLIENT_USERS", "KAFKA_CLIENT_PASSWORDS")
CLIENT_AUTH: Final = ("", "none", "requested", "required")
YES: Final = ("yes", "true", "1")
NO: Final = ("no", "false", "0")


def setting_of(variable: str) -> str:
    """The setting of a KAFKA_CFG_ variable: each underscore is a dot, but not within SASL_SSL."""
    name = variable.removeprefix("KAFKA_CFG_").lower()
    name = name.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")
    for protocol in ("sasl_ssl", "sasl_plaintext"):
        name = name.replace(protocol.replace("_", "."), protocol)
    return name


def finish(reading: VariableReading) -> None:
    """Read what several variables say together.  Raises ConfigError."""
    _check_plaintext(reading)
    _tls(reading)
    _logins(reading)


def words(text: str) -> list[str]:
    """The parts of a list with commas or semicolons."""
    return [part.strip() for part in text.replace(";", ",").split(",") if part.strip()]


def jaas(module: str, options: dict[str, str]) -> str:
    """A line of JAAS with a module and its options."""

    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return " ".join([module, *(f"{name}={quoted(value)}" for name, value in options.items())]) + ";"


def _check_plaintext(reading: VariableReading) -> None:
    """Raise ConfigError if ALLOW_PLAINTEXT_LISTENER forbids what the listeners are."""
    allowed = reading.given("ALLOW_PLAINTEXT_LISTENER").lower()
    if allowed and allowed not in (*YES, *NO):
        raise ConfigError(f"ALLOW_PLAINTEXT_LISTENER={allowed}: write yes or no")
    plain = [name for name, of in protocols_of(reading).items() if of == "PLAINTEXT"]
    if allowed in NO and plain:
        raise ConfigError(
            f"ALLOW_PLAINTEXT_LISTENER={allowed} forbids the listener {plain[0]}, whose protocol "
            "is PLAINTEXT: write yes, or give it another protocol by "
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP"
        )


def _logins(reading: VariableReading) -> None:
    """Turn KAFKA_CLIENT_USERS and the like into JAAS settings and users of SCRAM."""
    users = _client_users(reading)
    asked = [name for name in (*USERS, "KAFKA_INTER_BROKER_USER") if reading.given(name)]
    sasl = [name for name, of in protocols_of(reading).items() if of.startswith("SASL_")]
    if not asked:
        return
    if not sasl:
        for name in asked:
            reading.ignored[name] = "no listener has the protocol SASL_PLAINTEXT or SASL_SSL"
        return
    between = _between_brokers(reading)
    everybody = {**users, **_pair(between)}
    reading.default("sasl.enabled.mechanisms", MECHANISMS_DEFAULT, asked[0])
    mechanisms = words(reading.settings["sasl.enabled.mechanisms"].upper())
    scram = tuple(mechanism for mechanism in mechanisms if mechanism.startswith("SCRAM-"))
    lines = {mechanism: jaas(SCRAM_MODULE, between) for mechanism in scram}
    if "PLAIN" in mechanisms:
        own = {f"user_{name}": password for name, password in everybody.items()}
        lines["PLAIN"] = jaas(PLAIN_MODULE, {**between, **own})
    for listener in sasl:
        for mechanism, line in lines.items():
            name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
            reading.default(name, line, asked[0])
    if scram:
        for name, password in everybody.items():
            reading.users[name] = ImageUser(password, scram)


def _between_brokers(reading: VariableReading) -> dict[str, str]:
    """The options of the login between brokers; none without one.  Raises ConfigError."""
    names = {"username": "KAFKA_INTER_BROKER_USER", "password": "KAFKA_INTER_BROKER_PASSWORD"}
    between = {
        option: reading.given(variable)
        for option, variable in names.items()
        if reading.given(variable)
    }
    if len(between) == 1:
        raise ConfigError(f"{' and '.join(names.values())} belong together: set both")
    return between


def _pair(between: dict[str, str]) -> dict[str, str]:
    return {between["username"]: between["password"]} if between else {}


def _client_users(reading: VariableReading) -> dict[str, str]:
    """The passwords by user.  Raises ConfigError if there are more of one than of the other."""
    names, passwords = (words(reading.given(variable)) for variable in USERS)
    if len(names) != len(passwords):
        raise ConfigError(
            f"KAFKA_CLIENT_USERS has {len(names)} users and KAFKA_CLIENT_PASSWORDS has "
            f"{len(passwords)} passwords: give each user one, in the same order"
        )
    return dict(zip(names, passwords, strict=True))


def _tls(reading: VariableReading) -> None:
    """Turn KAFKA_TLS_* and the mounted certificates into the settings ssl.*."""
    has_tls = any(of in ("SSL", "SASL_SSL") for of in protocols_of(reading).values())
    variables = [name for name in reading.environ if name.startswith("KAFKA_TLS_")]
    for name in variables:
        if name.endswith("_CLIENT_AUTH") and reading.given(name) not in CLIENT_AUTH:
            raise ConfigError(f"{name}: write none, requested or required")
    if not (has_tls and variables and any(folder.is_dir() for folder in CERTIFICATES)):
        reason = f"no certificates are mounted in {CERTIFICATES[1]}"
        for name in variables:
            reading.ignored[name] = reason if has_tls else "no listener has TLS"
        return
    kind = reading.given("KAFKA_TLS_TYPE").upper() or "JKS"
    if kind not in ("JKS", "PEM"):
        raise ConfigError(f"KAFKA_TLS_TYPE={kind}: write JKS or PEM")
    auth = reading.given("KAFKA_TLS_CLIENT_AUTH") or "required"
    reading.default("ssl.client.auth", auth, "KAFKA_TLS_CLIENT_AUTH")
    for listener in protocols_of(reading):
        own = f"KAFKA_TLS_{listener}_CLIENT_AUTH"
        if reading.given(own):
            name = f"listener.name.{listener.lower()}.ssl.client.auth"
            reading.default(name, reading.given(own), own)
    _stores(reading, kind)


def _stores(reading: VariableReading, kind: str) -> None:
    """Set the key store and the trust store, which are of a kind, and their passwords."""
    origin = "KAFKA_TLS_TYPE"
    trusted = reading.given("KAFKA_TLS_TRUSTSTORE_FILE")
    trusted = trusted or _file(f"kafka.truststore.{kind.lower()}")
    names = ["ssl.key.password"]
    if kind == "PEM":
        for setting, path in (
            ("ssl.keystore.key", _file("kafka.keystore.key")),
            ("ssl.keystore.certificate.chain", _file("kafka.keystore.pem")),
            ("ssl.truststore.certificates", trusted),
        ):
            reading.default(setting, read_file(path, origin), origin)
    else:
        reading.default("ssl.keystore.location", _file("kafka.keystore.jks"), origin)
        reading.default("ssl.truststore.location", trusted, origin)
        names += ["ssl.keystore.password", "ssl.truststore.password"]
    for store in ("keystore", "truststore"):
        reading.default(f"ssl.{store}.type", kind, origin)
    if password := reading.given("KAFKA_CERTIFICATE_PASSWORD"):
        for name in names:
            reading.default(name, password, "KAFKA_CERTIFICATE_PASSWORD")


def _file(name: str) -> str:
    """The path of a mounted certificate or key, in the first folder that has it."""
    paths = [folder / name for folder in CERTIFICATES]
    return str(next((path for path in paths if path.is_file()), paths[-1]))
