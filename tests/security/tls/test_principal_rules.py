"""`ssl.principal.mapping.rules`, by the cases of Kafka's own SslPrincipalMapperTest and more."""

from __future__ import annotations

import pytest

from kwire.security.tls.error import TlsError
from kwire.security.tls.principal_rules import NoMatchingRule, PrincipalRules

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"
RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,"
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        (RULES, DUKE, "duke"),
        (RULES, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (RULES, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (RULES, "cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        (RULES, "OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        ("DEFAULT", DUKE, DUKE),
        (" DEFAULT ", DUKE, DUKE),
        ("", DUKE, None),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DUKE, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L , DEFAULT", DUKE, "duke"),
        ("RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/", "CN=bob,O=x", "bob"),
        ("RULE:^CN=(\\w+),.*$/a\\/b $1/U", DUKE, "A/B DUKE"),
        ("RULE:^CN=(.*?),.*$/$1@$4/", DUKE, "Duke@$4"),
        ("RULE:^CN=(.*?),.*$/$10/", DUKE, "Duke0"),
        ("RULE:^CN=(?<who>.*?),.*$/${who}/", DUKE, "Duke"),
        ("RULE:Duke/x/", DUKE, None),
    ],
)
def test_principal_rules_map_names_like_kafka(rules: str, name: str, principal: str | None) -> None:
    if principal is None:
        with pytest.raises(NoMatchingRule, match="No rules apply to"):
            PrincipalRules(rules).principal_name(name)
    else:
        assert PrincipalRules(rules).principal_name(name) == principal


@pytest.mark.parametrize(
    "rules",
    [
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/LU",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "DEFAULT/L",
        "DEFAULT/U",
        "default",
        "RULE:(/x/",
    ],
)
def test_invalid_principal_rules_are_refused(rules: str) -> None:
    with pytest.raises(TlsError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(rules)
