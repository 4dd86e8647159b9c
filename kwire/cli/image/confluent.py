"""The variables of the image confluentinc/cp-kafka: key stores, and a JAAS file for logins."""

from __future__ import annotations

import re
from typing import Final

from kwire.cli.image.bitnami import jaas, words
from kwire.cli.image.reading import VariableReading, protocols_of, read_file
from kwire.settings.error import ConfigError

IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
SECRETS: Final = "/etc/kafka/secrets"
CREDENTIALS: Final = {
    "KAFKA_SSL_KEY_CREDENTIALS": "ssl.key.password",
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "ssl.keystore.password",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "ssl.truststore.password",
}
"""The setting of the password in the file that a variable names."""
FILE_NAMES: Final = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "ssl.keystore.location",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "ssl.truststore.location",
}
_LOGIN_CONFIG = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")
_SECTION = re.compile(r"(?P<name>[\w.\-]+)\s*\{(?P<body>[^{}]*)\}\s*;")
_COMMENT = re.compile(r"/\*.*?\*/|^\s*(?://|#)[^\n]*", re.DOTALL | re.MULTILINE)


def finish(reading: VariableReading) -> None:
    """Read the files that variables name.  Raises ConfigError."""
    for variable, setting in FILE_NAMES.items():
        if name := reading.given(variable):
            reading.default(setting, f"{SECRETS}/{name}", variable)
    for variable, setting in CREDENTIALS.items():
        if name := reading.given(variable):
            reading.default(setting, read_file(f"{SECRETS}/{name}", variable).strip(), variable)
    if reading.settings.get(IDENTIFICATION, "").lower() == "none":
        reading.settings[IDENTIFICATION] = ""  # Kafka's brokers take the word, and check nothing
    if match := _LOGIN_CONFIG.search(reading.given("KAFKA_OPTS")):
        _logins(reading, match[1].strip("'\""))


def _logins(reading: VariableReading, path: str) -> None:
    """Turn the sections KafkaServer of a JAAS file into settings of the listeners with SASL."""
    from kwire.security.sasl.jaas import JaasError, parse_modules

    sasl = [name for name, of in protocols_of(reading).items() if of.startswith("SASL_")]
    if not sasl:
        return
    text = _COMMENT.sub("", read_file(path, "KAFKA_OPTS"))
    sections = {match["name"].lower(): match["body"] for match in _SECTION.finditer(text)}
    mechanisms = words(reading.settings.get("sasl.enabled.mechanisms", "").upper())
    if not mechanisms:
        raise ConfigError(
            f"the listener {sasl[0]} needs KAFKA_SASL_ENABLED_MECHANISMS: PLAIN, SCRAM-SHA-256, "
            "SCRAM-SHA-512 or OAUTHBEARER"
        )
    for listener in sasl:
        body = sections.get(f"{listener.lower()}.kafkaserver", sections.get("kafkaserver"))
        if body is None:
            raise ConfigError(
                f"KAFKA_OPTS: {path} has no section KafkaServer {{ ... }}; for the listener "
                f"{listener} add one with a login module"
            )
        try:
            modules = parse_modules(body)
        except JaasError as problem:
            raise ConfigError(f"KAFKA_OPTS: {path}: {problem}") from None
        for mechanism in mechanisms:
            kind = "Scram" if mechanism.startswith("SCRAM-") else mechanism.capitalize()
            for module in modules:
                if kind.lower() in module.name.lower():
                    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
                    line = jaas(f"{module.name} required", module.options)
                    reading.default(name, line, "KAFKA_OPTS")
