"""`ssl.principal.mapping.rules` beside Apache Kafka's own SslPrincipalMapper, on drawn cases."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from kwire.conformance.apache_kafka import source_command
from kwire.security.tls.error import TlsError
from kwire.security.tls.principal_rules import NoMatchingRule, PrincipalRules

SOURCE = Path(__file__).with_name("AskMapper.java")
CASES = 20_000

NAMES = (
    "CN=alice",
    "CN=Alice,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown",
    "CN=kafka1.example.com,OU=SME,O=mycp,L=Fulton,ST=MD,C=US",
    "cn=adminUser,ou=ops,o=x",
    "OU=ops,CN=bob",
    "CN=a\\,b,OU=c",
    "CN=müller,O=Zürich",
    "1.2.840.113549.1.9.1=#1613,CN=x",
    "",
)
PATTERNS = (
    "^CN=(.*?),OU=ServiceUsers.*$",
    "^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$",
    "^cn=(.*?),ou=(.*?),.*$",
    "CN=([^,]*).*",
    "CN=(?<who>[^,]*).*",
    "(.*)",
    ".*",
    "^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$",
    "(CN|OU)=(\\w+)",
    "CN=(a)(l)(i)(c)(e)",
    "",
    "(",
    "CN=\\/x",
)
REPLACEMENTS = (
    "$1",
    "$1@$2",
    "${who}",
    "$0",
    "$12",
    "$9",
    "user",
    "",
    "\\$1",
    "a\\/b",
    "$",
    "x$1y$2z",
    "$1$1",
)
FLAGS = ("", "", "L", "U", "X", "LU")
ODD = (
    "DEFAULT",
    "default",
    "RULE:",
    "RULE:x",
    "RULE:a/b",
    "",
    " ",
    "DEFAULTX",
    "RULE:^CN=(.*)$/$1/L/x",
)


def draw_rules(rng: random.Random) -> str:
    rules = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.15:
            rules.append(rng.choice(ODD))
        else:
            parts = rng.choice(PATTERNS), rng.choice(REPLACEMENTS), rng.choice(FLAGS)
            rules.append("RULE:{}/{}/{}".format(*parts))
    if rng.random() < 0.4:
        rules.append("DEFAULT")
    return rng.choice((",", ", ", " , ")).join(rules)


def answer(rules: str, name: str) -> str:
    """In the words of AskMapper.java."""
    try:
        mapper = PrincipalRules(rules)
    except TlsError:
        return "bad rules"
    try:
        return f"name {mapper.principal_name(name)}"
    except NoMatchingRule:
        return "no rule"


@pytest.mark.slow
def test_principal_rules_match_kafkas_class(apache_kafka_libs: Path) -> None:
    rng = random.Random("names")
    cases = [(draw_rules(rng), rng.choice(NAMES)) for _ in range(CASES)]
    asked = "".join(f"{rules}\t{name}\n" for rules, name in cases)
    command = source_command(SOURCE, jars=apache_kafka_libs)
    done = subprocess.run(command, input=asked.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    theirs = done.stdout.decode().split("\n")[:-1]
    assert len(theirs) == CASES
    different = {
        (case, ours, their)
        for case, their in zip(cases, theirs, strict=True)
        if (ours := answer(*case)) != their and their != "bad reference"
    }
    assert not different, sorted(different)[:20]
    assert {"bad rules", "no rule"} < {*theirs}
