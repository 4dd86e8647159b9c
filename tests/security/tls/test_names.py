"""A certificate's name as Java's X500Principal.getName() writes it."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kwire.security.tls.der import DerError
from kwire.security.tls.names import subject_name
from tests.security.tls.authority import Authority, name_of

NAMES = {
    "CN=localhost,OU=team,O=Org,C=DE": name_of(
        "localhost",
        (NameOID.COUNTRY_NAME, "DE"),
        (NameOID.ORGANIZATION_NAME, "Org"),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "team"),
    ),
    'CN=a\\,b\\+c\\=d\\\\e\\"f\\;g\\<h\\>i\\#j': name_of('a,b+c=d\\e"f;g<h>i#j'),
    "CN=\\ lead and trail\\ ": name_of(" lead and trail "),
    "CN=Jürgen 東京": name_of("Jürgen 東京"),
    "CN=x,ST=Bayern,L=München,STREET=Weg 1,DC=com,UID=7": name_of(
        "x",
        (NameOID.USER_ID, "7"),
        (NameOID.DOMAIN_COMPONENT, "com"),
        (NameOID.STREET_ADDRESS, "Weg 1"),
        (NameOID.LOCALITY_NAME, "München"),
        (NameOID.STATE_OR_PROVINCE_NAME, "Bayern"),
    ),
    "CN=mail,1.2.840.113549.1.9.1=#1603614062": name_of("mail", (NameOID.EMAIL_ADDRESS, "a@b")),
}


def encoded(name: x509.Name) -> bytes:
    return Authority().issue(name).certificate.public_bytes(Encoding.DER)


@pytest.mark.parametrize("written", NAMES)
def test_distinguished_name_matches_java(written: str) -> None:
    assert subject_name(encoded(NAMES[written])) == written


def test_distinguished_name_joins_attributes_of_one_part() -> None:
    kinds = ((NameOID.COMMON_NAME, "a"), (NameOID.USER_ID, "b"))
    part = x509.RelativeDistinguishedName([x509.NameAttribute(*each) for each in kinds])
    country = x509.RelativeDistinguishedName([x509.NameAttribute(NameOID.COUNTRY_NAME, "DE")])
    assert subject_name(encoded(x509.Name([country, part]))) in (
        "CN=a+UID=b,C=DE",
        "UID=b+CN=a,C=DE",
    )


def test_invalid_certificate_bytes_raise_der_error() -> None:
    whole = encoded(name_of("x"))
    for size in range(0, len(whole), 7):
        with pytest.raises(DerError):
            subject_name(whole[:size])
